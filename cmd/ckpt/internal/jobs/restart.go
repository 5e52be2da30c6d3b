package jobs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/launch"
)

type restartOptions struct {
	ui.Placement
	running
	checkpoint int
	withoutLog bool
}

func newRestartCommand(g *ui.Globals) *cobra.Command {
	var o restartOptions
	cmd := &cobra.Command{
		Use:   "restart JOB[@N]",
		Short: "Continue a job from a checkpoint",
		Long: `Continue a stopped, killed or finished job from a checkpoint, by default the
newest, also under another mapping of ranks to nodes. Before any rank continues, every
byte that was read has been verified.

If a message log of a job of several groups is damaged, --without-log resumes
from the newest checkpoints that are consistent without a log, or from the
beginning. It removes newer checkpoints and all that the logs hold.`,
		Example: `  ckpt restart bt.S.4-1
  ckpt restart bt.S.4-1@2 --map 1,3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "checkpoint", "nodes"); err != nil {
				return err
			}
			return runRestart(cmd.Context(), g, &o, args[0])
		},
	}
	o.Placement.AddFlags(cmd.Flags())
	cmd.Flags().IntVar(&o.checkpoint, "checkpoint", 0, "number of the checkpoint (default: the newest)")
	cmd.Flags().BoolVar(&o.withoutLog, "without-log", false, "resume from what the checkpoints alone allow, and remove all message logs")
	g.AddStoreFlag(cmd)
	o.running.addFlags(cmd.Flags())
	return cmd
}

func runRestart(ctx context.Context, g *ui.Globals, o *restartOptions, job string) error {
	job, number, err := ui.SplitTarget(job)
	if err != nil {
		return err
	}
	if number != 0 && o.checkpoint != 0 && number != o.checkpoint {
		return ui.BadUsage(fmt.Sprintf("@%d and --checkpoint %d contradict each other", number, o.checkpoint), "")
	}
	if o.checkpoint == 0 {
		o.checkpoint = number
	}
	var streams launch.Streams
	if programOf(g, job) {
		g, streams = forProgram(g)
	}
	opt, err := o.options(g)
	if err != nil {
		return err
	}
	opt.Job, opt.Streams = job, streams
	if dmtcpJob(g, job) {
		return restartDMTCP(ctx, g, o, opt)
	}
	r := coordinator.RestartOptions{Options: opt, Checkpoint: o.checkpoint, AutoRestart: o.autoRestart, WithoutLog: o.withoutLog}
	if o.Given() {
		r.Mapping = o.Resolve
	}
	return runJob(g, &r.Options, func() (*coordinator.Result, error) { return coordinator.Restart(ctx, r) })
}
