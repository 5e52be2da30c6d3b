package recovery

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// recover puts the job of a recorder into the states of a line. Messages in transit
// are then in transit again: from the log, or because their channel lives.
func (r *Recorder) recover(l *Line) {
	for i, p := range l.Places {
		if !p.Current {
			now := p.State.clone()
			now.Logged = false
			r.ranks[i].Current = &now
			r.ranks[i].Checkpoints = r.ranks[i].Checkpoints[:p.Index+1]
		}
	}
}

// A store is a History from which the garbage is really removed. It maps its
// states to those of the full one.
type store struct {
	gone [][]bool   // by rank and index in the full history
	log  [][]uint64 // by receiver and sender: entries up to this are gone
}

func newStore(n int) *store {
	s := &store{gone: make([][]bool, n), log: make([][]uint64, n)}
	for i := range s.log {
		s.log[i] = make([]uint64, n)
	}
	return s
}

// left returns the history without what is gone, and the indices of its states
// in the full one.
func (s *store) left(h *History) (*History, [][]int) {
	out := &History{}
	var index [][]int
	for r := range h.Ranks {
		rank, idx := Rank{Current: h.Ranks[r].Current}, []int{}
		for k, c := range h.Ranks[r].Checkpoints {
			if k >= len(s.gone[r]) || !s.gone[r][k] {
				rank.Checkpoints, idx = append(rank.Checkpoints, c), append(idx, k)
			}
		}
		out.Ranks, index = append(out.Ranks, rank), append(index, append(idx, len(h.Ranks[r].Checkpoints)))
	}
	return out, index
}

func (s *store) remove(h *History, g *Garbage, index [][]int) int {
	n := 0
	for r, list := range g.Remove {
		for len(s.gone[r]) < len(h.Ranks[r].Checkpoints) {
			s.gone[r] = append(s.gone[r], false)
		}
		for _, k := range list {
			s.gone[r][index[r][k]] = true
			n++
		}
		for p, up := range g.Log[r] {
			s.log[r][p] = max(s.log[r][p], up)
		}
	}
	return n
}

// forget drops the states behind which a recovery went back.
func (s *store) forget(l *Line) {
	for r, p := range l.Places {
		s.gone[r] = s.gone[r][:min(len(s.gone[r]), p.Index+1)]
	}
}

// TestGarbage runs random jobs through several failures and recoveries, twice at
// once: one keeps everything, the other removes at random moments what Collect
// says. Both must find the same lines; what the second loads must be there,
// and so must the log entries that it replays.
func TestGarbage(t *testing.T) {
	recoveries, removed, ahead := 0, 0, 0
	checks(t, 50, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "ranks")
		mode := rapid.SampledFrom(modes()).Draw(t, "mode")
		blind := rapid.IntRange(0, 3).Draw(t, "blind") == 0
		rec, disk := NewRecorder(n), newStore(n)
		collect := func() {
			h := rec.History()
			reduced, index := disk.left(h)
			if blind { // the coordinator knows what is stored and no more
				for r := range reduced.Ranks {
					reduced.Ranks[r].Current = nil
				}
			}
			g, err := Collect(reduced, Options{mode})
			if err != nil {
				t.Fatal(err)
			}
			for r, list := range g.Remove {
				for _, k := range list {
					if k > g.Line[r] {
						ahead++
					}
				}
			}
			removed += disk.remove(h, g, index)
		}
		for range rapid.IntRange(1, 5).Draw(t, "lives") {
			drawEvents(t, rec, 12, 40, mode == Allowed)
			if rapid.IntRange(0, 3).Draw(t, "collect") > 0 {
				collect()
				// Not for long, or all that was there then is behind the line.
				drawEvents(t, rec, 2, 40, mode == Allowed)
			}
			failed := ranksOf(rapid.UintRange(1, 1<<n-1).Draw(t, "failed"))
			full := rec.History()
			reduced, index := disk.left(full)
			want, err := Find(full, failed, Options{mode})
			if err != nil {
				t.Fatal(err)
			}
			got, err := Find(reduced, failed, Options{mode})
			if err != nil {
				t.Fatalf("%v, failed %v: %v%s", mode, failed, err, dump(full))
			}
			for r, p := range got.Places {
				if index[r][p.Index] != want.Places[r].Index {
					t.Fatalf("%v, failed %v: rank %d at %d, with everything kept %d%s", mode, failed, r, index[r][p.Index], want.Places[r].Index, dump(full))
				}
				if !p.Current && index[r][p.Load] != want.Places[r].Load {
					t.Fatalf("%v, failed %v: rank %d is rebuilt from %d, not %d", mode, failed, r, index[r][p.Load], want.Places[r].Load)
				}
			}
			// The log serves the messages in transit and, from the checkpoint on,
			// those that lead to a rebuilt state.
			for _, c := range got.inTransit() {
				if disk.log[c.To][c.From] >= c.First {
					t.Fatalf("%v: message %d of %+v is gone, up to %d", mode, c.First, c, disk.log[c.To][c.From])
				}
			}
			for r, p := range got.Places {
				for i, up := range disk.log[r] {
					if !p.Current && up > reduced.Ranks[r].Checkpoints[p.Load].Received[i] {
						t.Fatalf("%v: rank %d at %d needs from rank %d what is gone up to %d", mode, r, p.Load, i, up)
					}
				}
			}
			recoveries++
			if rapid.Bool().Draw(t, "collect late") {
				collect()
			}
			rec.recover(want)
			disk.forget(want)
		}
	})
	t.Logf("%d recoveries after %d states were removed, %d of these ahead of the line", recoveries, removed, ahead)
}

// TestGarbageIsAll shows that nothing less and nothing more can go: a state is
// kept exactly if it is on the line of some recovery to come, or is what such a
// state is rebuilt from, or is its rank's newest checkpoint, from which one to
// come may be rebuilt.
func TestGarbageIsAll(t *testing.T) {
	kept := 0
	checks(t, 10, func(t *rapid.T) {
		h := drawHistory(t, 6, 6, true)
		n := len(h.Ranks)
		for _, mode := range modes() {
			g, err := Collect(h, Options{mode})
			if err != nil {
				t.Fatal(err)
			}
			needed, onLines := make([]map[int]bool, n), make(map[Checkpoint]bool)
			for r := range needed {
				states := h.Ranks[r].Checkpoints
				needed[r] = map[int]bool{h.Ranks[r].base(len(states) - 1): true}
			}
			for _, future := range futures(h, mode) {
				for f := range n {
					l, err := Find(future, []int{f}, Options{mode})
					if err != nil {
						t.Fatal(err)
					}
					for r, p := range l.Places {
						if !p.Current {
							needed[r][p.Index], needed[r][p.Load] = true, true
							onLines[Checkpoint{r, p.Index}] = true
						}
					}
				}
			}
			for r, list := range g.Keep {
				for _, k := range list {
					if !needed[r][k] {
						t.Fatalf("%v: state %d of rank %d is kept for nothing%s", mode, k, r, dump(h))
					}
					kept++
				}
				for k := range needed[r] {
					if k < len(h.Ranks[r].Checkpoints) && !slices.Contains(list, k) {
						t.Fatalf("%v: state %d of rank %d is removed and needed%s", mode, k, r, dump(h))
					}
				}
				if both := slices.Sorted(slices.Values(append(slices.Clone(list), g.Remove[r]...))); len(both) != len(h.Ranks[r].Checkpoints) {
					t.Fatalf("rank %d: %v kept and %v removed of %d", r, list, g.Remove[r], len(h.Ranks[r].Checkpoints))
				}
			}
			if mode == Allowed && len(onLines) > n*(n+1)/2 {
				t.Fatalf("%d states of %d ranks are on some line", len(onLines), n)
			}
		}
	})
	t.Logf("%d states kept, just those that are needed", kept)
}

// futures are the history itself; with Forbidden also those in which messages on
// their way arrive, as many as some line to come has sent, and those in which
// then one more rank takes a checkpoint.
func futures(h *History, mode InTransit) []*History {
	list := []*History{h}
	if mode == Allowed {
		return list
	}
	n := len(h.Ranks)
	for i := range n {
		for x := range h.Ranks[i].Checkpoints {
			b := newRollback(h, mode)
			b.run([]Step{back(h, i, x)})
			arrived := &History{Ranks: slices.Clone(h.Ranks)}
			for k := range n {
				now := h.Ranks[k].Current.clone()
				for p := range n {
					now.Received[p] = max(now.Received[p], b.state(p, b.at[p]).Sent[k])
				}
				now.Number++
				arrived.Ranks[k].Current = &now
			}
			list = append(list, arrived)
			for k := range n {
				stored := &History{Ranks: slices.Clone(arrived.Ranks)}
				stored.Ranks[k].Checkpoints = append(slices.Clone(h.Ranks[k].Checkpoints), *arrived.Ranks[k].Current)
				list = append(list, stored)
			}
		}
	}
	return list
}
