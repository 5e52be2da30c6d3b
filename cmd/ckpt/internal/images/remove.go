package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/image"
)

// removal are the flags of the commands that remove.
type removal struct{ yes, dryRun bool }

func (r *removal) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only say what would be removed")
}

// asks reports whether the user is to be asked first.
func (r *removal) asks(g *ui.Globals) bool { return !r.yes && !r.dryRun && g.Asks() }

func newPruneCommand(g *ui.Globals) *cobra.Command {
	var opt levels.PruneOptions
	var r removal
	var w ui.Wait
	cmd := &cobra.Command{
		Use:   "prune JOB --keep N",
		Short: "Remove all but the newest checkpoints",
		Long: `Remove all but the newest N checkpoints of a job, running or not. --keep-hourly 24 also
keeps the newest of each of the last 24 hours in which some were taken, on the clock of
this machine, and --keep-daily 7 of each of the last 7 days; --dry-run says why each
one stays. Files of removed checkpoints stay if kept ones refer to them. Of a job that keeps checkpoints on its
nodes and does not run, prune also removes the older ones there. Checkpoints whose manifest, headers or
indexes are damaged do not count among the N. If N exceeds eight, prune looks for
damage in the newest eight of them only; ckpt verify checks all, byte by byte.

On a terminal, prune says what it would remove and asks. In scripts it does not ask.`,
		Example: "  ckpt prune bt.S.4-1 --keep 2\n  ckpt prune bt.S.4-1 --keep 2 --keep-hourly 24 --keep-daily 7 --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Last < 0 {
				return ui.UsageOf(cmd, fmt.Errorf("--keep %d: want the number of checkpoints to keep, from 0", opt.Last))
			}
			if err := opt.Check(); err != nil {
				return ui.UsageOf(cmd, err)
			}
			if !cmd.Flags().Changed("keep") && !opt.Periods() {
				return ui.UsageOf(cmd, errors.New("--keep is missing: want the number of checkpoints to keep, from 0"))
			}
			return w.For(cmd.Context(), g, args[0], func() error { return runPrune(cmd.Context(), g, args[0], opt, &r) })
		},
	}
	cmd.Flags().IntVar(&opt.Last, "keep", 0, "number of checkpoints to keep")
	ui.AddPeriods(cmd.Flags(), &opt.Hourly, &opt.Daily)
	cmd.Flags().BoolVar(&opt.Force, "force", false, "with --keep 0: also while the job runs")
	r.addFlags(cmd)
	w.AddFlags(cmd.Flags())
	g.AddStoreFlag(cmd)
	return cmd
}

func runPrune(ctx context.Context, g *ui.Globals, name string, opt levels.PruneOptions, r *removal) error {
	j, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	if r.asks(g) {
		if err := askPrune(ctx, g, j, opt); err != nil {
			return err
		}
	}
	opt.DryRun = r.dryRun
	p, err := levels.Prune(ctx, j, opt)
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(p)
	}
	if len(p.Damaged) > 0 {
		g.Warn("damaged, and not counted among those kept: checkpoints %v; ckpt verify %s says more", p.Damaged, name)
	}
	if p.DryRun {
		if err := g.Printf("%s\n", describePrune(p)); err != nil {
			return err
		}
		for _, r := range p.Retained {
			if err := g.Printf("checkpoint %d stays: %s\n", r.Number, r.Reason); err != nil {
				return err
			}
		}
		return nil
	}
	return g.Printf("%s: removed %s%s, freed %s MiB, kept %d\n", name, ui.Count(len(p.Removed), "checkpoint"), fromNodes(p), ui.MiB(p.Freed), len(p.Kept))
}

// askPrune asks whether to remove what a prune would remove, if that is anything.
func askPrune(ctx context.Context, g *ui.Globals, j *image.Job, opt levels.PruneOptions) error {
	opt.DryRun = true
	p, err := levels.Prune(ctx, j, opt)
	if err != nil || p.Empty() {
		return err
	}
	return g.Confirm(ctx, describePrune(p)+"\nremove?")
}

// describePrune says what a prune would do.
func describePrune(p *job.Pruned) string {
	if p.Empty() {
		return fmt.Sprintf("%s: nothing to remove, %s", p.Job, staying(p.Kept))
	}
	which := listed(p.Removed) + fromNodes(p)
	return fmt.Sprintf("%s: would remove %s and free %s MiB; %s", p.Job, which, ui.MiB(p.Freed), staying(p.Kept))
}

// fromNodes says which checkpoints leave the nodes.
func fromNodes(p *job.Pruned) string {
	if len(p.FromNodes) == 0 {
		return ""
	}
	return fmt.Sprintf(", and %s from the nodes", ui.Numbers(p.FromNodes))
}

// staying says which checkpoints stay.
func staying(kept []int) string {
	switch len(kept) {
	case 0:
		return "no checkpoint stays: the job can only restart from scratch"
	case 1:
		return fmt.Sprintf("checkpoint %d stays", kept[0])
	}
	return fmt.Sprintf("checkpoints %s stay", ui.Numbers(kept))
}

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
		p, err := levels.PreviewRemove(j)
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
	p, err := levels.Remove(j)
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
func warnLeft(g *ui.Globals, p *levels.Removed) {
	for _, err := range p.Wrong {
		g.Warn("%s: what is there of job %s stays", ui.OneLine(err.Error()), p.Job)
	}
}

func describeRemove(p *levels.Removed) string {
	which := "no checkpoint"
	if len(p.Removed) > 0 {
		which = fmt.Sprintf("%s (%s)", ui.Count(len(p.Removed), "checkpoint"), ui.Numbers(p.Removed))
	}
	return fmt.Sprintf("%s: would remove the job with %s and free %s MiB", p.Job, which, ui.MiB(p.Freed))
}
