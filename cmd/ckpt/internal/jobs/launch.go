package jobs

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/dataset"
)

func newLaunchCommand(g *ui.Globals) *cobra.Command {
	var o launchOptions
	cmd := &cobra.Command{
		Use:   "launch APP | launch -- COMMAND...",
		Short: "Run a job and take checkpoints",
		Long: `Run a parallel job to its end, and take checkpoints on the way.

COMMAND starts an MPI program that calls ckpt, such as mpiexec -n 8 ./heat: the C
header that ckpt sdk c prints, or the modules for Fortran and Python. ckpt learns from
the ranks that come how many there are and on which hosts. The program's output passes
through; what ckpt says goes to standard error.

APP is a simulated job: NAME.CLASS.NP (bt.B.4), NAME.CLASS with --np, or a workload file. The built-in ones are ` + strings.Join(dataset.Names(), ", ") + `.
Every rank is a process of its own. A node is a set of ranks that share memory.
Without --every, --count, --interval or --overhead, the job takes checkpoints only
when ckpt checkpoint asks for them; a program then takes one every 10 minutes, unless
--interval is none.

^C stops the job after a last checkpoint. A second ^C stops it at once, even if the
storage does not answer. ckpt restart continues the job. SIGHUP does the
same as ^C. SIGTERM and SIGUSR1, which batch systems send before the time is up, and
--walltime do so too, and the exit status is 75: queue the job again. SIGUSR2 takes a
checkpoint now.`,
		Example: `  ckpt launch bt.S.4 --nodes 2 --every 5 --fail rank=2@iter=12 --auto-restart
  ckpt launch cg.B --np 16 --map 8,8 --overhead 10% --job night
  ckpt launch bt.B.4 --iterations 2 --count 1 --json
  ckpt launch --interval 10m --auto-restart --job heat -- mpiexec -n 8 ./heat 4096`,
		Args: func(cmd *cobra.Command, args []string) error {
			if _, is := o.command(cmd, args); is {
				return nil
			}
			args, _, _ = o.arguments(cmd, args, 1)
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "np", "iterations", "nodes", "count", "keep", "group-size", "residual-every"); err != nil {
				return err
			}
			if command, is := o.command(cmd, args); is {
				return runLaunchProgram(cmd.Context(), g, &o, command)
			}
			args, _, _ = o.arguments(cmd, args, 1)
			if err := refuse(cmd.Flags(), programOnly, "only programs have it", "give the command of a program after --, or leave it out"); err != nil {
				return err
			}
			return runLaunch(cmd.Context(), g, &o, args[0])
		},
	}
	o.addFlags(g, cmd)
	ui.GroupFlags(cmd, launchGroups)
	return cmd
}

// command returns the command of a program, if all that was given is one.
func (o *launchOptions) command(cmd *cobra.Command, args []string) (command []string, is bool) {
	before, command, dash := o.arguments(cmd, args, 0)
	return command, dash && len(before) == 0
}

func runLaunch(ctx context.Context, g *ui.Globals, o *launchOptions, app string) error {
	spec, err := o.spec(app)
	if err != nil {
		return err
	}
	opt, err := o.options(g)
	if err != nil {
		return err
	}
	opt.Job = o.job
	if err := o.tuneSpec(ctx, &spec); err != nil {
		return err
	}
	if o.model != "" {
		if spec.Prediction, err = predictions.ForJob(o.model, app, o.np, &spec); err != nil {
			return err
		}
	}
	effective, err := spec.Layout()
	if err != nil {
		return o.usage(err)
	}
	for _, note := range o.idle(effective) {
		opt.Observer.Warn(note)
	}
	return o.run(ctx, g, &opt, func() (*coordinator.Result, error) { return coordinator.Launch(ctx, spec, opt) })
}
