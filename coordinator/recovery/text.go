package recovery

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// textSteps is the number of steps that Text prints: of a longer list the first and
// the last ones.
const textSteps = 20

// Text prints a line as a table for a terminal of 80 columns, then the steps that
// led to it. Unless garbage is nil, it also counts the removable states. The text
// calls a rank of the history by unit: "rank", or "group" if its ranks are groups.
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

// describe names the state that the rank resumes from.
func (p *Place) describe() string {
	switch {
	case p.Current:
		return fmt.Sprintf("its current state, iteration %d", p.State.Iteration)
	case p.State.Number == 0 && !p.State.Logged:
		return "the beginning"
	}
	return fmt.Sprintf("%s, iteration %d", p.State.name(), p.State.Iteration)
}

// name names a stored state.
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

// explain describes a step and its cause.
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
