package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/dataset"
	"ckpt/image/codec"
)

// running are the flags of every command that runs a job.
type running struct {
	fail        []string
	autoRestart bool
	silence     string
	onFull      string
}

func (r *running) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.fail, "fail", nil, "inject a failure: rank=R@iter=I, node=K@iter=I, rank=R@t=DUR, mtbf=DUR[,seed=S]")
	f.BoolVar(&r.autoRestart, "auto-restart", false, "restart failed ranks automatically, from the last checkpoint")
	f.StringVar(&r.onFull, "on-full", "skip", "what to do when the storage is full: skip the checkpoint, or stop the job (exit status 6)")
	ui.Choices(f, "on-full", "skip", "stop")
	f.StringVar(&r.silence, "silence", "10s", "heartbeat timeout after which a rank is declared dead")
}

func (r *running) options(g *ui.Globals) (coordinator.Options, error) {
	if err := g.CheckStore(); err != nil {
		return coordinator.Options{}, err
	}
	opt := coordinator.Options{Store: g.Store, Limits: protocol.DefaultLimits, Observer: &ui.Narrator{G: g}, Log: g.Log()}
	for _, s := range r.fail {
		f, err := coordinator.ParseFailure(s)
		if err != nil {
			return opt, err
		}
		opt.Failures = append(opt.Failures, f)
	}
	var err error
	if opt.Limits.Silence, err = ui.ParseDuration("--silence", r.silence); err != nil {
		return opt, err
	}
	if opt.Limits.Silence < 100*time.Millisecond {
		return opt, ui.BadUsage(fmt.Sprintf("--silence %s: want a duration of at least 100ms", r.silence), "")
	}
	if r.onFull != "skip" && r.onFull != "stop" {
		return opt, ui.BadUsage(fmt.Sprintf("--on-full %s: want skip or stop", r.onFull), "")
	}
	opt.StopOnFull = r.onFull == "stop"
	return opt, nil
}

type launchOptions struct {
	ui.Placement
	running
	writePath
	np, iterations       int
	mpi, mode, job       string
	launcher             string
	every, count, keep   int
	interval, overhead   string
	model                string
	sharedOnce, libsOnce bool
	codec                string
	incremental, async   bool
	trace                bool
	log, stagger, jitter string
	groupSize, residuals int
	seed                 uint64
	staging              string
}

func newLaunchCommand(g *ui.Globals) *cobra.Command {
	var o launchOptions
	cmd := &cobra.Command{
		Use:   "launch APP",
		Short: "Run a job and take checkpoints",
		Long: `Run a parallel job to its end, and take checkpoints on the way.

APP is NAME.CLASS.NP (bt.B.4), NAME.CLASS with --np, or a workload file. The built-in ones are ` + strings.Join(dataset.Names(), ", ") + `.
Every rank is a process of its own. A node is a set of ranks that share memory.
Without --every, --count, --interval or --overhead, the job takes checkpoints only
when ckpt checkpoint asks for them.

With --model the command predicts what each checkpoint stores and costs. The job keeps
the prediction: --overhead plans with it until the first checkpoint is measured, ckpt
status, list and show give it beside what was measured, ckpt predict score JOB
compares them.

^C stops the job after a last checkpoint. A second ^C stops it at once, even if the
storage does not answer. ckpt restart continues the job. SIGTERM and SIGHUP do the
same as ^C; SIGUSR1 takes a checkpoint now.`,
		Example: `  ckpt launch bt.S.4 --nodes 2 --every 5 --fail rank=2@iter=12 --auto-restart
  ckpt launch cg.B --np 16 --map 8,8 --overhead 10% --job night
  ckpt launch bt.B.4 --iterations 2 --count 1 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "np", "iterations", "nodes", "every", "count", "keep", "group-size", "residual-every"); err != nil {
				return err
			}
			return runLaunch(cmd.Context(), g, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	o.Placement.AddFlags(f)
	f.StringVar(&o.mpi, "mpi", "mpich", "layout of the shared segment: mpich or openmpi")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.IntVar(&o.iterations, "iterations", 0, "number of iterations (default: that of the class)")
	f.StringVar(&o.mode, "mode", string(job.Coordinated), "groups of ranks that checkpoint and restart together: coordinated (all ranks), semi (those of a node) or uncoordinated (each rank alone)")
	ui.Choices(f, "mode", string(job.Coordinated), string(job.Semi), string(job.Uncoordinated))
	f.IntVar(&o.groupSize, "group-size", 0, "with --mode semi: ranks per group (default: the ranks of a node)")
	f.StringVar(&o.log, "log", "", "log of the messages between groups: pessimistic-receiver (default), pessimistic-sender, optimistic or none")
	ui.Choices(f, "log", "pessimistic-receiver", "pessimistic-sender", "optimistic", "none")
	f.StringVar(&o.stagger, "stagger", "", "how the checkpoints of the groups spread over the interval: spread (default), random or none")
	ui.Choices(f, "stagger", "spread", "random", "none")
	f.StringVar(&o.jitter, "jitter", "", "vary the interval of each group at random by up to this share, like 20% or 0.2")
	f.Uint64Var(&o.seed, "seed", 0, "random seed of --jitter and --stagger random")
	f.IntVar(&o.residuals, "residual-every", 0, "print the residual of rank 0 every N iterations")
	f.IntVar(&o.every, "every", 0, "checkpoint every N iterations")
	f.IntVar(&o.count, "count", 0, "take N checkpoints, evenly spread over the iterations")
	f.StringVar(&o.interval, "interval", "", "time from one checkpoint to the next, like 10m")
	f.StringVar(&o.overhead, "overhead", "", "checkpoint as often as this share of the computing time allows, like 10% or 0.1")
	f.StringVar(&o.model, "model", "", "predict the checkpoints with this model of ckpt predict fit: --overhead begins with it, ckpt list shows it")
	f.IntVar(&o.keep, "keep", 0, "keep only the newest N sound checkpoints while the job runs (default: all)")
	g.AddStoreFlag(cmd)
	f.StringVar(&o.job, "job", "", "name of the job (default: APP-1, APP-2, …)")
	f.StringVar(&o.launcher, "launcher", "local", "how to start the ranks, on this machine: local, mpiexec or srun")
	ui.Choices(f, "launcher", "local", "mpiexec", "srun")
	f.BoolVar(&o.sharedOnce, "shared-once", true, "store the shared segment once per node, not once per rank")
	f.StringVar(&o.codec, "codec", codec.UseAuto.String(), "compression: "+codec.Choices()+"; auto chooses one for each extent, if it pays")
	ui.Choices(f, "codec", codec.Names()...)
	f.BoolVar(&o.incremental, "incremental", true, "store only bytes that changed since the previous checkpoint")
	o.writePath.addFlags(f)
	o.writePath.addTuningFlags(f)
	f.BoolVar(&o.trace, "trace", true, "record the I/O of each checkpoint, for ckpt trace")
	f.BoolVar(&o.async, "async", false, "compute while a checkpoint is written from a copy of the memory")
	f.StringVar(&o.staging, "staging", "", "with --async: memory for the copy of a rank (default: 16MiB more than its data zone)")
	f.BoolVar(&o.libsOnce, "library-once", true, "store the library zone once per job, not once per rank and checkpoint")
	o.running.addFlags(f)
	return cmd
}

// spec describes the job that the flags ask for.
func (o *launchOptions) spec(name string) (job.Spec, error) {
	inst, err := dataset.ParseApp(name, o.np)
	if err != nil {
		return job.Spec{}, err
	}
	s := job.NewSpec(inst)
	if s.Mapping, err = o.Resolve(inst.NP); err != nil {
		return s, err
	}
	s.MPI, s.Mode, s.AutoRestart = o.mpi, job.Mode(o.mode), o.autoRestart
	s.Launcher = o.launcher
	s.GroupSize, s.Log, s.Stagger, s.Seed, s.Residuals = o.groupSize, o.log, o.stagger, o.seed, o.residuals
	if o.jitter != "" {
		if s.Jitter, err = ui.ParseShare("--jitter", o.jitter); err != nil {
			return s, err
		}
	}
	s.SharedOnce, s.LibraryOnce = o.sharedOnce, o.libsOnce
	s.Codec, s.Incremental = o.codec, o.incremental
	s.Async, s.Trace, s.Keep = o.async, o.trace, o.keep
	if o.staging != "" {
		if !o.async {
			return s, ui.BadUsage("--staging "+o.staging+": only --async stages memory", "add --async")
		}
		if s.Staging, err = ui.ParseSize("--staging", o.staging); err != nil {
			return s, err
		}
	}
	if s.WritePath, err = o.settings(); err != nil {
		return s, err
	}
	if o.iterations != 0 {
		s.Iterations = o.iterations
	}
	s.Schedule, err = o.schedule()
	return s, err
}

func (o *launchOptions) schedule() (job.Schedule, error) {
	var s job.Schedule
	var err error
	given := 0
	bad := func(flag, value, want string) error {
		return ui.BadUsage(fmt.Sprintf("%s %s: %s", flag, value, want), "")
	}
	if s.Every = o.every; o.every != 0 {
		given++
	}
	if s.Count = o.count; o.count != 0 {
		given++
	}
	if o.interval != "" {
		given++
		if s.Interval, err = ui.ParseDuration("--interval", o.interval); err != nil {
			return s, err
		}
		if s.Interval <= 0 {
			return s, bad("--interval", o.interval, "want a positive duration, like 90s or 10m")
		}
	}
	if o.overhead != "" {
		given++
		if s.Overhead, err = ui.ParseShare("--overhead", o.overhead); err != nil {
			return s, err
		}
		if s.Overhead <= 0 || s.Overhead > 10 {
			return s, bad("--overhead", o.overhead, "want a percentage above 0 and at most 1000%, like 10%")
		}
	}
	if given > 1 {
		return s, ui.BadUsage("--every, --count, --interval and --overhead exclude each other", "give one of them")
	}
	return s, nil
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
	return runJob(g, &opt, func() (*coordinator.Result, error) { return coordinator.Launch(ctx, spec, opt) })
}
