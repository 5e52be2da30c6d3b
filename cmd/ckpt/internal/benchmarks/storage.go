package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/internal/vfs"
)

type storageOptions struct {
	on, sweep, plot string
	bytes           string
	ranks, nodes    int
	seed            uint64
	launcher        string
	listen          string
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
probes are held out: they say how far the description may be off. With --ranks as many
writers write small files, too: forecasts for more than any probe had are less certain.
Afterwards nothing is left in DIR.

DIR with --sweep runs the write benchmark of Larrosa's thesis there: for each run a job of
ckpt, whose ranks write a checkpoint of --bytes each several times, with one of the
settings, and read it back once, each its own part, with all checksums. With --launcher
the ranks run on the hosts that mpiexec or srun knows, so that the locks and the network
between hosts take part; --on with the description of DIR and --output then write it
with both.

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
  ckpt bench storage /scratch --ranks 8 --sweep layout,strategy
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
			for _, name := range []string{"output", "time", "max-bytes", "launcher", "listen"} {
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
	f.StringVar(&o.plot, "plot", "", "draw the rates to this .svg, .png, .pdf or .json")
	f.IntVar(&o.ranks, "ranks", 128, "number of ranks (in DIR: 4), or of writers of probes")
	f.IntVar(&o.nodes, "nodes", 0, "spread the ranks over this many nodes (default one rank on each)")
	f.StringVar(&o.bytes, "bytes", "2GiB", "bytes of each rank (in DIR: 32MiB)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of what is random: slow targets, held-out probes")
	f.StringVar(&o.launcher, "launcher", job.LocalLauncher, "how to start the ranks in DIR: local (on this host), mpiexec or srun")
	ui.Choices(f, "launcher", job.LocalLauncher, "mpiexec", "srun")
	f.StringVar(&o.listen, "listen", "", "address of this host, HOST or HOST:PORT, that ranks on other hosts reach")
	o.probe.addFlags(f)
	return cmd
}

// runStorageIn measures a directory.
func runStorageIn(cmd *cobra.Command, g *ui.Globals, dir string, o *storageOptions) error {
	given := cmd.Flags().Changed
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return ui.BadUsage(fmt.Sprintf("bench storage %s: not a directory", dir), "give a directory on the storage to measure")
	}
	if given("on") && (o.sweep == "" || o.probe.output == "") {
		return ui.BadUsage("--on goes with a description, not with a directory", "leave the directory out, or --on; with --sweep and --output it is the description to complete")
	}
	if o.sweep != "" {
		switch {
		case given("time"):
			return ui.BadUsage("--time is for a description of the directory, --sweep compares settings", "leave one of them out")
		case o.probe.output != "" && (!given("on") || o.launcher == job.LocalLauncher):
			return ui.BadUsage("--sweep with --output adds to a description what one host cannot measure, locks and network", "add --on with the description of the directory, and --launcher mpiexec or srun; or leave --output out")
		}
		if !given("ranks") {
			o.ranks = 4
		}
		if !given("bytes") {
			o.bytes = "32MiB"
		}
		return runSweepIn(cmd.Context(), g, dir, o)
	}
	if !given("ranks") {
		o.ranks = 0
	} else if o.ranks > mostWriters {
		return ui.BadUsage(fmt.Sprintf("--ranks %d: probes have at most %d writers", o.ranks, mostWriters), "give the writers of one host, at most so many")
	}
	for _, name := range []string{"plot", "nodes", "bytes", "launcher", "listen"} {
		if given(name) {
			return ui.BadUsage("--"+name+" goes with a description, or with --sweep", "add --sweep, as in --sweep layout,strategy, or leave --"+name+" out")
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
	s, err := newSweep(system, nil, o)
	if err != nil {
		return err
	}
	return s.show(ctx, g, o.plot)
}

// show carries the runs out, and prints and draws them.
func (s *sweep) show(ctx context.Context, g *ui.Globals, picture string) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	bar := g.NewBar("runs", s.bytesOf(), true)
	err := s.run(ctx, bar.Set)
	bar.Clear()
	if err != nil {
		return err
	}
	if err := draw(ctx, g, picture, s.panels); err != nil {
		return err
	}
	return g.Show(s, func() error { return s.print(g) })
}

// A sweepDir is a directory in which the runs of a sweep are jobs.
type sweepDir struct {
	trials
	launcher, listen string
	left             []string // usual values that had no space
	took             []tune.Measured
}

// A sweepMeasured is what a job of a sweep took.
type sweepMeasured struct {
	Checkpoints int     `json:"checkpoint_count"`
	Median      float64 `json:"median_s"`
	Low         float64 `json:"least_bytes_per_s"` // of all checkpoints but the first
	High        float64 `json:"most_bytes_per_s"`
	Read        float64 `json:"image_read_s"` // of the slowest rank
	ReadRate    float64 `json:"read_bytes_per_s"`
}

func runSweepIn(ctx context.Context, g *ui.Globals, dir string, o *storageOptions) error {
	if err := ui.CheckPlotName(o.plot); err != nil {
		return err
	}
	most, err := ui.ParseSize("--max-bytes", o.probe.maxBytes)
	if err != nil {
		return err
	}
	if free, err := (vfs.OS{}).Free(dir); err == nil {
		most = min(most, free/2)
	}
	s, err := newSweep(nil, &sweepDir{trials: trials{g: g, dir: dir, most: most}, launcher: o.launcher, listen: o.listen}, o)
	if err != nil {
		return err
	}
	var base *pfs.System
	if o.on != "" {
		if base, err = loadOn(o.on); err != nil {
			return err
		}
	}
	if err := s.show(ctx, g, o.plot); err != nil || base == nil {
		return err
	}
	if base, _, err = tune.Contended(ctx, base, s.in.took); err != nil {
		return err
	}
	base.Round(3)
	return g.WriteFile(ctx, o.probe.output, base.Encode)
}

// sweepApp is an array that changes in each iteration, of which a checkpoint at application level
// holds nothing else.
const sweepApp = `name: sweep
kernel: generic
procs: any
classes: {x: {iterations: 1}}
arrays:
  - {name: a, elem: int64, count: %d, rewrite: 1, save: true}
`

// spec describes the job of a point.
func (s *sweep) spec(p sweepPoint) (job.Spec, error) {
	w, err := dataset.ParseWorkload(fmt.Appendf(nil, sweepApp, s.Bytes/8), "sweep.yaml")
	if err != nil {
		return job.Spec{}, err
	}
	inst, err := w.Instance("x", p.ranks)
	if err != nil {
		return job.Spec{}, err
	}
	t := trial{NP: p.ranks, Nodes: s.nodesOf(p), Settings: p.settings, Codec: "none"}
	spec := t.spec(inst, checkpointsEach)
	spec.Level, spec.Keep, spec.AutoRestart, spec.Launcher = job.Application, 1, true, s.in.launcher
	return spec, nil
}

// suits refuses a point of which no job can be.
func (s *sweep) suits(p sweepPoint) error {
	if two := 2 * int64(p.ranks) * s.Bytes; two > s.in.most {
		return &plan.SettingError{Setting: "ranks", Value: fmt.Sprint(p.ranks), Reason: fmt.Sprintf("two checkpoints have %s, more than --max-bytes and half of the free space, %s", ui.Size(two), ui.Size(s.in.most)),
			Remedy: "give fewer ranks, fewer --bytes or more --max-bytes"}
	}
	spec, err := s.spec(p)
	if err != nil {
		return err
	}
	resolved, err := spec.Resolve()
	if err == nil && spec.Launcher == job.LocalLauncher {
		err = launch.CheckMemory(resolved)
	}
	if memory, ok := errors.AsType[*launch.MemoryError](err); ok {
		return &plan.SettingError{Setting: "ranks", Value: fmt.Sprint(p.ranks), Reason: memory.Error(), Remedy: "give fewer ranks or fewer --bytes"}
	}
	if usage, ok := errors.AsType[*job.UsageError](err); ok {
		return &plan.SettingError{Setting: "layout", Value: string(p.settings.Layout), Reason: usage.Text, Remedy: usage.Fix}
	}
	return err
}

// measure runs the job of a point. Its first checkpoint meets buffers that nothing has touched, and
// does not count. After the last a rank is killed, so that all ranks read.
func (s *sweep) measure(ctx context.Context, point sweepPoint) (sweepRun, error) {
	p, err := s.plan(point)
	if err != nil {
		return sweepRun{}, err
	}
	spec, err := s.spec(point)
	if err != nil {
		return sweepRun{}, err
	}
	kill, err := launch.ParseFailure(fmt.Sprintf("rank=0@iter=%d", spec.Iterations))
	if err != nil {
		return sweepRun{}, err
	}
	opt := coordinator.Options{StopOnFull: true, Listen: s.in.listen, Failures: []launch.Failure{kill}, Limits: protocol.DefaultLimits}
	opt.Limits.Restarts = 1
	ran, err := runJob(ctx, s.in.g, s.in.dir, spec, opt, nil)
	if err != nil {
		return sweepRun{}, err
	}
	if len(ran.checkpoints) < 2 || len(ran.restarts) == 0 || ran.restarts[0].ReadS <= 0 {
		return sweepRun{}, fmt.Errorf("%s and %s: want more", ui.Count(len(ran.checkpoints), "checkpoint"), ui.Count(len(ran.restarts), "restart"))
	}
	r, o, back := s.row(point, p), ran.checkpoints[1:], ran.restarts[0]
	r.Bytes = int64(point.ranks) * s.Bytes
	var rates []float64
	for i := range o {
		rates = append(rates, float64(r.Bytes)/o[i].Latency.Total)
	}
	r.Rate = medianOf(rates)
	r.Measured = &sweepMeasured{Checkpoints: len(o), Median: o.latency(), Low: slices.Min(rates), High: slices.Max(rates),
		Read: back.ReadS, ReadRate: float64(back.ReadBytes) / back.ReadS}
	c, err := tune.OfSpec(spec)
	s.in.took = append(s.in.took, tune.Measured{Case: c, Latency: r.Measured.Median, HeldOut: len(s.in.took)%4 == 3})
	return r, err
}

// notes says what the table means.
func (d *sweepDir) notes(g *ui.Globals) error {
	if d == nil {
		return nil
	}
	text := fmt.Sprintf("\nMB/s: median, least and most of %d checkpoints, until they are durable.\nread: once, by all ranks, with all checksums; one measurement, no interval.\n", checkpointsEach-1)
	if len(d.left) > 0 {
		text += "left out, for want of space or since no job can be so: " + strings.Join(d.left, ", ") + "\n"
	}
	return g.Printf("%s", text)
}
