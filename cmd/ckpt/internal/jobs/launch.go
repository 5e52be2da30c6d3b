package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/internal/wording"
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
			if err := ui.Positive(cmd, "np", "iterations", "nodes", "count", "keep", "keep-hourly", "keep-daily", "group-size", "residual-every"); err != nil {
				return err
			}
			if command, is := o.command(cmd, args); is {
				return runLaunchProgram(cmd.Context(), g, &o, command)
			}
			args, _, _ = o.arguments(cmd, args, 1)
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
	if err := job.CheckCombinations(o.lookup("simulated")); err != nil {
		return err
	}
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
	if _, err := spec.Layout(); err != nil {
		return o.usage(err)
	}
	return o.run(ctx, g, &opt, func() (*coordinator.Result, error) { return coordinator.Launch(ctx, spec, opt) })
}

// spec describes the job that the flags ask for.
func (o *launchOptions) spec(name string) (job.Spec, error) {
	inst, err := dataset.ParseApp(name, o.np)
	if bad, ok := errors.AsType[*dataset.SpecError](err); ok && bad.Reason == dataset.BadProcs {
		return job.Spec{}, job.Clash(job.ClashApp, err.Error(), bad.Hint())
	}
	if err != nil {
		return job.Spec{}, err
	}
	s := job.NewSpec(inst)
	if s.Mapping, err = o.Resolve(inst.NP); err != nil {
		return s, err
	}
	s.MPI, s.Mode, s.AutoRestart = o.mpi, job.Mode(o.mode), o.autoRestart
	s.Launcher = o.launcher
	if o.level != string(job.System) {
		s.Level = job.Level(o.level)
	}
	s.GroupSize, s.Log, s.Stagger, s.Seed, s.Residuals = o.groupSize, o.log, o.stagger, o.seed, o.residuals
	if o.jitter != "" {
		if s.Jitter, err = ui.ParseShare("--jitter", o.jitter); err != nil {
			return s, err
		}
	}
	s.SharedOnce, s.LibraryOnce = o.sharedOnce, o.libsOnce
	if o.iterations != 0 {
		s.Iterations = o.iterations
	}
	if o.every == epochWord {
		if inst.Epoch == 0 {
			return s, job.Clash(job.ClashEpoch, "--every epoch with "+inst.Name, "give a number of iterations, or add epoch: ITERATIONS to the workload")
		}
		o.every = strconv.Itoa(inst.Epoch)
	}
	return s, o.common(&s)
}

// epochWord is the value of --every that stands for the iterations of an epoch.
const epochWord = "epoch"

// noInterval is the value of --interval that stands for no checkpoints but those that
// somebody asks for.
const noInterval = "none"

// common completes the description with what all jobs have.
func (o *launchOptions) common(s *job.Spec) error {
	var err error
	s.Codec, s.Incremental = o.codec, o.incremental
	s.Trace, s.Keep, s.KeepHourly, s.KeepDaily = o.trace, o.keep.Last, o.keep.Hourly, o.keep.Daily
	if o.keep.Periods() {
		s.Keep = max(1, s.Keep) // the newest is the newest of its hour and day
	}
	s.Async, s.InFlight = o.async.Setting()
	if o.staging != "" {
		if s.Staging, err = ui.ParseSize("--staging", o.staging); err != nil {
			return err
		}
	}
	if s.WritePath, err = o.settings(); err != nil {
		return err
	}
	if err = o.tier(s); err != nil {
		return err
	}
	if taken, err := o.turnsOption.setting(); err != nil {
		return err
	} else if taken != nil {
		s.StorageTurns = *taken
	}
	s.Schedule, err = o.schedule()
	return err
}

func (o *launchOptions) schedule() (job.Schedule, error) {
	var s job.Schedule
	var err error
	bad := func(flag, value, want string) error {
		return ui.BadUsage(fmt.Sprintf("%s %s: %s", flag, value, want), "")
	}
	if s.Epoch = o.every == epochWord; o.every != "" && !s.Epoch {
		if s.Every, s.Interval, err = parseEvery(o.every); err != nil {
			return s, err
		}
	}
	s.Count = o.count
	switch o.interval {
	case "", noInterval:
	default:
		if s.Interval, err = ui.ParseDuration("--interval", o.interval); err != nil {
			return s, err
		}
		if s.Interval <= 0 {
			return s, bad("--interval", o.interval, "want a positive duration, like 90s or 10m")
		}
	}
	if o.overhead != "" {
		if s.Overhead, err = ui.ParseShare("--overhead", o.overhead); err != nil {
			return s, err
		}
		if s.Overhead <= 0 || s.Overhead > 10 {
			return s, bad("--overhead", o.overhead, "want a percentage above 0 and at most 1000%, like 10%")
		}
	}
	return s, nil
}

// parseEvery reads a number of iterations, or a time, which needs a unit.
func parseEvery(text string) (iterations int, interval time.Duration, err error) {
	bad := ui.BadUsage(fmt.Sprintf("--every %s: want a number of iterations from 1, or a time with its unit, like 30s", text), "")
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		if iterations, err = strconv.Atoi(text); err != nil || iterations < 1 {
			return 0, 0, bad
		}
		return iterations, 0, nil
	}
	if interval, err = wording.Duration(text); err != nil || interval <= 0 {
		return 0, 0, bad
	}
	return 0, interval, nil
}
