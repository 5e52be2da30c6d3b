package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// topView is what top shows each time.
type topView struct {
	Time time.Time     `json:"time"`
	Jobs []*job.Status `json:"running_jobs"`
}

func newTopCommand(g *ui.Globals) *cobra.Command {
	w := ui.Watch{On: true}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the running jobs of a store",
		Long: `Watch the running jobs of a store: in place on a terminal, else a block each time,
with --json a JSON line. It ends with ^C.`,
		Example: "  ckpt top\n  ckpt top --every 10s --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.Parse(); err != nil {
				return err
			}
			return runTop(cmd.Context(), g, &w)
		},
	}
	w.AddFlags(cmd)
	g.AddStoreFlag(cmd)
	return cmd
}

func runTop(ctx context.Context, g *ui.Globals, w *ui.Watch) error {
	store, err := g.OpenStore()
	if err != nil {
		return err
	}
	return w.Run(ctx, g, func(ctx context.Context) (ui.View, error) {
		names, err := store.Jobs()
		if err != nil {
			return ui.View{}, err
		}
		v := topView{Time: time.Now().UTC().Truncate(time.Millisecond), Jobs: []*job.Status{}}
		var failed error
		for _, name := range names {
			s, err := inspectRunning(ctx, store, name)
			switch {
			case errors.Is(err, image.ErrJobNotFound) || ctx.Err() != nil:
				continue // it was removed this moment
			case err != nil:
				failed = errors.Join(failed, err)
				v.Jobs = append(v.Jobs, unreadable(name, err))
			case s != nil:
				v.Jobs = append(v.Jobs, s)
			}
		}
		return ui.View{JSON: v, Text: func() error { return printTop(g, v.Jobs) }}, failed
	})
}

// inspectRunning describes a job that has a coordinator; nil if it has none.
func inspectRunning(ctx context.Context, store *image.Store, name string) (*job.Status, error) {
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	if _, announced := wire.Announced(j); !announced {
		return nil, nil
	}
	s, err := coordinator.Inspect(ctx, store, name)
	if err != nil || s.State != job.StateRunning && s.State != job.StateSilent {
		return nil, err
	}
	return s, nil
}

func printTop(g *ui.Globals, jobs []*job.Status) error {
	if len(jobs) == 0 {
		return g.Printf("no job runs in %s\n", g.Store)
	}
	var rows [][]string
	for _, s := range jobs {
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
	return g.Table([]string{"job", "state", "|iteration", "|per s", "|elapsed", "|left", "|newest", "next"}, rows)
}
