package recovery

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// InTransit is the fate of messages that a line shows as sent and not yet received.
type InTransit uint8

const (
	// Forbidden: they are lost. The channels are empty after a recovery, so no line may need one,
	// but for those between two ranks that keep their current states. It is the mode without
	// message logs.
	Forbidden InTransit = iota
	// Allowed: they are in a message log, or the channels are stored in another way, and are
	// delivered again.
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
	// Steps led to the line. Every step comes after its cause: first the failures, then, wave by
	// wave, the ranks that are forced back.
	Steps []Step
	// Depth is the depth of the domino effect: the length of the longest chain of steps of which
	// each forced the next; 0 if only the failed ranks roll back, to their last states.
	Depth int
}

// A Place is the point at which the line crosses a rank.
type Place struct {
	Rank    int
	Index   int  // in Rank.Checkpoints, or their number: the current state
	Current bool // the rank keeps the state it is in
	State   State
	// Load is the index of the checkpoint that State is or, if it is Logged, is rebuilt from; -1
	// if the rank keeps its current state.
	Load int
	// LostCheckpoints counts checkpoints after the line, LostIterations iterations up to the
	// current state. If that is not known, iterations count up to the last stored state, and more
	// may be lost.
	LostCheckpoints, LostIterations int
}

// A Step is the rollback of one rank.
type Step struct {
	Rank     int
	From, To int   // indices as Place.Index
	State    State // of index To
	Wave     int   // 0: the rank failed; w: a step of wave w−1 forced it
	Cause    Cause
}

// A Cause is the reason why a rank rolls back.
type Cause struct {
	Kind CauseKind
	Peer int // the rank at the other end; -1 for a failure
	// First and Last number the messages of a channel. Orphan: Peer sent them to the rank, which
	// has received them, and now has not sent them. Lost: the rank sent them to Peer, which now
	// has not received them.
	First, Last uint64
	// Step is the index in Line.Steps of the step that caused this one: Peer's or, if Peer keeps
	// its current state, the last one of the rank itself, which closed its channel to Peer. It is
	// -1 for a failure.
	Step int
}

// CauseKind is a kind of Cause.
type CauseKind uint8

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

// Find returns the recovery line after the ranks in failed have lost their current states. The
// current states of all others must be known. The error is an *Error or ErrNoLine.
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

// textSteps is the number of steps that Text prints: of a longer list the first and the last
// ones.
const textSteps = 20

// Text prints a line as a table for a terminal of 80 columns, then the steps that led to it.
// Unless garbage is nil, it also counts the removable states. The text calls a rank of the
// history by unit: "rank", or "group" if its ranks are groups.
func Text(w io.Writer, l *Line, g *Garbage, unit string) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "recovery line after the failure of %s\nmessages in transit are %s\n\n", list(unit, l.Failed),
		map[InTransit]string{Forbidden: "lost", Allowed: "replayed"}[l.Options.InTransit])
	row := func(rank, from, checkpoints, iterations, removable string) {
		line := fmt.Sprintf("%5s  %-37s %11s %10s", rank, from, checkpoints, iterations)
		if g != nil {
			line += fmt.Sprintf(" %9s", removable)
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	row("", "", "checkpoints", "iterations", "states")
	row(unit, "resumes from", "lost", "lost", "removable")
	var checkpoints, iterations, removable int
	for r, p := range l.Places {
		gone := 0
		if g != nil {
			gone = len(g.Remove[r])
		}
		row(fmt.Sprint(r), p.describe(), fmt.Sprint(p.LostCheckpoints), fmt.Sprint(p.LostIterations), fmt.Sprint(gone))
		checkpoints, iterations, removable = checkpoints+p.LostCheckpoints, iterations+p.LostIterations, removable+gone
	}
	row("all", "", fmt.Sprint(checkpoints), fmt.Sprint(iterations), fmt.Sprint(removable))

	switch l.Depth {
	case 0:
		fmt.Fprintf(out, "\nno domino effect: no other %s rolls back\n", unit)
	case 1:
		fmt.Fprintf(out, "\ndomino effect of 1 wave\n")
	default:
		fmt.Fprintf(out, "\ndomino effect of %d waves\n", l.Depth)
	}
	for i, s := range l.Steps {
		if hidden := len(l.Steps) - textSteps; hidden > 1 && i >= textSteps/2 && i < textSteps/2+hidden {
			if i == textSteps/2 {
				fmt.Fprintf(out, "      … %d more steps\n", hidden)
			}
			continue
		}
		fmt.Fprintf(out, "%5d  %s\n", s.Wave, s.explain(unit))
	}
	return out.Flush()
}

func (p *Place) describe() string {
	switch {
	case p.Current:
		return fmt.Sprintf("its current state, iteration %d", p.State.Iteration)
	case p.State.Number == 0 && !p.State.Logged:
		return "the beginning"
	}
	return fmt.Sprintf("%s, iteration %d", p.State.name(), p.State.Iteration)
}

func (s *State) name() string {
	switch {
	case s.Number == 0 && s.Logged:
		return "the beginning and log"
	case s.Number == 0:
		return "the beginning"
	case s.Logged:
		return fmt.Sprintf("checkpoint %d and log", s.Number)
	}
	return fmt.Sprintf("checkpoint %d", s.Number)
}

func (s *Step) explain(unit string) string {
	c := s.Cause
	messages := fmt.Sprintf("message %d", c.First)
	if c.First != c.Last {
		messages = fmt.Sprintf("messages %d–%d", c.First, c.Last)
	}
	switch c.Kind {
	case Orphan:
		return fmt.Sprintf("%s %d to %s: had %s of %s %d, unsent now", unit, s.Rank, s.State.name(), messages, unit, c.Peer)
	case Lost:
		return fmt.Sprintf("%s %d to %s: %s %d would miss %s", unit, s.Rank, s.State.name(), unit, c.Peer, messages)
	}
	return fmt.Sprintf("%s %d failed: to %s", unit, s.Rank, s.State.name())
}

// list names ranks, in full as long as they fit into a line.
func list(unit string, ranks []int) string {
	switch len(ranks) {
	case 0:
		return "no " + unit
	case 1:
		return fmt.Sprintf("%s %d", unit, ranks[0])
	}
	if len(ranks) > 4 {
		return fmt.Sprintf("%d %ss", len(ranks), unit)
	}
	s := unit + "s "
	for i, r := range ranks {
		switch {
		case i == 0:
		case i == len(ranks)-1:
			s += " and "
		default:
			s += ", "
		}
		s += fmt.Sprint(r)
	}
	return s
}
