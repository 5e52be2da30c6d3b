package jobs

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/storage"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/image/codec"
)

type launchOptions struct {
	ui.Placement
	running
	writePath
	tierOptions
	turnsOption
	programOptions
	engineOptions
	flags                *pflag.FlagSet
	np, iterations       int
	mpi, mode, job       string
	level                string
	launcher             string
	count, keep          int
	every                string
	interval, overhead   string
	model                string
	tune                 storage.Options
	objective            string
	sharedOnce, libsOnce bool
	codec                string
	incremental, async   bool
	trace                bool
	log, stagger, jitter string
	groupSize, residuals int
	seed                 uint64
	staging              string
}

// addFlags adds the flags of ckpt launch.
func (o *launchOptions) addFlags(g *ui.Globals, cmd *cobra.Command) {
	f := cmd.Flags()
	o.flags = f
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	o.Placement.AddFlags(f)
	f.StringVar(&o.mpi, "mpi", "mpich", "layout of the shared segment: mpich or openmpi")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.IntVar(&o.iterations, "iterations", 0, "number of iterations (default: that of the class)")
	f.StringVar(&o.mode, "mode", string(job.Coordinated), "groups of ranks that checkpoint and restart together: coordinated (all ranks), semi (those of a node) or uncoordinated (each rank alone)")
	ui.Choices(f, "mode", string(job.Coordinated), string(job.Semi), string(job.Uncoordinated))
	f.StringVar(&o.level, "level", string(job.System), "what checkpoints hold: system (all of the memory) or application (only the arrays that the workload saves; the others are computed anew)")
	ui.Choices(f, "level", string(job.System), string(job.Application))
	f.IntVar(&o.groupSize, "group-size", 0, "with --mode semi: ranks per group (default: the ranks of a node)")
	f.StringVar(&o.log, "log", "", "log of the messages between groups: pessimistic-receiver (default), pessimistic-sender, optimistic or none")
	ui.Choices(f, "log", "pessimistic-receiver", "pessimistic-sender", "optimistic", "none")
	f.StringVar(&o.stagger, "stagger", "", "how the checkpoints of the groups spread over the interval: spread (default), random or none")
	ui.Choices(f, "stagger", "spread", "random", "none")
	f.StringVar(&o.jitter, "jitter", "", "vary the interval of each group at random by up to this share, like 20% or 0.2")
	f.Uint64Var(&o.seed, "seed", 0, "random seed of --jitter and --stagger random")
	f.IntVar(&o.residuals, "residual-every", 0, "print the residual of rank 0 every N iterations")
	f.StringVar(&o.every, "every", "", "checkpoint every N iterations, at the end of each epoch, or as --interval if it is a time, like 30s")
	f.IntVar(&o.count, "count", 0, "take N checkpoints, evenly spread over the iterations")
	f.StringVar(&o.interval, "interval", "", "time from one checkpoint to the next, like 10m; none for no schedule (default: of a program 10m)")
	f.StringVar(&o.overhead, "overhead", "", "checkpoint as often as this share of the computing time allows, like 10% or 0.1")
	f.StringVar(&o.model, "model", "", "predict the checkpoints with this model of ckpt predict fit: --overhead begins with it, ckpt list shows it")
	o.tune.AddFlags(f, "tune", "find the best way to write on this storage, and change it when measured rates disagree")
	f.StringVar(&o.objective, "objective", string(tune.Pause), "with --tune: what is to be least, pause, latency or bytes")
	ui.Choices(f, "objective", string(tune.Pause), string(tune.Latency), string(tune.Bytes))
	f.IntVar(&o.keep, "keep", 0, "keep only the newest N sound checkpoints while the job runs (default: all)")
	g.AddStoreFlag(cmd)
	g.AddGroupFlag(cmd)
	f.StringVar(&o.job, "job", "", "name of the job (default: APP-1, APP-2, …)")
	f.StringVar(&o.launcher, "launcher", "local", "how to start the ranks: local (on this host), mpiexec or srun")
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
	o.tierOptions.addFlags(f)
	o.turnsOption.addFlags(f, "off")
	o.running.addFlags(f)
	o.programOptions.addFlags(f)
	o.engineOptions.addFlags(f)
}
