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

// A rollback is a computation by rollback propagation: ranks only ever move back, each just as
// far as another one forces it, until no rank is forced any more.
//
// Each rule has one premise, "if i is no later than x, then j is no later than y", and both grow
// together. Hence the result is the maximal consistent line at or before the start, whatever the
// order in which the rules are applied; and the line from several causes is, rank by rank, the
// earliest of the lines from each of them. Collect builds on the latter. The one rule that looks
// different, that a channel dies and loses its messages when either end goes back, has the
// premise "if j is no longer in its current state".
type rollback struct {
	h         *History
	ranks     []Rank
	inTransit InTransit
	// present tells that the failure is now, so that a rank that goes back loses what peers in
	// their current states have not received yet. In a failure to come they may have.
	present bool

	at    []int // by rank: index of its state; len(Checkpoints) is the current one
	moved []int // by rank: the step that brought it where it is, or -1
	steps []Step
	depth int
}

func newRollback(h *History, mode InTransit) *rollback {
	b := &rollback{h: h, ranks: h.Ranks, inTransit: mode, at: make([]int, len(h.Ranks)), moved: make([]int, len(h.Ranks))}
	b.reset()
	return b
}

func back(h *History, r, k int) Step {
	return Step{Rank: r, From: len(h.Ranks[r].Checkpoints), To: k, Cause: Cause{Kind: Failure, Peer: -1, Step: -1}}
}

func (b *rollback) reset() {
	for r := range b.ranks {
		b.at[r], b.moved[r] = len(b.ranks[r].Checkpoints), -1
	}
	b.steps, b.depth = nil, 0
}

// state returns a state, nil for an unknown current state.
func (b *rollback) state(r, k int) *State {
	if k < len(b.ranks[r].Checkpoints) {
		return &b.ranks[r].Checkpoints[k]
	}
	return b.ranks[r].Current
}

// atLeast returns a state that is not later than k and as late as is known.
func (b *rollback) atLeast(r, k int) *State {
	if s := b.state(r, k); s != nil {
		return s
	}
	return &b.ranks[r].Checkpoints[k-1]
}

// orphans returns the numbers of the messages that state y of j has received and state x of i has
// not sent; first > last without any. An unknown current state has sent everything.
func (b *rollback) orphans(i, x, j, y int) (first, last uint64) {
	from := b.state(i, x)
	if from == nil {
		return 1, 0
	}
	n, _ := b.h.differ(i, from, j, b.atLeast(j, y))
	sent := b.h.Sent(i, from, j)
	return sent + 1, sent + n
}

// lost returns the numbers of the messages that state x of i has sent and state y of j has not
// received, if they are lost; first > last without any. An unknown current state has received
// everything.
func (b *rollback) lost(i, x, j, y int) (first, last uint64) {
	live := x == len(b.ranks[i].Checkpoints) && y == len(b.ranks[j].Checkpoints)
	to := b.state(j, y)
	if b.inTransit == Allowed || live || to == nil {
		return 1, 0
	}
	_, n := b.h.differ(i, b.atLeast(i, x), j, to)
	received := b.h.Received(j, to, i)
	return received + 1, received + n
}

// forces tells whether j cannot be at y while i is at x, and by which messages.
func (b *rollback) forces(i, x, j, y int) (Cause, bool) {
	if first, last := b.orphans(i, x, j, y); first <= last {
		return Cause{Kind: Orphan, Peer: i, First: first, Last: last}, true
	}
	if first, last := b.lost(j, y, i, x); first <= last {
		return Cause{Kind: Lost, Peer: i, First: first, Last: last}, true
	}
	return Cause{}, false
}

// run takes the ranks in start back to the states given and all others as far as that forces
// them. It works in waves, so that the length of a chain of causes is the shortest possible and
// the same in every run. If a rank cannot go back far enough it returns false and that rank.
func (b *rollback) run(start []Step) (stuck int, ok bool) {
	movers := make([]bool, len(b.ranks))
	for wave := 1; len(start) > 0; wave++ {
		clear(movers)
		for _, s := range start {
			b.at[s.Rank], b.moved[s.Rank] = s.To, len(b.steps)
			s.State = *b.state(s.Rank, s.To)
			b.steps = append(b.steps, s)
			b.depth = s.Wave
			movers[s.Rank] = true
		}
		start = start[:0]
		for j := range b.ranks {
			step, ok := b.pull(j, movers)
			if !ok {
				return j, false
			}
			if step.To < step.From {
				step.Wave = wave
				start = append(start, step)
			}
		}
	}
	return 0, true
}

// pull finds how far back the movers force j, and names the one that forces it farthest. It moves
// no rank, so that all of a wave see the same states. If j is a mover itself, its channels to
// ranks in their current states have died.
func (b *rollback) pull(j int, movers []bool) (Step, bool) {
	step := Step{Rank: j, From: b.at[j], To: b.at[j]}
	for i, moves := range movers {
		stays := b.present && movers[j] && b.at[i] == len(b.ranks[i].Checkpoints)
		if i == j || !moves && !stays {
			continue
		}
		for {
			cause, forced := b.forces(i, b.at[i], j, step.To)
			if !forced {
				break
			}
			if step.To == 0 {
				return step, false
			}
			cause.Step = b.moved[i]
			if stays {
				cause.Step = b.moved[j]
			}
			step.To, step.Cause = step.To-1, cause
		}
	}
	if step.To < step.From {
		step.Cause = b.extend(step)
	}
	return step, true
}

// extend makes the cause of a step name the messages of the same kind that all of the step is
// about, beside the messages of its last checkpoint.
func (b *rollback) extend(s Step) Cause {
	c := s.Cause
	if c.Kind == Orphan {
		_, c.Last = b.orphans(c.Peer, b.at[c.Peer], s.Rank, s.From)
	} else {
		_, c.Last = b.lost(s.Rank, s.From, c.Peer, b.at[c.Peer])
	}
	return c
}
