package recovery

import (
	"fmt"
	"testing"

	"ckpt/internal/testkit"

	"pgregory.net/rapid"
)

// checks runs a property more often than rapid does of its own accord. There is
// no race to be found in it.
func checks(t *testing.T, times int, f func(*rapid.T)) {
	if testkit.Enabled {
		times = 1
	} else if !testkit.Nightly() {
		times = (times + 4) / 5
	}
	for range times {
		if !t.Failed() {
			rapid.Check(t, f)
		}
	}
}

// drawHistory is a random past of at most maxRanks ranks with at most
// maxStates stored states each.
func drawHistory(t *rapid.T, maxRanks, maxStates int, logged bool) *History {
	// The larger jobs are the rule.
	n := maxRanks - rapid.IntRange(0, maxRanks-1).Draw(t, "ranks less")
	rec := NewRecorder(n)
	drawEvents(t, rec, 20, maxStates, logged)
	return rec.History()
}

// drawEvents has about so many events per rank happen, or fewer. An event is
// drawn as one number, so that rapid can shrink histories well: an event that
// goes takes nothing else with it.
func drawEvents(t *rapid.T, rec *Recorder, events, maxStates int, logged bool) {
	n := len(rec.ranks)
	// Of its own accord rapid draws short lists, in which little happens.
	least := n * rapid.SampledFrom([]int{events, events / 2, events / 4, 0}).Draw(t, "events, at least")
	const kinds = 16
	for _, ev := range rapid.SliceOfN(uniform(kinds*n*n), least, least+events*n/4).Draw(t, "events") {
		k, a, b := ev/n/n, ev/n%n, ev%n
		full := len(rec.ranks[a].Checkpoints) >= maxStates
		switch {
		case k < 6 && a != b:
			rec.Send(a, b)
		case k < 12:
			for i := 0; i < n && !rec.Receive(a, (b+i)%n); i++ {
			}
		case k < 14 && !full:
			rec.Checkpoint(a)
		case k < 15 && logged && !full:
			rec.Log(a)
		default:
			rec.Iterate(a)
		}
	}
}

// uniform draws a number below n without favouring the small ones.
func uniform(n int) *rapid.Generator[int] {
	return rapid.Map(rapid.Uint64(), func(v uint64) int {
		v *= 0x9e3779b97f4a7c15
		return int((v ^ v>>32) % uint64(n))
	})
}

func modes() []InTransit { return []InTransit{Forbidden, Allowed} }

// A brute looks at all combinations of states. It shares nothing with the
// package but the types.
type brute struct {
	h    *History
	mode InTransit
}

func (b brute) at(r, k int) *State {
	if k < len(b.h.Ranks[r].Checkpoints) {
		return &b.h.Ranks[r].Checkpoints[k]
	}
	return b.h.Ranks[r].Current
}

// agree is the definition of consistency for one pair of states.
func (b brute) agree(i, x, j, y int) bool {
	s, r := b.at(i, x), b.at(j, y)
	both := x == len(b.h.Ranks[i].Checkpoints) && y == len(b.h.Ranks[j].Checkpoints)
	for _, c := range [][2]uint64{{s.Sent[j], r.Received[i]}, {r.Sent[i], s.Received[j]}} {
		sent, received := c[0], c[1]
		if received > sent || b.mode == Forbidden && !both && sent > received {
			return false
		}
	}
	return true
}

// lets tells whether x of i lets j be at y: i has sent what j has received then,
// and has received what j has sent then.
func (b brute) lets(i, x, j, y int) bool {
	s, r := b.at(i, x), b.at(j, y)
	return r.Received[i] <= s.Sent[j] && (b.mode == Allowed || r.Sent[i] <= s.Received[j])
}

// consistent calls f with every consistent combination.
func (b brute) consistent(f func(at []int)) {
	at := make([]int, 0, len(b.h.Ranks))
	var extend func()
	extend = func() {
		j := len(at)
		if j == len(b.h.Ranks) {
			f(at)
			return
		}
	next:
		for y := range len(b.h.Ranks[j].Checkpoints) + 1 {
			for i, x := range at {
				if !b.agree(i, x, j, y) {
					continue next
				}
			}
			at = append(at, y)
			extend()
			at = at[:j]
		}
	}
	extend()
}

// within tells whether no rank of the combination is later than the failures
// let it be.
func (b brute) within(at []int, failed uint) bool {
	for r, k := range at {
		if failed>>r&1 == 1 && k == len(b.h.Ranks[r].Checkpoints) {
			return false
		}
	}
	return true
}

func ranksOf(set uint) (list []int) {
	for r := range 32 {
		if set>>r&1 == 1 {
			list = append(list, r)
		}
	}
	return list
}

func indices(l *Line) (list []int) {
	for _, p := range l.Places {
		list = append(list, p.Index)
	}
	return list
}

func dump(h *History) string {
	s := ""
	for r := range h.Ranks {
		s += fmt.Sprintf("\nrank %d:", r)
		for k, c := range h.Ranks[r].Checkpoints {
			s += fmt.Sprintf(" %d{log %t, sent %d, received %d}", k, c.Logged, c.Sent, c.Received)
		}
		if c := h.Ranks[r].Current; c != nil {
			s += fmt.Sprintf(" now{sent %d, received %d}", c.Sent, c.Received)
		}
	}
	return s
}

// A span is a range of the messages from one rank to another.
type span struct {
	From, To    int
	First, Last uint64
}

// inTransit lists the messages that cross the line: sent before it and received
// behind it. With Allowed the receivers need them from the log. Those between two
// ranks that keep their current states are left out: they arrive by themselves.
func (l *Line) inTransit() []span {
	var list []span
	for i := range l.Places {
		for j := range l.Places {
			from, to := &l.Places[i], &l.Places[j]
			if i == j || from.Current && to.Current {
				continue
			}
			if first, last := to.State.receivedFrom(i)+1, from.State.sentTo(j); first <= last {
				list = append(list, span{i, j, first, last})
			}
		}
	}
	return list
}

func (s *State) sentTo(peer int) uint64       { return at(s.Sent, peer) }
func (s *State) receivedFrom(peer int) uint64 { return at(s.Received, peer) }
