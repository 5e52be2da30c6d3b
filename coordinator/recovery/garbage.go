package recovery

import "fmt"

// Garbage has the states that no recovery can need any more, whichever ranks fail next and
// whatever happens before.
type Garbage struct {
	// Line is the recovery line if all ranks failed now, by rank an index in Checkpoints. Later
	// recoveries do not roll back further: its states stay consistent for ever.
	Line []int
	// Keep and Remove divide the states of each rank, by ascending index. States before the line
	// are removed, and so are later ones that no line can ever contain.
	Keep, Remove [][]int
	// Log[j][i] is the number of the last message from i to j whose log entries can go, payload
	// and determinant: every state kept of j has received it.
	Log [][]uint64
}

// Collect finds the garbage of a running job. Options must be those that its recoveries use.
//
// A line comes to lie on a state only if a chain of rollbacks ends there, and what starts the
// chain is known today: a rank that fails before it takes another checkpoint or, if messages must
// not be in transit, one that fails after it has taken a checkpoint before some message on its
// way today had arrived. The lines from all these starts are therefore all that is needed; in
// mode Allowed they hold at most n(n+1)/2 states of n ranks (Wang, Chung, Lin and Fuchs 1995).
// The newest checkpoint of each rank is kept in any case, for the sake of states yet to be
// rebuilt from it: it may be useless itself. In mode Forbidden the current states of all ranks
// must be known to look ahead of the line; without them all states from the line on are kept.
func Collect(h *History, opt Options) (*Garbage, error) {
	nobody := make([]bool, len(h.Ranks))
	if err := h.check(nobody); err != nil {
		return nil, err
	}
	if err := h.checkMoment(nobody); err != nil {
		return nil, err
	}
	g := &Garbage{}
	b := newRollback(h, opt.InTransit)
	var all []Step
	for r := range h.Ranks {
		all = append(all, back(h, r, len(h.Ranks[r].Checkpoints)-1))
	}
	if stuck, ok := b.run(all); !ok {
		return nil, fmt.Errorf("rank %d cannot go back far enough: %w", stuck, ErrNoLine)
	}
	g.Line = append([]int(nil), b.at...)

	keep := make([][]bool, len(h.Ranks))
	mark := func(r, k int) {
		if k < len(keep[r]) {
			keep[r][k], keep[r][h.Ranks[r].base(k)] = true, true
		}
	}
	for r := range h.Ranks {
		keep[r] = make([]bool, len(h.Ranks[r].Checkpoints))
		newest := h.Ranks[r].base(len(keep[r]) - 1)
		keep[r][newest] = true
	}
	if opt.InTransit == Forbidden && !h.allCurrent() {
		for r, k := range g.Line {
			for ; k < len(keep[r]); k++ {
				mark(r, k)
			}
		}
	} else {
		for r := range h.Ranks {
			for k := range h.Ranks[r].Checkpoints {
				if !h.starts(r, k, opt.InTransit) {
					continue
				}
				b.reset()
				if stuck, ok := b.run([]Step{back(h, r, k)}); !ok {
					return nil, fmt.Errorf("rank %d cannot go back far enough: %w", stuck, ErrNoLine)
				}
				for i, at := range b.at {
					mark(i, at)
				}
			}
		}
	}
	g.divide(h, keep)
	return g, nil
}

func (h *History) allCurrent() bool {
	for r := range h.Ranks {
		if h.Ranks[r].Current == nil {
			return false
		}
	}
	return true
}

// starts tells whether the first rollback of a recovery to come may take rank r to state k: its
// last one or, for the sake of messages on their way today, the last one that had not sent them.
func (h *History) starts(r, k int, mode InTransit) bool {
	states := h.Ranks[r].Checkpoints
	if k == len(states)-1 {
		return true
	}
	if mode == Allowed {
		return false
	}
	for p := range h.Ranks {
		if p != r && h.leaves(r, &states[k], &states[k+1], p) {
			return true
		}
	}
	return false
}

// leaves reports whether r has sent, between two states, the last of the messages on their way to
// p.
func (h *History) leaves(r int, state, next *State, p int) (yes bool) {
	h.Channels(r, p, func(out, in int) {
		sent := at(next.Sent, out)
		yes = yes || sent > at(state.Sent, out) && sent > at(h.Ranks[p].Current.Received, in)
	})
	return yes
}

func (g *Garbage) divide(h *History, keep [][]bool) {
	for r := range keep {
		var kept, removed []int
		for k, needed := range keep[r] {
			if needed {
				kept = append(kept, k)
			} else {
				removed = append(removed, k)
			}
		}
		oldest := &h.Ranks[r].Checkpoints[kept[0]]
		log := make([]uint64, len(keep))
		for p := range log {
			log[p] = h.Received(r, oldest, p)
		}
		g.Keep, g.Remove, g.Log = append(g.Keep, kept), append(g.Remove, removed), append(g.Log, log)
	}
}
