package images

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
)

func newRemoveCommand(g *ui.Globals) *cobra.Command {
	var r removal
	var w ui.Wait
	cmd := &cobra.Command{
		Use:   "rm JOB",
		Short: "Remove a job with all its files",
		Long: `Remove a job with its checkpoints, message logs, journal and all other files in its
directory, and with what its nodes have of it, as far as they can be reached from
here. A running job is refused. On a terminal, rm says what it would remove and
asks. In scripts it does not ask.`,
		Example: "  ckpt rm bt.S.4-1\n  ckpt rm bt.S.4-1 --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.For(cmd.Context(), g, args[0], func() error { return runRemove(cmd.Context(), g, args[0], &r) })
		},
	}
	w.AddFlags(cmd.Flags())
	r.addFlags(cmd)
	g.AddStoreFlag(cmd)
	return cmd
}

func runRemove(ctx context.Context, g *ui.Globals, name string, r *removal) error {
	j, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	if r.dryRun || r.asks(g) {
		p, err := coordinator.PreviewRemove(j)
		if err != nil {
			return err
		}
		warnLeft(g, p)
		if r.dryRun {
			return g.Show(p, func() error { return g.Printf("%s\n", describeRemove(p)) })
		}
		if err := g.Confirm(ctx, describeRemove(p)+"\nremove?"); err != nil {
			return err
		}
	}
	p, err := coordinator.Remove(j)
	if err != nil {
		return err
	}
	if !r.asks(g) {
		warnLeft(g, p)
	}
	return g.Show(p, func() error {
		return g.Printf("%s: removed with %s, freed %s MiB\n", name, ui.Count(len(p.Removed), "checkpoint"), ui.MiB(p.Freed))
	})
}

// warnLeft names the nodes on which files of the job may stay.
func warnLeft(g *ui.Globals, p *coordinator.Removed) {
	for _, err := range p.Wrong {
		g.Warn("%s: what is there of job %s stays", ui.OneLine(err.Error()), p.Job)
	}
}

func describeRemove(p *coordinator.Removed) string {
	which := "no checkpoint"
	if len(p.Removed) > 0 {
		which = fmt.Sprintf("%s (%s)", ui.Count(len(p.Removed), "checkpoint"), ui.Numbers(p.Removed))
	}
	return fmt.Sprintf("%s: would remove the job with %s and free %s MiB", p.Job, which, ui.MiB(p.Freed))
}
