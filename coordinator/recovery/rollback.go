package recovery

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
// about, beside those of its last checkpoint.
func (b *rollback) extend(s Step) Cause {
	c := s.Cause
	if c.Kind == Orphan {
		_, c.Last = b.orphans(c.Peer, b.at[c.Peer], s.Rank, s.From)
	} else {
		_, c.Last = b.lost(s.Rank, s.From, c.Peer, b.at[c.Peer])
	}
	return c
}
