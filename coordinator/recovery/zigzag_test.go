package recovery

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// interval returns in which interval of a rank, between its checkpoint of that
// index and the next, a message was sent or received.
func interval(states []State, seq uint64, count func(*State) uint64) int {
	k := 0
	for k+1 < len(states) && count(&states[k+1]) < seq {
		k++
	}
	return k
}

// onZigzagCycle is the definition of Netzer and Xu, message by message.
func onZigzagCycle(h *History, rank, k int) bool {
	type hop struct{ from, to, sent, received int } // intervals
	var hops []hop
	for from := range h.Ranks {
		for to := range h.Ranks {
			arrived := h.Ranks[to].Current.Received[from]
			for seq := uint64(1); seq <= arrived; seq++ {
				hops = append(hops, hop{from, to,
					interval(h.Ranks[from].Checkpoints, seq, func(s *State) uint64 { return s.Sent[to] }),
					interval(h.Ranks[to].Checkpoints, seq, func(s *State) uint64 { return s.Received[from] })})
			}
		}
	}
	seen := make([]bool, len(hops))
	var todo []int
	for i, x := range hops {
		if x.from == rank && x.sent >= k {
			seen[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		x := hops[todo[0]]
		todo = todo[1:]
		if x.to == rank && x.received < k {
			return true
		}
		for i, y := range hops {
			if !seen[i] && y.from == x.to && y.sent >= x.received {
				seen[i] = true
				todo = append(todo, i)
			}
		}
	}
	return false
}

// TestUseless compares with the zigzag cycles, searched message by message, and
// with all combinations of states: a checkpoint is useless exactly if it is on
// a cycle, and exactly if no consistent combination holds it.
func TestUseless(t *testing.T) {
	looked, useless := 0, 0
	checks(t, 30, func(t *rapid.T) {
		h := drawHistory(t, 6, 6, false)
		got, err := Useless(h)
		if err != nil {
			t.Fatal(err)
		}
		used := make(map[Checkpoint]bool)
		brute{h, Allowed}.consistent(func(at []int) {
			for r, k := range at {
				used[Checkpoint{r, k}] = true
			}
		})
		for r := range h.Ranks {
			for k := range h.Ranks[r].Checkpoints {
				c := Checkpoint{r, k}
				named, cycle := slices.Contains(got, c), onZigzagCycle(h, r, k)
				if named != cycle || named == used[c] {
					t.Fatalf("%+v: useless %t, on a cycle %t, in a consistent combination %t%s", c, named, cycle, used[c], dump(h))
				}
				looked++
				if cycle {
					useless++
				}
			}
		}
	})
	t.Logf("%d checkpoints, %d of them useless", looked, useless)
}
