package predictions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/plan"
)

type planOptions struct {
	timeOptions
	modeOptions
	tierOptions
	overhead, appTime, capacity, minimize, runs string
	keep, top, checkpoints, maxNodes            int
	ppn, aggregatorList                         []int
	mpis, codecs, buffers                       []string
}

func newPredictPlanCommand(g *ui.Globals) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [APP]",
		Short: "Compare mappings, MPI libraries and codecs, and mark the best",
		Long: `Compare mappings (ranks per node), MPI libraries, codecs, and with --io full
aggregators and buffers: the size of the images and of a whole checkpoint, its time,
the number of checkpoints that the overhead pays for, their interval, and the
storage needed to keep them. The best by --minimize is marked with *:

  time       the shortest checkpoint (--minimize checkpoint means the same)
  total      the shortest run with its checkpoints; with --checkpoints
  storage    the least space for the checkpoints kept (bytes means the same:
             their number is fixed)
  lost-work  the shortest interval: half of it is lost to a failure, on average

With --mtbf the command compares modes of checkpoints and logs of messages instead,
for one mapping: what it costs that every group stores once (ckpt), the best time between them
(every), the log of that time and what it costs (log), a restart of the ranks that go
back (restart), the work that a failure destroys (lost), and the expected time of the
run. docs/PREDICT.md has the model; --json has more columns and the ends of ranges.

With --local-rate, too, checkpoints go to storage on the nodes first, with what
--protect adds, and from there into the store behind the job (docs/TIERS.md): the best
pattern over both (docs/INTERVAL.md), beside a store alone.

A run may take longer in one configuration than in another. --runs reads the times
from a CSV file or built-in table with the columns app_time_s, mapping (2n x 8p) or
n_processes and n_nodes, and cb_buffer_size_MiB if buffers differ. Without --app-time
only these configurations are compared.`,
		Example: `  ckpt predict plan bt.D --np 64 --overhead 30% --app-time 1137.53
  ckpt predict plan bt.C --np 64 --overhead 10% --app-time 2h --keep 2 --capacity 100GiB --minimize storage --json
  ckpt predict plan bt.C --np 64 --overhead 10% --app-time 2h --io full --aggregators 1,2,4 --buffers 8MiB,16MiB
  ckpt predict plan bt.B.16 --io full --mpi mpich --codec none --runs 5.14 --checkpoints 1 --minimize total
  ckpt predict plan bt.D.64 --nodes 4 --app-time 24h --mtbf 12h
  ckpt predict plan bt.D.64 --nodes 4 --app-time 24h --mtbf 12h --mode semi,uncoordinated --log pessimistic-sender
  ckpt predict plan bt.D.64 --nodes 4 --app-time 24h --mtbf 12h --local-rate 2GiB/s --store-rate 200MiB/s --share-local 85% --protect partner`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inputErrors(runPredictPlan(cmd, g, &o, appOf(args)))
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *planOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.model, "model", "", "model of ckpt predict fit (default: the built-in tables)")
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	f.StringVar(&o.overhead, "overhead", "", "accepted share of the run time, like 30% or 0.3")
	f.StringVar(&o.appTime, "app-time", "", "time of the run without checkpoints")
	f.IntVar(&o.checkpoints, "checkpoints", 0, "checkpoints in a run, in place of --overhead")
	f.StringVar(&o.runs, "runs", "", "CSV file or table with the times of runs without checkpoints")
	f.IntVar(&o.maxNodes, "max-nodes", 0, "largest number of nodes (default no limit)")
	f.IntVar(&o.keep, "keep", 1, "checkpoints that stay in the store while one more is written")
	f.StringVar(&o.capacity, "capacity", "", "size of the store, like 1TiB (default no limit)")
	f.StringVar(&o.minimize, "minimize", "time", "quantity to minimise: time, total, storage or lost-work")
	ui.Choices(f, "minimize", "time", "total", "storage", "lost-work", "checkpoint", "bytes")
	f.IntSliceVar(&o.ppn, "ppn", nil, "ranks per node to try (default 1,2,4,… and all on one node)")
	f.StringSliceVar(&o.mpis, "mpi", []string{"mpich", "openmpi"}, "MPI libraries to try")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.StringSliceVar(&o.codecs, "codec", []string{"none", "gzip"}, "codecs to try: "+strings.Join(fit.Codecs(), ", "))
	ui.Choices(f, "codec", fit.Codecs()...)
	addEngineFlag(f, &o.engine)
	f.StringVar(&o.io, "io", "none", "how the application writes: none, simple or full")
	ui.Choices(f, "io", "none", "simple", "full")
	f.IntSliceVar(&o.aggregatorList, "aggregators", nil, "numbers of aggregators to try, with --io full (default one per node)")
	f.StringSliceVar(&o.buffers, "buffers", nil, "collective buffers to try, with --io full, like 8MiB,16MiB")
	f.StringVar(&o.law, "law", "auto", "law of the data zone: "+strings.Join(fit.LawNames(), ", "))
	ui.Choices(f, "law", fit.LawNames()...)
	f.StringVar(&o.measure, "measure", "", "measure the rate of this directory with a short write test")
	f.StringVar(&o.probeSize, "measure-size", "64MiB", "bytes of each round of --measure")
	o.storage.AddFlags(f, "on", "predict the times on this storage, which all nodes share")
	f.IntVar(&o.top, "top", 0, "show the best N only (default all)")
	o.modeOptions.addFlags(f)
	o.tierOptions.addFlags(f)
}

// planning reads the flags.
func (o *planOptions) planning() (plan.Planning, error) {
	p := plan.Planning{Keep: o.keep, PPN: o.ppn, Codecs: o.codecs, IO: predict.IO(o.io), Aggregators: o.aggregatorList,
		Checkpoints: o.checkpoints, MaxNodes: o.maxNodes}
	var err error
	if p.Minimize, err = plan.ParseAim(o.minimize); err != nil {
		return p, err
	}
	switch {
	case o.overhead == "" && o.checkpoints == 0 && !o.modeOptions.given() && !o.tierOptions.given():
		return p, ui.Missing("--overhead", "30%")
	case o.overhead != "" && o.checkpoints != 0:
		return p, ui.BadUsage("--checkpoints and --overhead both say how many checkpoints a run takes", "leave one of the two out")
	case o.appTime == "" && o.runs == "":
		return p, ui.Missing("--app-time", "24h")
	}
	var q ui.Quantities
	if o.overhead != "" {
		p.Overhead = q.Share("--overhead", o.overhead)
	}
	if o.appTime != "" {
		p.AppSeconds = q.Duration("--app-time", o.appTime).Seconds()
	}
	p.CapacityMiB = float64(q.Size("--capacity", o.capacity)) / (1 << 20)
	for _, b := range o.buffers {
		p.BuffersMiB = append(p.BuffersMiB, float64(q.Size("--buffers", b))/(1<<20))
	}
	if q.Err != nil {
		return p, q.Err
	}
	for _, s := range o.mpis {
		name := dataset.MPIName(s)
		if name == "" {
			return p, ui.BadUsage(fmt.Sprintf("MPI library %q is unknown", s), "write mpich or openmpi")
		}
		p.MPI = append(p.MPI, name)
	}
	p.Law, err = fit.ParseLaw(o.law)
	return p, err
}

// storing says whose files are compared. Those of ckpt have the codec of the measured
// jobs, or none, unless codecs are given.
func (o *planOptions) storing(cmd *cobra.Command, m *predict.Model, p *plan.Planning) error {
	own, err := o.own(m)
	if err != nil || !own {
		return err
	}
	p.Engine, p.Storing = dataset.Ckpt, predict.Storing{Layout: o.layout, Async: o.async}
	if !cmd.Flags().Changed("codec") {
		p.Codecs = nil
	}
	return nil
}

// times reads the run times of np processes, if there is a table of them.
func (o *planOptions) times(np int) (runs []plan.AppRun, err error) {
	if o.runs == "" {
		return nil, nil
	}
	t, err := loadTable(o.runs)
	if err != nil {
		return nil, err
	}
	list, err := dataset.MappedRunsOf(t)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if r.NP == np {
			runs = append(runs, plan.AppRun{Nodes: r.Nodes, BufferMiB: r.BufferMiB, Seconds: r.Seconds})
		}
	}
	if len(runs) == 0 {
		return nil, ui.BadUsage(fmt.Sprintf("%s has no run on %d ranks", o.runs, np), "add a line, or leave --runs out")
	}
	return runs, nil
}

type planResult struct {
	App      string         `json:"app"`
	Minimize plan.Aim       `json:"minimize"`
	Keep     int            `json:"keep"`
	Options  []optionResult `json:"options"`
}

func runPredictPlan(cmd *cobra.Command, g *ui.Globals, o *planOptions, app string) error {
	p, err := o.planning()
	if err != nil {
		return err
	}
	m, err := o.load()
	if err != nil {
		return err
	}
	if p.App, err = m.Application(app, o.np); err != nil {
		return err
	}
	if err := o.storing(cmd, m, &p); err != nil {
		return err
	}
	if p.Runs, err = o.times(p.App.NP); err != nil {
		return err
	}
	if p.Probe, err = o.probe(cmd.Context()); err != nil {
		return err
	}
	on, err := o.on(cmd.Context())
	if err != nil {
		return err
	}
	if !o.tierOptions.given() {
		if err := tierFlagsUnused(cmd.Flags()); err != nil {
			return err
		}
	}
	if o.modeOptions.given() || o.tierOptions.given() {
		if on != nil {
			return ui.BadUsage("--on and --mtbf exclude each other: the groups of modes are not simulated", "leave one of them out")
		}
		if o.tierOptions.given() {
			return runPlanTier(cmd, g, o, m, &p)
		}
		return runPlanModes(cmd, g, o, m, &p)
	}
	if err := o.modeFlagsUnused(cmd); err != nil {
		return err
	}
	if on != nil {
		p.Storage = on
	}
	if o.modeOptions.Nodes > 0 && len(p.PPN) == 0 {
		p.PPN = []int{(p.App.NP + o.modeOptions.Nodes - 1) / o.modeOptions.Nodes}
	}
	options, err := plan.Compare(m, p)
	if err != nil {
		return err
	}
	nearest := bestMeasured(options)
	if !g.Quiet && slices.Contains(m.Elsewhere, "data") && on != nil {
		nearest += "sizes measured on another machine: fit a run of yours with ckpt predict fit; times on " + on.sys.Name + "\n"
	} else if !g.Quiet && slices.Contains(m.Elsewhere, "data") {
		nearest += "measured on another machine, with its disks: fit a run of yours with ckpt predict fit, and use --measure\n"
	}
	if o.top > 0 && o.top < len(options) {
		options = options[:o.top]
	}
	return g.Show(planResult{p.App.String(), p.Minimize, o.keep, optionsJSON(options)}, func() error { return printPlan(g, &p, options, nearest) })
}

// bestMeasured names the best option within the measurements, if the best of all is
// extrapolated; otherwise it is "".
func bestMeasured(options []plan.Option) string {
	if len(options) == 0 || !options[0].Best || options[0].Extrapolation <= plan.Within {
		return ""
	}
	text := fmt.Sprintf("* is extrapolated ×%.2g; ", options[0].Extrapolation)
	for _, o := range options {
		if o.BestMeasured {
			return text + fmt.Sprintf("the best within the measurements is %d×%d %s %s: %s s, %s\n", o.Nodes, o.PPN, o.MPI, o.Codec, decimal(o.CheckpointS), between(o.LowS, o.HighS))
		}
	}
	return text + "nothing that fits lies within the measurements\n"
}

func printPlan(g *ui.Globals, p *plan.Planning, options []plan.Option, nearest string) error {
	header := []string{"", "mapping", "MPI", "codec", "~|image MiB", "~|Gstored GiB", "|time s", "~|95 %", "|count", "|every s", "~|total s", "~|lost s", "|store GiB", ""}
	full := p.IO == predict.FullIO
	if full {
		header = append(header[:4:4], append([]string{"|agg", "|buffer"}, header[4:]...)...)
	}
	var rows [][]string
	assumed, outside := false, false
	for _, o := range options {
		mark, remark := "", ""
		switch {
		case o.Best:
			mark = "*"
		case o.Count == 0:
			remark = "no checkpoint is affordable"
		case !o.Fits:
			remark = "store too small"
		}
		if o.Fits && o.Guess {
			remark = "a guess"
		}
		if o.Extrapolation > plan.Within {
			remark = strings.TrimPrefix(remark+fmt.Sprintf(", extrapolated ×%.2g", o.Extrapolation), ", ")
			outside = true
		}
		assumed = assumed || o.Assumed
		row := []string{mark, fmt.Sprintf("%d×%d", o.Nodes, o.PPN), o.MPI, o.Codec, decimal(o.FileMiB), decimal(o.GstoredMiB / 1024),
			decimal(o.CheckpointS), between(o.LowS, o.HighS), strconv.Itoa(o.Count), decimal(o.IntervalS), decimal(o.TotalS), decimal(o.LostS), decimal(o.StorageMiB / 1024), remark}
		if full {
			row = append(row[:4:4], append([]string{strconv.Itoa(o.Aggregators), decimal(o.BufferMiB)}, row[4:]...)...)
		}
		rows = append(rows, row)
	}
	g.Table(header, rows)
	text := nearest
	switch {
	case len(options) == 0 || options[0].Best:
	case options[0].Fits:
		text += "all that fits is a guess, far outside the measurements: measure nearer, and use --model\n"
	default:
		text += "nothing fits: accept more overhead, or enlarge the store\n"
	}
	if outside && !g.Quiet {
		text += "extrapolated ×F: outside the range measured, by that factor\n"
	}
	if assumed && !g.Quiet {
		text += "zstd and s2: rates and ratios are assumed from live solvers, not measured by the tables\n"
	}
	return g.Printf("%s", text)
}
