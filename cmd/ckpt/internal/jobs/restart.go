package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/internal/vfs"
)

type restartOptions struct {
	ui.Placement
	running
	turnsOption
	checkpoint int
	np         int
	withoutLog bool
	chdir      string
	moved      bool
	flags      *pflag.FlagSet
	again      bool
	exact      bool
	next       []string
}

func newRestartCommand(g *ui.Globals) *cobra.Command {
	var o restartOptions
	cmd := &cobra.Command{
		Use:   "restart JOB[@N] [-- COMMAND...]",
		Short: "Continue a job from a checkpoint",
		Long: `Continue a stopped, killed or finished job from a checkpoint, by default the
newest, also under another mapping of ranks to nodes. Before any rank continues, every
byte that was read has been verified. If the newest checkpoint is damaged, a warning says
so, and the newest sound one before it takes its place, unless --exact is given. A
checkpoint that JOB@N or --checkpoint names is never replaced.

A job that has completed stays as it is: its result is printed once more, with the status
of its run. --again runs it again from its newest checkpoint, JOB@N from checkpoint N.

--np restarts a job on another number of ranks, if these hold its arrays together, as
in bt, cg, heat, lu, minighost and sp, in each --mode (docs/GLOBAL.md), or a program, if
it protects all memory with ckpt_protect_global or ckpt_protect_replicated. The command that the job was launched
with starts so many ranks where it says their number once, as in mpiexec -n 4; COMMAND
takes its place otherwise.

A program runs in the directory that it was launched in. If that was renamed, --chdir
says where it is now; COMMAND runs in the current directory then.

A job with next stores (ckpt launch --next) continues from the newest checkpoint that is
sound on any level: what its store lacks, or has damaged, is read there from a next store
first. If the store is lost, name a new one with --store, and the next store with --next.

--storage-turns says for this run whether the job takes turns with others on the storage,
also for what it reads now (docs/TURNS.md).

If a message log of a job of several groups is damaged, --without-log resumes
from the newest checkpoints that are consistent without a log, or from the
beginning. It removes newer checkpoints and all that the logs hold.`,
		Example: `  ckpt restart bt.S.4-1
  ckpt restart bt.S.4-1@2 --map 1,3
  ckpt restart minighost.S.16-1 --np 9 --nodes 3
  ckpt restart heat --np 6
  ckpt restart heat -- srun -n 6 ./heat 4096`,
		Args: func(cmd *cobra.Command, args []string) error {
			args, _, _ = o.arguments(cmd, args, 1)
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "checkpoint", "nodes", "np"); err != nil {
				return err
			}
			args, command, dash := o.arguments(cmd, args, 1)
			if dash && len(command) == 0 {
				return ui.BadUsage("no command after --", "ckpt restart JOB -- mpiexec -n 4 ./program")
			}
			noticeFlags(g, cmd.Flags(), command)
			name, number, err := ui.SplitTarget(args[0])
			if err != nil {
				return err
			}
			return o.wait.For(cmd.Context(), g, name, func() error { return runRestart(cmd.Context(), g, &o, name, number, command) })
		},
	}
	o.flags = cmd.Flags()
	o.Placement.AddFlags(cmd.Flags())
	cmd.Flags().IntVar(&o.checkpoint, "checkpoint", 0, "number of the checkpoint (default: the newest)")
	cmd.Flags().IntVar(&o.np, "np", 0, "number of ranks (default: that of the checkpoint, or as many as COMMAND starts)")
	cmd.Flags().BoolVar(&o.exact, "exact", false, "only from the newest checkpoint: fail if it is damaged")
	cmd.Flags().StringVar(&o.chdir, "chdir", "", "of a program: the directory to run in (default: that of the launch)")
	cmd.Flags().BoolVar(&o.withoutLog, "without-log", false, "resume from what the checkpoints alone allow, and remove all message logs")
	cmd.Flags().BoolVar(&o.moved, "moved", false, "the store was moved here from another file system: what its nodes have is still its own")
	cmd.Flags().BoolVar(&o.again, "again", false, "run a job that has completed again, from its newest checkpoint")
	g.AddStoreFlag(cmd)
	ui.AddNext(cmd.Flags(), &o.next, "next store, as in launch: where a job is found that --store lacks, and where its checkpoints are copied on (default: as launched)")
	o.running.addFlags(cmd.Flags())
	o.turnsOption.addFlags(cmd.Flags(), "as launched")
	return cmd
}

// completed tells the result of a job that has completed, unless it is to run again.
func completed(ctx context.Context, g *ui.Globals, o *restartOptions, name string) (done bool, err error) {
	if o.again || o.checkpoint != 0 {
		return false, nil
	}
	store, err := g.OpenStore()
	if err != nil {
		return false, err
	}
	r, err := coordinator.Completed(ctx, store, name)
	if job.OfResult(err) {
		return false, ui.WithHint(err, "nothing tells whether the job has completed: ckpt restart "+name+" --again runs it from its newest checkpoint")
	}
	if r == nil || err != nil {
		return false, nil // the restart tells
	}
	g.Warn("job %s has completed, and stays as it is: ckpt restart %s --again runs it once more from its newest checkpoint", name, name)
	if err := printResult(g, r); err != nil {
		return true, err
	}
	return true, programStatus(r)
}

func runRestart(ctx context.Context, g *ui.Globals, o *restartOptions, name string, number int, command []string) error {
	if number != 0 && o.checkpoint != 0 && number != o.checkpoint {
		return ui.BadUsage(fmt.Sprintf("@%d and --checkpoint %d contradict each other", number, o.checkpoint), "")
	}
	if o.checkpoint == 0 {
		o.checkpoint = number
	}
	next, err := ui.ParseNext(o.next)
	if err == nil {
		err = levels.Bring(ctx, vfs.OS{}, g.Store, name, o.checkpoint, next, func(text string) { g.Warn("%s", text) })
	}
	if err != nil {
		return err
	}
	var streams launch.Streams
	var program *job.Program
	if spec := stored(g, name); spec != nil {
		program = spec.Program
		if spec.Lone() {
			flags := flagLookup(o.flags, "nodes", "map", "without-log", "exact", "listen", "chdir")
			if err := job.CheckCombinations(func(name string) (value string, given bool) {
				if name == "ranks" {
					return "dmtcp", true
				}
				return flags(name)
			}); err != nil {
				return err
			}
		}
	}
	if program != nil {
		g, streams = forProgram(g)
	}
	opt, err := o.options(g)
	if err != nil {
		return err
	}
	if done, err := completed(ctx, g, o, name); done || err != nil {
		return err
	}
	opt.Job, opt.Streams = name, streams
	r := coordinator.RestartOptions{Options: opt, Checkpoint: o.checkpoint, Exact: o.exact, NP: o.np, Command: command, AutoRestart: o.autoRestart, WithoutLog: o.withoutLog, Moved: o.moved, Next: next}
	if r.StorageTurns, err = o.turnsOption.setting(); err != nil {
		return err
	}
	if r.Dir, err = o.dir(program, len(command) > 0); err != nil {
		return err
	}
	if o.Given() {
		r.Mapping = o.Resolve
	}
	return o.kept(ctx, g, &r.Options, func() (*coordinator.Result, error) { return coordinator.Restart(ctx, r) })
}

// dir is the directory in which a program is restarted, "" for the directory of its launch. If that is
// gone, a command of the user runs where it was typed.
func (o *restartOptions) dir(p *job.Program, command bool) (string, error) {
	if o.chdir != "" {
		return filepath.Abs(o.chdir)
	}
	if command && p != nil {
		if _, err := os.Stat(p.Dir); errors.Is(err, fs.ErrNotExist) {
			return os.Getwd()
		}
	}
	return "", nil
}
