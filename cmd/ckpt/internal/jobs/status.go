package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/durable"
)

func newStatusCommand(g *ui.Globals) *cobra.Command {
	var w ui.Watch
	cmd := &cobra.Command{
		Use:   "status [JOB]",
		Short: "Show the state of jobs",
		Long: `Show the state of the jobs of a store, or all about one.

With --watch, status shows it again and again: in place on a terminal, else a line or
block each time, with --json a JSON line. It ends when the job does, or with ^C.`,
		Example: "  ckpt status\n  ckpt status bt.S.4-1 --json\n  ckpt status bt.S.4-1 --watch --period 5s\n  ckpt status --watch",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !w.On && (cmd.Flags().Changed("period") || cmd.Flags().Changed("looks")) {
				return ui.BadUsage("--period and --looks: only --watch shows a job again and again", "add --watch")
			}
			if err := w.Parse(); err != nil {
				return err
			}
			if len(args) == 1 {
				return runStatusOf(cmd.Context(), g, args[0], &w)
			}
			return runStatus(cmd.Context(), g, &w)
		},
	}
	cmd.Flags().BoolVarP(&w.On, "watch", "w", false, "show it again and again")
	w.AddFlags(cmd)
	g.Renamed(cmd.Flags(), "every", "period")
	g.AddStoreFlag(cmd)
	return cmd
}

// runStatusOf shows one job.
func runStatusOf(ctx context.Context, g *ui.Globals, name string, w *ui.Watch) error {
	store, err := g.OpenStore()
	if err != nil {
		return err
	}
	return w.Run(ctx, g, func(ctx context.Context) (ui.View, error) {
		s, err := wire.Inspect(ctx, store, name)
		if err != nil {
			return ui.View{}, err
		}
		if j, err := store.Job(s.Job); err == nil {
			s.Restarts = job.NewestRestarts(j, shownRestarts)
		}
		return ui.View{JSON: s, Over: s.State != job.StateRunning && s.State != job.StateSilent, Line: statusLine(s),
			Text: func() error { return printStatusOf(g, s) }}, checkOwner(store, s)
	})
}

// shownRestarts is how many restarts of a job its status has.
const shownRestarts = 10

// restartsOf tells what the newest restart cost.
func restartsOf(s *job.Status) string {
	if len(s.Restarts) == 0 {
		return ""
	}
	r := s.Restarts[len(s.Restarts)-1]
	text := fmt.Sprintf("%s computed again after %s", ui.Count(r.Ranks, "rank"), ui.Seconds(r.Seconds))
	if r.Replay != nil {
		text += fmt.Sprintf(", and took %s to repeat what was lost", ui.Seconds(*r.Replay))
	}
	return text
}

// checkOwner fails if the directory of a job holds the checkpoints of another one, which
// was copied or renamed.
func checkOwner(store *image.Store, s *job.Status) error {
	if s.Latest == 0 {
		return nil
	}
	j, err := store.Job(s.Job)
	if err != nil {
		return err
	}
	if _, err := j.Manifest(s.Latest); errors.Is(err, durable.ErrOtherJob) {
		return err
	}
	return nil // damage of another kind is for ckpt verify
}

// runStatus shows all jobs.
func runStatus(ctx context.Context, g *ui.Globals, w *ui.Watch) error {
	store, err := g.OpenStore()
	if err != nil {
		return err
	}
	return w.Run(ctx, g, func(ctx context.Context) (ui.View, error) {
		names, err := store.Jobs()
		if err != nil {
			return ui.View{}, err
		}
		jobs := []*job.Status{}
		var failed error
		for _, name := range names {
			s, err := wire.Inspect(ctx, store, name)
			switch {
			case errors.Is(err, image.ErrJobNotFound) || ctx.Err() != nil:
				continue // it was removed this moment
			case err != nil:
				failed = errors.Join(failed, err)
				jobs = append(jobs, unreadable(name, err))
			default:
				jobs = append(jobs, s)
			}
		}
		return ui.View{JSON: jobs, Text: func() error { return printStatus(g, jobs, w.On) }}, failed
	})
}

// unreadable describes a job of which an error is all that is known.
func unreadable(name string, err error) *job.Status {
	return &job.Status{Job: name, State: job.StateUnreadable, Mapping: job.Mapping{}, Failure: ui.OneLine(err.Error())}
}

// printStatus shows jobs in a table; live says how those that run come on.
func printStatus(g *ui.Globals, jobs []*job.Status, live bool) error {
	if len(jobs) == 0 {
		return g.Printf("no jobs in %s\n", g.Store)
	}
	header := []string{"job", "app", "state", "|iteration", "|checkpoints", "|newest", "updated"}
	if live {
		header = []string{"job", "state", "|iteration", "|per s", "|elapsed", "|left", "|newest", "next"}
	}
	var rows [][]string
	for _, s := range jobs {
		if !live {
			rows = append(rows, []string{s.Job, s.App, stateOf(s), countOf(s), fmt.Sprint(s.Checkpoints), ago(s.LatestAge), when(s.Updated)})
			continue
		}
		left, rate, next := "-", "-", "-"
		if s.Left != nil {
			left = span(*s.Left)
		}
		if s.Rate > 0 {
			rate = rateOf(s)
		}
		switch {
		case s.NextIteration > 0:
			next = fmt.Sprintf("at %d", s.NextIteration)
		case s.NextSeconds != nil:
			next = "in " + span(*s.NextSeconds)
		}
		rows = append(rows, []string{s.Job, stateOf(s), countOf(s), rate, span(s.Elapsed), left, ago(s.LatestAge), next})
	}
	return g.Table(header, rows)
}

// printStatusOf shows all that is known of a job.
func printStatusOf(g *ui.Globals, s *job.Status) error {
	state := s.State
	if s.Phase != "" {
		state += ", " + s.Phase
	}
	switch {
	case s.Unreachable != "":
		state = fmt.Sprintf("%s from here: process %d has the job", stateOf(s), s.Coordinator)
		if s.Host != "" {
			state += " on host " + s.Host
		}
		state += ", and " + s.Unreachable
	case s.Host != "":
		state += ", on " + s.Host
	}
	if s.State == job.StateSilent {
		state = s.State + ": its coordinator lives and does not answer"
	}
	rows := [][2]string{
		{"state", state},
		{"app", fmt.Sprintf("%s, ranks per node %s", s.App, s.Mapping.Short())},
		{"level", levelOf(s)},
		{"iteration", progressOf(s)},
		{"time", timesOf(s)},
		{"checkpoint", checkpointOf(s)},
		{"at risk", riskOf(s)},
		{"measured", measuredOf(s)},
		{"predicted", predictedOf(s)},
		{"restart", restartsOf(s)},
		{"created", when(s.Created)},
		{"started", when(s.Started)},
		{"updated", when(s.Updated)},
		{"digest", s.Digest},
		{"failure", ui.OneLine(s.Failure)},
	}
	if err := g.Printf("%s\n", s.Job); err != nil {
		return err
	}
	for _, r := range rows {
		if r[1] == "" {
			continue
		}
		if err := g.Printf("  %-10s  %s\n", r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

// stateOf is the state of a job, in a word or two.
func stateOf(s *job.Status) string {
	if s.Unreachable != "" {
		return s.State + ", unreachable"
	}
	return s.State
}

// levelOf tells the level of checkpoints, if it is not the usual one.
func levelOf(s *job.Status) string {
	if s.Level == job.System {
		return ""
	}
	return string(s.Level)
}

func progressOf(s *job.Status) string {
	text := strings.Replace(countOf(s), "/", " of ", 1)
	if s.Rate > 0 {
		text += fmt.Sprintf(", %s per second", rateOf(s))
	}
	return text
}

// countOf is how far a job is, of how far it goes. A program does not say that.
func countOf(s *job.Status) string {
	if s.Iterations == 0 {
		return fmt.Sprint(s.Iteration)
	}
	return fmt.Sprintf("%d/%d", s.Iteration, s.Iterations)
}

func rateOf(s *job.Status) string { return fmt.Sprintf("%.3g", s.Rate) }

// timesOf tells the time that a run has taken and what it has left.
func timesOf(s *job.Status) string {
	if s.State != job.StateRunning {
		return ""
	}
	text := span(s.Elapsed) + " elapsed"
	if s.Left != nil {
		text += ", " + span(*s.Left) + " left"
	}
	return text
}

// riskOf tells what work would be lost now.
func riskOf(s *job.Status) string {
	if s.AtRisk == 0 {
		return ""
	}
	text := span(s.AtRisk) + " of work"
	if s.InFlight > 0 {
		text += ", " + ui.Count(s.InFlight, "checkpoint") + " in flight"
	}
	return text
}

// checkpointOf tells the newest checkpoint and the next one.
func checkpointOf(s *job.Status) string {
	text := "none"
	if s.Latest > 0 {
		text = fmt.Sprintf("%d", s.Latest)
		if s.LatestAge != nil {
			text += ", " + ago(s.LatestAge)
		}
		switch {
		case len(s.LatestUnseen) > 0:
			text += fmt.Sprintf(", %s, not seen: ckpt list %s names the nodes", levelsOf(s), s.Job)
		case len(s.LatestLevels) > 0:
			text += ", " + levelsOf(s)
		}
	}
	switch {
	case s.NextIteration > 0:
		text += fmt.Sprintf("; the next at iteration %d", s.NextIteration)
	case s.NextSeconds != nil:
		text += "; the next in " + span(*s.NextSeconds)
	}
	if s.Checkpoints > 1 {
		text += fmt.Sprintf(" (%d in all)", s.Checkpoints)
	}
	return text
}

// levelsOf tells where the newest checkpoint is.
func levelsOf(s *job.Status) string {
	var list []string
	for _, l := range s.LatestLevels {
		list = append(list, string(l))
	}
	return strings.Join(list, ", ")
}

// measuredOf tells what the newest checkpoint stored and cost, of a job for which that
// was predicted.
func measuredOf(s *job.Status) string {
	if s.Predicted == nil || s.Latest == 0 {
		return ""
	}
	return fmt.Sprintf("%s MiB stored, pause %s", ui.MiB(s.LatestStored), ui.Seconds(s.LatestPause))
}

// predictedOf tells what was predicted of it.
func predictedOf(s *job.Status) string {
	if s.Predicted == nil {
		return ""
	}
	return ui.Predicted(s.Predicted)
}

// statusLine is a status in one line, for files and pipes.
func statusLine(s *job.Status) string {
	parts := []string{time.Now().Format(time.TimeOnly), s.Job, stateOf(s), countOf(s)}
	if s.Rate > 0 {
		parts = append(parts, rateOf(s)+"/s")
	}
	if times := timesOf(s); times != "" {
		parts = append(parts, times+",")
	}
	return strings.Join(append(parts, "checkpoint", checkpointOf(s)), " ")
}

// span formats seconds.
func span(seconds float64) string {
	return ui.Span(time.Duration(seconds * float64(time.Second)).Round(time.Second))
}

// ago formats an age, or "-".
func ago(age *float64) string {
	if age == nil {
		return "-"
	}
	return span(*age) + " ago"
}

// when formats a time, "" if it is not known.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}
