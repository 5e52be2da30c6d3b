package recovery

import (
	"fmt"
)

// InTransit is the fate of messages that a line shows as sent and not yet received.
type InTransit uint8

const (
	// Forbidden: they are lost. The channels are empty after a recovery, so no
	// line may need one, but for those between two ranks that keep their
	// current states. It is the mode without message logs.
	Forbidden InTransit = iota
	// Allowed: they are in a message log, or the channels are stored in another
	// way, and are delivered again.
	Allowed
)

func (t InTransit) String() string {
	switch t {
	case Forbidden:
		return "forbidden"
	case Allowed:
		return "allowed"
	}
	return fmt.Sprintf("InTransit(%d)", uint8(t))
}

// Options are the rules of consistency.
type Options struct {
	InTransit InTransit
}

// A Line is a recovery line: the state that each rank resumes from.
type Line struct {
	Options Options
	Failed  []int   // ascending
	Places  []Place // by rank
	// Steps led to the line. Every step comes after its cause: first the failures,
	// then, wave by wave, the ranks that are forced back.
	Steps []Step
	// Depth is that of the domino effect: the length of the longest chain of
	// steps of which each forced the next; 0 if only the failed ranks roll
	// back, and those to their last states.
	Depth int
}

// A Place is the point at which the line crosses a rank.
type Place struct {
	Rank    int
	Index   int  // in Rank.Checkpoints, or their number: the current state
	Current bool // the rank keeps the state it is in
	State   State
	// Load is the index of the checkpoint that State is or, if it is Logged, is
	// rebuilt from; -1 if the rank keeps its current state.
	Load int
	// LostCheckpoints counts checkpoints after the line, LostIterations iterations
	// up to the current state. If that is not known, iterations count up to the
	// last stored state, and more may be lost.
	LostCheckpoints, LostIterations int
}

// A Step is the rollback of one rank.
type Step struct {
	Rank     int
	From, To int   // indices as Place.Index
	State    State // that of index To
	Wave     int   // 0: the rank failed; w: a step of wave w−1 forced it
	Cause    Cause
}

// A Cause is the reason why a rank rolls back.
type Cause struct {
	Kind CauseKind
	Peer int // the rank at the other end; -1 for a failure
	// First and Last number the messages of a channel. Orphan: Peer sent them to
	// the rank, which has received them, and now has not sent them. Lost: the
	// rank sent them to Peer, which now has not received them.
	First, Last uint64
	// Step is the index in Line.Steps of the step that caused this one: that of
	// Peer or, if Peer keeps its current state, the last one of the rank itself,
	// which closed its channel to Peer. It is -1 for a failure.
	Step int
}

// CauseKind is a kind of Cause.
type CauseKind uint8

// The kinds of causes.
const (
	Failure CauseKind = iota
	Orphan
	Lost
)

func (k CauseKind) String() string {
	switch k {
	case Failure:
		return "failure"
	case Orphan:
		return "orphan"
	case Lost:
		return "lost message"
	}
	return fmt.Sprintf("CauseKind(%d)", uint8(k))
}

// Find returns the recovery line after the ranks in failed have lost their
// current states. The current states of all others must be known. The error is
// an *Error or ErrNoLine.
func Find(h *History, failed []int, opt Options) (*Line, error) {
	down := make([]bool, len(h.Ranks))
	for _, r := range failed {
		if r < 0 || r >= len(h.Ranks) {
			return nil, &Error{r, -1, fmt.Sprintf("no such rank in a job of %d", len(h.Ranks))}
		}
		down[r] = true
	}
	if err := h.check(down); err != nil {
		return nil, err
	}
	for r := range h.Ranks {
		if !down[r] && h.Ranks[r].Current == nil {
			return nil, &Error{r, len(h.Ranks[r].Checkpoints), "it has not failed and its current state is not known"}
		}
	}
	if err := h.checkMoment(down); err != nil {
		return nil, err
	}

	line := &Line{Options: opt}
	var start []Step
	for r, d := range down {
		if d {
			last := len(h.Ranks[r].Checkpoints) - 1
			line.Failed = append(line.Failed, r)
			start = append(start, back(h, r, last))
		}
	}
	b := newRollback(h, opt.InTransit)
	b.present = true
	if stuck, ok := b.run(start); !ok {
		return nil, fmt.Errorf("rank %d cannot roll back far enough: %w", stuck, ErrNoLine)
	}
	for r := range h.Ranks {
		line.Places = append(line.Places, place(h, r, b.at[r]))
	}
	line.Steps, line.Depth = b.steps, b.depth
	return line, nil
}

func place(h *History, r, k int) Place {
	rank := &h.Ranks[r]
	if k == len(rank.Checkpoints) {
		return Place{Rank: r, Index: k, Current: true, State: *rank.Current, Load: -1}
	}
	p := Place{Rank: r, Index: k, State: rank.Checkpoints[k], Load: rank.base(k)}
	for _, s := range rank.Checkpoints[k+1:] {
		if !s.Logged {
			p.LostCheckpoints++
		}
	}
	now, _ := h.latest(r, false)
	p.LostIterations = max(0, now.Iteration-p.State.Iteration)
	return p
}
