package jobs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/codec"
)

type tuneOptions struct {
	ui.Placement
	writePath
	storage                       predictions.StorageOptions
	np                            int
	mpi, codec, objective, memory string
	model                         string
	async, incremental, following bool
	all                           bool
}

func newTuneCommand(g *ui.Globals) *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "tune APP",
		Short: "Find the settings with which a checkpoint costs least on a storage",
		Long: `Find the settings with which a checkpoint costs least on a described storage: layout,
strategy, aggregators, buffer, stripes, codec and --async. The command simulates
checkpoints (docs/STORAGE.md), and runs and writes nothing.

The flags of ckpt launch say what the others are compared with; without them that is
what ckpt launch does by itself. --objective says what is to be least:

  pause      the time for which the application stands still
  latency    the time until the checkpoint is durable
  bytes      what is stored

The last line has the flags for ckpt launch. Another setting is proposed only if it is
better by more than the description can be relied on.`,
		Example: `  ckpt tune bt.C.64 --nodes 4 --on eos-spider2
  ckpt tune bt.C.64 --nodes 4 --on ./scratch.yaml --objective latency
  ckpt tune cg.B --np 32 --nodes 4 --on local-nvme --memory 1GiB --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "np", "nodes"); err != nil {
				return err
			}
			return runTune(cmd.Context(), g, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	o.Placement.AddFlags(f)
	o.storage.AddFlags(f, "on", "find settings for this storage")
	f.StringVar(&o.objective, "objective", string(tune.Pause), "what is to be least: pause, latency or bytes")
	ui.Choices(f, "objective", string(tune.Pause), string(tune.Latency), string(tune.Bytes))
	f.StringVar(&o.memory, "memory", "", "memory of a node that buffers and copies may take, like 4GiB (default any)")
	f.StringVar(&o.mpi, "mpi", "mpich", "layout of the shared segment: mpich or openmpi")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.StringVar(&o.model, "model", "", "store what the jobs behind this model of ckpt predict fit did")
	f.BoolVar(&o.following, "following", false, "a checkpoint that stores only what has changed, not the first")
	f.StringVar(&o.codec, "codec", codec.UseAuto.String(), "compare with this compression: "+codec.Choices())
	ui.Choices(f, "codec", codec.Names()...)
	f.BoolVar(&o.incremental, "incremental", true, "store only bytes that changed since the previous checkpoint")
	f.BoolVar(&o.async, "async", false, "compare with checkpoints that are written from a copy of the memory")
	o.writePath.addFlags(f)
	o.addTuningFlags(f)
	f.BoolVar(&o.all, "all", false, "show all that was compared, not the best of each way to write")
	return cmd
}

// tuneCase is the checkpoint that the flags describe.
func (o *tuneOptions) tuneCase(app string) (tune.Case, error) {
	inst, err := dataset.ParseApp(app, o.np)
	if err != nil {
		return tune.Case{}, err
	}
	c := tune.Case{Instance: inst, MPI: o.mpi, Codec: o.codec, Async: o.async, Incremental: o.incremental, Following: o.following}
	if c.Mapping, err = o.Resolve(inst.NP); err != nil {
		return c, err
	}
	if _, err := codec.ParseSetting(o.codec); err != nil {
		return c, &job.UsageError{Text: err.Error(), Fix: "--codec takes " + codec.Choices()}
	}
	if o.memory != "" {
		if c.Limit, err = ui.ParseSize("--memory", o.memory); err != nil {
			return c, err
		}
	}
	if c.Background, err = o.storage.Background(); err != nil {
		return c, err
	}
	if c.Settings, err = o.settings(); err != nil {
		return c, err
	}
	if o.model != "" {
		err = predictions.AddContents(o.model, &c)
	}
	return c, err
}

func runTune(ctx context.Context, g *ui.Globals, o *tuneOptions, app string) error {
	objective, err := tune.ParseObjective(o.objective)
	if err != nil {
		return ui.BadUsage("--objective "+o.objective+": want pause, latency or bytes", "")
	}
	c, err := o.tuneCase(app)
	if err != nil {
		return err
	}
	sys, err := o.storage.Load()
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	choice, err := tune.Search(ctx, sys, c, objective)
	if err != nil {
		return o.usage(tuneError(err))
	}
	r := tunedOf(&c, &choice, sys)
	return g.Show(r, func() error { return printTuned(g, &r, &choice, o.all) })
}

// tuneError words the errors of a search for its flags.
func tuneError(err error) error {
	if limit, ok := asLimit(err); ok {
		return ui.BadUsage(fmt.Sprintf("--memory %s: even the settings given need %s", ui.FlagSize(limit.Limit), ui.MiB(limit.Need)+" MiB"),
			"give more memory, or a smaller --buffer")
	}
	return err
}
