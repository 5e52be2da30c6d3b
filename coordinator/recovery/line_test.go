package recovery

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLineIsMaximal compares with all combinations of states, for every set of
// failed ranks and both rules: the latest state of each rank in any consistent
// combination make up a consistent combination, and that is our line.
func TestLineIsMaximal(t *testing.T) {
	histories, lines, dominoes, deepest := 0, 0, 0, 0
	checks(t, 30, func(t *rapid.T) {
		h := drawHistory(t, 6, 6, true)
		histories++
		n := len(h.Ranks)
		for _, mode := range modes() {
			b := brute{h, mode}
			best := make([][]int, 1<<n)
			there := make(map[string]bool)
			b.consistent(func(at []int) {
				there[key(at)] = true
				for set := range uint(1) << n {
					if !b.within(at, set) {
						continue
					}
					if best[set] == nil {
						best[set] = slices.Clone(at)
					}
					for r, k := range at {
						best[set][r] = max(best[set][r], k)
					}
				}
			})
			for set, want := range best {
				if !there[key(want)] || !b.within(want, uint(set)) {
					t.Fatalf("%v: the latest states %v of all lines are no line%s", mode, want, dump(h))
				}
				line, err := Find(h, ranksOf(uint(set)), Options{mode})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(indices(line), want) {
					t.Fatalf("%v, failed %v: line %v, want %v%s", mode, line.Failed, indices(line), want, dump(h))
				}
				checkSteps(t, h, line)
				checkInTransit(t, line)
				lines++
				deepest = max(deepest, line.Depth)
				if line.Depth > 1 {
					dominoes++
				}
			}
		}
	})
	t.Logf("%d histories, %d lines equal to brute force, %d with a domino effect, the deepest of %d waves", histories, lines, dominoes, deepest)
}

func key(at []int) string {
	b := make([]byte, len(at))
	for i, k := range at {
		b[i] = byte(k)
	}
	return string(b)
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkSteps replays the steps: each starts where its rank is, has its cause
// behind it, and is neither more nor less than the cause forces.
func checkSteps(t fataler, h *History, l *Line) {
	t.Helper()
	at := make([]int, len(h.Ranks))
	for r := range at {
		at[r] = len(h.Ranks[r].Checkpoints)
	}
	b := brute{h, l.Options.InTransit}
	depth := 0
	for i, s := range l.Steps {
		if s.From != at[s.Rank] || s.To >= s.From {
			t.Fatalf("step %d of rank %d from %d to %d, which is at %d", i, s.Rank, s.From, s.To, at[s.Rank])
		}
		c := s.Cause
		if c.Kind == Failure {
			if s.Wave != 0 || !slices.Contains(l.Failed, s.Rank) || c.Step != -1 {
				t.Fatalf("step %d: %+v is no failure", i, s)
			}
		} else {
			because := l.Steps[c.Step]
			if c.Step >= i || because.Rank != c.Peer && because.Rank != s.Rank || because.Wave != s.Wave-1 {
				t.Fatalf("step %d: %+v is not caused by step %d: %+v", i, s, c.Step, because)
			}
			to := because.To
			if because.Rank == s.Rank {
				to = len(h.Ranks[c.Peer].Checkpoints)
			}
			if b.lets(c.Peer, to, s.Rank, s.To+1) || !b.lets(c.Peer, to, s.Rank, s.To) {
				t.Fatalf("step %d: %+v is not what step %d forces", i, s, c.Step)
			}
			old, peer := b.at(s.Rank, s.From), b.at(c.Peer, to)
			first, last := peer.Sent[s.Rank]+1, old.Received[c.Peer]
			if c.Kind == Lost {
				first, last = peer.Received[s.Rank]+1, old.Sent[c.Peer]
			}
			if c.First != first || c.Last != last || first > last {
				t.Fatalf("step %d: messages %d to %d, want %d to %d", i, c.First, c.Last, first, last)
			}
		}
		at[s.Rank], depth = s.To, max(depth, s.Wave)
	}
	if !slices.Equal(at, indices(l)) || depth != l.Depth {
		t.Fatalf("the steps lead to %v in %d waves, the line is %v in %d", at, depth, indices(l), l.Depth)
	}
	for r, p := range l.Places {
		if p.Current != (p.Index == len(h.Ranks[r].Checkpoints)) || p.Current != (p.Load < 0) {
			t.Fatalf("place %+v", p)
		}
		if !p.Current && (h.Ranks[r].Checkpoints[p.Load].Logged || p.Load > p.Index || p.Load < p.Index && !p.State.Logged) {
			t.Fatalf("rank %d at %d is loaded from %d", r, p.Index, p.Load)
		}
	}
}

// checkInTransit checks that the messages in transit are what they should be.
func checkInTransit(t fataler, l *Line) {
	t.Helper()
	list := l.inTransit()
	if l.Options.InTransit == Forbidden && len(list) > 0 {
		t.Fatalf("%v is lost", list)
	}
	for _, c := range list {
		from, to := l.Places[c.From].State, l.Places[c.To].State
		if c.First != to.Received[c.From]+1 || c.Last != from.Sent[c.To] || c.First > c.Last {
			t.Fatalf("%+v is not in transit", c)
		}
	}
}

func TestNobodyFailed(t *testing.T) {
	h := Domino()
	line, err := Find(h, nil, Options{})
	if err != nil || len(line.Steps) > 0 || !line.Places[1].Current {
		t.Errorf("%+v, %v", line, err)
	}
}

func TestBadHistories(t *testing.T) {
	good := func() *History {
		return &History{Ranks: []Rank{
			{Checkpoints: []State{{}, {Number: 1, Iteration: 3, Sent: []uint64{0, 2}}}, Current: &State{Iteration: 9, Sent: []uint64{0, 5}, Received: []uint64{0, 5}}},
			{Checkpoints: []State{{}, {Number: 2, Iteration: 4, Received: []uint64{2}}}, Current: &State{Iteration: 8, Sent: []uint64{5}, Received: []uint64{5}}},
		}}
	}
	if _, err := Find(good(), []int{0}, Options{}); err != nil {
		t.Fatal(err)
	}
	for text, spoil := range map[string]func(*History) (failed int){
		"history of rank 1: no checkpoint, not even the initial state":                       func(h *History) int { h.Ranks[1].Checkpoints = nil; return 0 },
		"history of rank 1, state 0: no checkpoint before it to rebuild it from":             func(h *History) int { h.Ranks[1].Checkpoints[0].Logged = true; return 0 },
		"history of rank 0, state 1: counters of 3 peers in a job of 2 ranks":                func(h *History) int { h.Ranks[0].Checkpoints[1].Received = make([]uint64, 3); return 0 },
		"history of rank 0, state 1: checkpoint 0 comes after checkpoint 0":                  func(h *History) int { h.Ranks[0].Checkpoints[1].Number = 0; return 0 },
		"history of rank 0, state 1: rebuilt from checkpoint 1 and follows checkpoint 0":     func(h *History) int { h.Ranks[0].Checkpoints[1].Logged = true; return 0 },
		"history of rank 0, state 2: iteration 9 comes after iteration 12":                   func(h *History) int { h.Ranks[0].Checkpoints[1].Iteration = 12; return 1 },
		"history of rank 0, state 2: 5 messages sent to rank 1, 7 in the state before":       func(h *History) int { h.Ranks[0].Checkpoints[1].Sent[1] = 7; return 1 },
		"history of rank 1, state 2: 5 messages received from rank 0, 6 in the state before": func(h *History) int { h.Ranks[1].Checkpoints[1].Received[0] = 6; return 0 },
		"history of rank 1, state 2: it has not failed and its current state is not known":   func(h *History) int { h.Ranks[1].Current = nil; return 0 },
		"history of rank 1, state 1: 6 messages received from rank 0, which has sent 5":      func(h *History) int { h.Ranks[1].Checkpoints[1].Received[0] = 6; return 1 },
		"history of rank 0, state 1: 9 messages received from rank 1, which has sent 5":      func(h *History) int { h.Ranks[0].Checkpoints[1].Received = []uint64{0, 9}; return 0 },
		"rank 0 cannot roll back far enough: no consistent set of checkpoints": func(h *History) int {
			h.Ranks[0].Checkpoints[0].Received = []uint64{0, 1}
			h.Ranks[0].Checkpoints[1].Received = []uint64{0, 1}
			return 1
		},
		"history of rank 2: no such rank in a job of 2": func(*History) int { return 2 },
	} {
		h := good()
		failed := spoil(h)
		_, err := Find(h, []int{failed}, Options{})
		if err == nil || err.Error() != text {
			t.Errorf("got  %v\nwant %s", err, text)
		}
		if !errors.Is(err, ErrNoLine) && !errors.As(err, new(*Error)) {
			t.Errorf("error of no kind: %v", err)
		}
	}
}

// TestRebuilt goes back to a state that an optimistic log leads to.
func TestRebuilt(t *testing.T) {
	rec := NewRecorder(2)
	rec.Checkpoint(1)
	rec.Send(0, 1)
	rec.Checkpoint(0)
	rec.Receive(1, 0)
	rec.Log(1) // the first receive is stable
	rec.Send(1, 0)
	rec.Send(0, 1)
	rec.Receive(1, 0) // the second is not
	rec.Send(1, 0)
	rec.Receive(0, 1)
	rec.Checkpoint(0)
	rec.Receive(0, 1) // depends on what is lost
	line, err := Find(rec.History(), []int{1}, Options{Allowed})
	if err != nil {
		t.Fatal(err)
	}
	// Rank 1 is rebuilt to just after its first receive; it has not sent what
	// rank 0 had received before its checkpoint.
	if p := line.Places[1]; p.Index != 2 || p.Load != 1 || !p.State.Logged || p.LostCheckpoints != 0 {
		t.Errorf("rank 1: %+v", p)
	}
	if p := line.Places[0]; p.Index != 1 || p.LostCheckpoints != 1 {
		t.Errorf("rank 0: %+v", p)
	}
}

func BenchmarkFind(b *testing.B) {
	h := Relay(64, 64)
	for b.Loop() {
		if _, err := Find(h, []int{0}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
