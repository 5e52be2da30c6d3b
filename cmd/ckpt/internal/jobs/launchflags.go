package jobs

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/image"
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
	count                int
	keep                 image.Retention
	every                string
	interval, overhead   string
	model                string
	tune                 ui.StorageOptions
	objective            string
	sharedOnce, libsOnce bool
	codec                string
	incremental, trace   bool
	async                ui.InFlight
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
	f.IntVar(&o.iterations, "iterations", 0, "number of iterations (default: that of the class); of a program, with --count: its boundaries")
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
	f.IntVar(&o.count, "count", 0, "take N checkpoints, evenly spread over the iterations, of a program over --iterations boundaries")
	f.StringVar(&o.interval, "interval", "", "time from one checkpoint to the next, like 10m; none for no schedule (default: of a program 10m)")
	f.StringVar(&o.overhead, "overhead", "", "checkpoint as often as this share of the computing time allows, like 10% or 0.1")
	f.StringVar(&o.model, "model", "", "predict the checkpoints with this model of ckpt predict fit: --overhead begins with it, ckpt list shows it")
	o.tune.AddFlags(f, "tune", "find the best way to write on this storage, and change it when measured rates disagree")
	f.StringVar(&o.objective, "objective", string(tune.Pause), "with --tune: what is to be least, pause (with --local latency), latency or bytes")
	ui.Choices(f, "objective", string(tune.Pause), string(tune.Latency), string(tune.Bytes))
	f.IntVar(&o.keep.Last, "keep", 0, "keep only the newest N sound checkpoints while the job runs (default: all)")
	ui.AddPeriods(f, &o.keep.Hourly, &o.keep.Daily)
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
	o.async.AddFlag(f, "compute while a checkpoint is written from a copy of the memory; with a number, while up to N are in flight")
	f.StringVar(&o.staging, "staging", "", "with --async: memory for the copy of a rank (default: 16MiB more than its data zone)")
	f.BoolVar(&o.libsOnce, "library-once", true, "store the library zone once per job, not once per rank and checkpoint")
	o.tierOptions.addFlags(f)
	o.turnsOption.addFlags(f, "off")
	o.running.addFlags(f)
	o.programOptions.addFlags(f)
	o.engineOptions.addFlags(f)
}

// launchGroups are the flags of ckpt launch as its help shows them.
var launchGroups = []ui.FlagGroup{
	{
		Name: "run", First: "job np nodes map store auto-restart walltime",
		More: "iterations wait group restarts silence patience launcher listen mpi residual-every metrics-file otel-file",
	},
	{
		Name: "when", Title: "When to take checkpoints", First: "every interval count overhead keep",
		More: "on-full keep-hourly keep-daily model stagger jitter seed",
		Text: `With --model the command predicts what each checkpoint stores and costs. --overhead
plans with that until the first checkpoint is measured; ckpt status, list and show give it beside
what was measured, and ckpt predict eval JOB compares them.`,
	},
	{
		Name: "write", Title: "How to write", First: "async layout codec level",
		More: `incremental library-once shared-once staging strategy aggregators buffer stripe-count
stripe-size first-ost p1 p2 p3 p4 trace tune background objective storage-turns`,
		Text: `With --tune the command finds the best way to write on a described storage, as ckpt
tune does, and begins with it; of a program after its first checkpoint, which tells what it stores.
Where checkpoints, or with --local their copies into the store, take another time than forecast, it
scales the description by what was measured, and may change layout, aggregators, buffer and codec
from the next checkpoint on (docs/STORAGE.md). With --storage-turns the job takes turns with others on the
storage of the store, where a controller (ckpt storage serve) grants them; without a controller it
says so once, and runs as it would without (docs/TURNS.md).`,
	},
	{
		Name: "levels", Title: "Levels of storage", First: "local protect next",
		More: "domains drain drain-rate",
		Text: `With --local a checkpoint goes to directories of the nodes, and the job computes on.
It is copied into the store behind the job, as --drain says. --protect keeps copies or parities on
other nodes. With --next checkpoints are copied on from the store into another one, an archive or an
object storage. After a failure each rank reads the nearest sound copy: its node's, another node's,
or the store's, to which ckpt restart brings what only the next store has (docs/TIERS.md).`,
	},
	{
		Name: "programs", First: "engine",
		More: "grace nodes-from-launcher",
	},
	{
		Name: "experiments", First: "fail",
		More: "mode group-size log",
	},
}
