package images

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol/channel"
	rec "ckpt/coordinator/recovery"
	"ckpt/coordinator/wire"
)

// lineResult is the recovery line of a job as JSON.
type lineResult struct {
	Job       string      `json:"job"`
	Mode      job.Mode    `json:"mode"`
	Log       string      `json:"log"`        // "" in a job of one group
	InTransit string      `json:"in_transit"` // messages that cross the line: "allowed" (replayed) or "forbidden" (would be lost)
	Live      bool        `json:"live"`       // lost_iterations count up to the current iteration of the job, not only to its newest checkpoints
	Line      []linePlace `json:"places"`     // by group
	Numbers   []int       `json:"line"`       // the checkpoint of each group, 0 the beginning
	Domino    int         `json:"domino"`     // the largest wave of a step
	Steps     []lineStep  `json:"steps"`
	Removable []int       `json:"removable"` // checkpoints that no recovery needs
	Useless   []int       `json:"useless"`   // checkpoints that no recovery line can hold
}

type linePlace struct {
	Group           int   `json:"group"`
	Ranks           []int `json:"of"`
	Checkpoint      int   `json:"checkpoint"` // 0: the beginning
	Iteration       int   `json:"iteration"`  // of it
	Replays         bool  `json:"replays"`    // a message log behind it
	LostCheckpoints int   `json:"lost_checkpoints"`
	LostIterations  int   `json:"lost_iterations"` // of each of the ranks
}

type lineStep struct {
	Wave       int    `json:"wave"` // 0: the rank failed; w: a step of wave w−1 forced it
	Group      int    `json:"group"`
	Checkpoint int    `json:"checkpoint"`    // to which the group rolls back
	Cause      string `json:"cause"`         // failure, orphan or lost message
	Peer       int    `json:"peer"`          // group at the other end; −1 none
	First      uint64 `json:"first_message"` // messages between the two, counted from 1
	Last       uint64 `json:"last_message"`
	Step       int    `json:"step"` // index of the step that forced it; −1 none
}

func showLine(ctx context.Context, g *ui.Globals, job, plot string) error {
	format := strings.TrimPrefix(filepath.Ext(plot), ".")
	if format == "json" {
		return ui.BadUsage(fmt.Sprintf("--plot %q: a recovery line has no form as data", plot), "end the name with .svg, .png or .pdf")
	}
	if err := ui.CheckPlotName(plot); err != nil {
		return err
	}
	store, err := g.OpenStore()
	if err != nil {
		return err
	}
	l, err := wire.FindLine(ctx, store, job)
	if err != nil {
		return err
	}
	for _, err := range l.Passed {
		g.Warn("%s", ui.OneLine(err.Error()))
	}
	if plot != "" {
		if err := plotLine(l, plot, format); err != nil {
			return err
		}
	}
	return g.Show(describeLine(l), func() error { return printLine(g, l) })
}

func describeLine(l *job.StoredLine) lineResult {
	r := lineResult{Job: l.Job, Mode: l.Mode, InTransit: l.Line.Options.InTransit.String(), Live: l.Live,
		Domino: l.Line.Depth, Steps: []lineStep{}, Removable: []int{}, Useless: []int{}}
	if l.Several() {
		r.Log = l.Log.String()
	}
	for g, p := range l.Line.Places {
		r.Numbers = append(r.Numbers, p.State.Number)
		r.Line = append(r.Line, linePlace{g, l.Groups[g], p.State.Number, p.State.Iteration,
			l.Pessimistic() || p.State.Logged, p.LostCheckpoints, p.LostIterations})
		for _, k := range l.Garbage.Remove[g] {
			if s := l.History.Ranks[g].Checkpoints[k]; s.Number > 0 && !s.Logged {
				r.Removable = append(r.Removable, s.Number)
			}
		}
	}
	for _, s := range l.Line.Steps {
		r.Steps = append(r.Steps, lineStep{s.Wave, s.Rank, s.State.Number, s.Cause.Kind.String(), s.Cause.Peer, s.Cause.First, s.Cause.Last, s.Cause.Step})
	}
	for _, c := range l.Useless {
		r.Useless = append(r.Useless, l.History.Ranks[c.Rank].Checkpoints[c.Index].Number)
	}
	slices.Sort(r.Removable)
	slices.Sort(r.Useless)
	return r
}

func printLine(g *ui.Globals, l *job.StoredLine) error {
	p := l.Line.Places[0]
	switch {
	case !l.Several() && p.State.Number == 0:
		return g.Printf("%s: its ranks take checkpoints together, and it has none: it restarts from scratch,\nby ckpt launch, or by --auto-restart while it runs\n", l.Job)
	case !l.Several():
		return g.Printf("%s: its ranks take checkpoints together: all resume from the newest, checkpoint %d,\niteration %d; %s lost\n",
			l.Job, p.State.Number, p.State.Iteration, ui.Count(p.LostIterations, "iteration"))
	}
	unit := lineUnit(l)
	g.Printf("%s: %s, messages between %ss: %s\n", l.Job, l.Mode, unit,
		map[bool]string{true: "no log", false: "log " + l.Log.String()}[l.Log == channel.None])
	if !l.Live {
		g.Printf("the last iteration is not known: iterations after the newest checkpoints do not count\n")
	}
	if l.Mode == job.Semi {
		for id := range l.Groups {
			g.Printf("  group %d: %s\n", id, l.Name(id))
		}
	}
	var text strings.Builder
	if err := rec.Text(&text, l.Line, l.Garbage, unit); err != nil {
		return err
	}
	g.Printf("%s", text.String())
	switch {
	case l.Pessimistic():
		return g.Printf("\neach replays its message log from its checkpoint to its last state\n")
	case l.Log == channel.Optimistic:
		return g.Printf("\nmessages here are receives from any source: a replay can get only these wrong\n")
	case len(l.Useless) > 0:
		return g.Printf("\n%s on zigzag cycles: no recovery line can hold them\n", ui.Plural(len(l.Useless), "checkpoint is", "checkpoints are"))
	}
	return nil
}

// lineUnit names the ranks that roll back together.
func lineUnit(l *job.StoredLine) string {
	if l.Mode == job.Semi {
		return "group"
	}
	return "rank"
}

// plotLine draws a recovery line into a file. If drawing fails, the file stays as it was.
func plotLine(l *job.StoredLine, path, format string) error {
	fig := rec.Figure{History: l.History, Line: l.Line, Garbage: l.Garbage, Useless: l.Useless, Unit: lineUnit(l),
		Title: fmt.Sprintf("%s (%s, log %s): recovery line if all fail", l.Job, l.Mode, l.Log)}
	if !l.Several() {
		fig.Title = l.Job + " (coordinated): recovery line"
	}
	var b bytes.Buffer
	if err := rec.Draw(&b, format, fig); err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}
