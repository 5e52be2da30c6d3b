package images

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
)

func newPruneCommand(g *ui.Globals) *cobra.Command {
	var keep int
	cmd := &cobra.Command{
		Use:   "prune JOB --keep N",
		Short: "Remove all but the newest checkpoints",
		Long: `Remove all but the newest N checkpoints of a job, running or not. Files of removed
checkpoints stay if kept ones refer to them. Checkpoints whose manifest, headers or
indexes are damaged do not count among the N. If N exceeds eight, prune looks for
damage in the newest eight of them only; ckpt verify checks all, byte by byte.`,
		Example: "  ckpt prune bt.S.4-1 --keep 2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("keep") || keep < 0 {
				return ui.UsageOf(cmd, errors.New("--keep is missing: want the number of checkpoints to keep, from 0"))
			}
			return runPrune(cmd.Context(), g, args[0], keep)
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 0, "number of checkpoints to keep")
	g.AddStoreFlag(cmd)
	return cmd
}

func runPrune(ctx context.Context, g *ui.Globals, name string, keep int) error {
	job, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	p, err := coordinator.Prune(ctx, job, keep)
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(p)
	}
	if len(p.Damaged) > 0 {
		g.Warn("damaged, and not counted among those kept: checkpoints %v; ckpt verify %s says more", p.Damaged, name)
	}
	return g.Printf("%s: removed %s, freed %s MiB, kept %d\n", name, ui.Count(len(p.Removed), "checkpoint"), ui.MiB(p.Freed), len(p.Kept))
}
