package benchmarks

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/pfs"
)

type storageOptions struct {
	on, sweep, plot string
	bytes           string
	ranks, nodes    int
	seed            uint64
	probe           probeOptions
}

func newBenchStorageCommand(g *ui.Globals) *cobra.Command {
	var o storageOptions
	cmd := &cobra.Command{
		Use:   "storage [DIR]",
		Short: "Measure a storage and describe it, or run benchmarks on a description",
		Long: `Measure DIR with short probes and a few short jobs, and write a description of its
storage to the file of --output: rates by request size and number of writers, files of
their own and one for all, syncs, names, codecs, and what ckpt itself costs. Some of the
probes are held out: they say how far the description may be off. Afterwards nothing is
left in DIR.

Without DIR, run the write benchmark of Larrosa's thesis on a description of a storage,
in virtual time: every rank has as many bytes, a block of a two-dimensional array, and
all write the array into one file together. The description is a preset or a file
(docs/STORAGE.md).

--sweep varies settings and prints a line for each run. It takes names, with values if
not the usual ones are wanted: p1, p2, p3, p4, aggregators, buffer, stripes (the size
of one), osts (the number of stripes side by side), ranks, layout, strategy. The
switches p1 to p4 are combined with each other. Every other setting varies alone. A
setting with one value holds for all runs. Without --sweep there is one run.`,
		Example: `  ckpt bench storage /scratch -o scratch.yaml
  ckpt bench storage --on eos-spider2 --sweep p1,p2,p3,p4,aggregators,buffer,stripes --plot larrosa.svg
  ckpt bench storage --on eos-spider2 --sweep p1=off,p2=off,ranks=4:16:64
  ckpt bench storage --on ./scratch.yaml --ranks 32 --nodes 4 --bytes 512MiB --sweep osts,buffer=8MiB:64MiB --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "ranks", "nodes"); err != nil {
				return err
			}
			if len(args) == 1 {
				return runStorageIn(cmd, g, args[0], &o)
			}
			for _, name := range []string{"output", "time", "max-bytes"} {
				if cmd.Flags().Changed(name) {
					return ui.BadUsage("--"+name+" goes with a directory", "give the directory to measure, as in ckpt bench storage .")
				}
			}
			return runBenchStorage(cmd.Context(), g, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "", "description of the storage: "+strings.Join(pfs.Presets(), ", ")+", or a file")
	ui.Choices(f, "on", pfs.Presets()...)
	f.StringVar(&o.sweep, "sweep", "", "settings to vary, like p1,p2,buffer or buffer=4MiB:32MiB")
	f.StringVar(&o.plot, "plot", "", "draw the rates to this .svg, .png or .pdf")
	f.IntVar(&o.ranks, "ranks", 128, "number of ranks")
	f.IntVar(&o.nodes, "nodes", 0, "spread the ranks over this many nodes (default one rank on each)")
	f.StringVar(&o.bytes, "bytes", "2GiB", "bytes of each rank")
	f.Uint64Var(&o.seed, "seed", 1, "seed of what is random: slow targets, held-out probes")
	o.probe.addFlags(f)
	return cmd
}

// runStorageIn measures a directory.
func runStorageIn(cmd *cobra.Command, g *ui.Globals, dir string, o *storageOptions) error {
	for _, name := range []string{"on", "sweep", "plot", "ranks", "nodes", "bytes"} {
		if cmd.Flags().Changed(name) {
			return ui.BadUsage("--"+name+" goes with a description, not with a directory", "leave the directory out, or --"+name)
		}
	}
	return runProbeStorage(cmd.Context(), g, dir, o)
}

func loadOn(on string) (*pfs.System, error) {
	system, err := pfs.Load(on)
	if err != nil {
		return nil, ui.BadUsage("--on: "+err.Error(), "")
	}
	return system, nil
}

func runBenchStorage(ctx context.Context, g *ui.Globals, o *storageOptions) error {
	if o.on == "" {
		return ui.Missing("--on", pfs.Presets()[0])
	}
	if err := ui.CheckPlotName(o.plot); err != nil {
		return err
	}
	system, err := loadOn(o.on)
	if err != nil {
		return err
	}
	s, err := newSweep(system, o)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	bar := g.NewBar("runs", s.bytesOf(), true)
	err = s.run(ctx, bar.Set)
	bar.Clear()
	if err != nil {
		return err
	}
	if err := draw(ctx, g, o.plot, s.panels); err != nil {
		return err
	}
	return g.Show(s, func() error { return s.print(g) })
}
