package predictions

import (
	"cmp"
	"fmt"
	"math"
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
	"ckpt/predict/service"
)

type planOptions struct {
	timeOptions
	modeOptions
	levelRates
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
			return InputErrors(runPredictPlan(cmd, g, &o, appOf(args)))
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
	o.addLevelFlag(f)
	o.async.AddFlag(f, "ckpt writes while the application computes; with a number, while up to N checkpoints are in flight")
	f.IntVar(&o.top, "top", 0, "show the best N only (default all)")
	o.modeOptions.addFlags(f)
	o.levelRates.addFlags(f)
}

// planning reads the flags.
func (o *planOptions) planning(cmd *cobra.Command, m *predict.Model, app string) (p plan.Planning, err error) {
	f := cmd.Flags()
	failing := o.modeOptions.given() || o.levelRates.given()
	p = plan.Planning{Keep: o.keep, PPN: o.ppn, Codecs: o.codecs, IO: predict.IO(o.io), Aggregators: o.aggregatorList,
		Checkpoints: o.checkpoints, MaxNodes: o.maxNodes}
	if p.Minimize, err = plan.ParseAim(o.minimize); err != nil {
		return p, err
	}
	switch {
	case o.overhead == "" && o.checkpoints == 0 && !failing:
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
	p.AppSeconds = q.Duration("--app-time", o.appTime).Seconds()
	p.CapacityMiB = predict.MiB(q.Size("--capacity", o.capacity)) / (1 << 20)
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
	if p.Law, err = fit.ParseLaw(o.law); err != nil {
		return p, err
	}
	if p.App, err = m.Application(app, o.np); err != nil {
		return p, err
	}
	if err := o.way(cmd, m, &p); err != nil {
		return p, err
	}
	if p.Runs, err = o.times(p.App.NP); err != nil {
		return p, err
	}
	if !o.levelRates.given() {
		if name := changed(f, "store-rate", "network-rate", "share-local", "protect", "drain-slowdown"); name != "" {
			return p, ui.BadUsage("--"+name+" belongs to checkpoints on the nodes", "add the rate of their storage, like --local-rate 2GiB/s")
		}
	}
	if failing {
		return p, o.failing(f, m, &p)
	}
	if name := changed(f, "log", "group-size", "stagger", "interval", "map"); name != "" {
		return p, ui.BadUsage("--"+name+" belongs to a comparison of modes", "add --mtbf, like --mtbf 24h")
	}
	if o.modeOptions.Nodes > 0 && len(p.PPN) == 0 {
		p.PPN = []int{predict.NodesOf(p.App.NP, o.modeOptions.Nodes)}
	}
	return p, nil
}

// changed is the first of the flags that was given, or "".
func changed(f *pflag.FlagSet, names ...string) string {
	if i := slices.IndexFunc(names, f.Changed); i >= 0 {
		return names[i]
	}
	return ""
}

// way says whose files are compared, and on which storage. Without --codec it compares
// the codecs that can be predicted: for files of ckpt the codec of the measured jobs, or none.
func (o *planOptions) way(cmd *cobra.Command, m *predict.Model, p *plan.Planning) error {
	own, err := o.own(m)
	if err != nil {
		return err
	}
	if own {
		p.Engine, p.Storing = dataset.Ckpt, predict.Storing{Layout: o.layout, Saved: o.saved()}
		p.Storing.Async, p.Storing.InFlight = o.async.Setting()
	}
	if !cmd.Flags().Changed("codec") {
		p.Codecs = nil
	}
	if p.Probe, err = o.probe(cmd.Context()); err != nil {
		return err
	}
	on, err := o.on(cmd.Context())
	if err == nil && on != nil {
		p.Storage = on
	}
	return err
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

// planResult are the options of a machine that does not fail, as --json prints them.
type planResult struct {
	App      string         `json:"app"`
	Engine   dataset.Engine `json:"engine"`
	Minimize plan.Aim       `json:"minimize"`
	Keep     int            `json:"keep"`
	Options  []plan.Option  `json:"options"`
}

func runPredictPlan(cmd *cobra.Command, g *ui.Globals, o *planOptions, app string) error {
	m, err := o.load(app)
	if err != nil {
		return err
	}
	p, err := o.planning(cmd, m, app)
	if err != nil {
		return err
	}
	options, err := plan.Compare(m, p)
	if err != nil {
		return err
	}
	switch {
	case p.Levels != nil:
		return showLevelPlan(g, &p, options, o.protect)
	case p.MTBFS != 0:
		if o.top > 0 && o.top < len(options) {
			options = options[:o.top]
		}
		p.OnNodes(len(options[0].Mapping))
		r := modePlan{p.App.String(), options[0].Mapping, cmp.Or(p.Engine, dataset.DMTCP), p.MTBFS, p.AppSeconds, options}
		return g.Show(r, func() error {
			why := o.onlyTogether(m, &p)
			if err := printModes(g, &r, o.staggers); err != nil || len(o.modes) > 0 || why == "" || g.Quiet {
				return err
			}
			return g.Printf("left out: modes of groups: %s\n", why)
		})
	}
	nearest := bestMeasured(options)
	if !g.Quiet && slices.Contains(m.Elsewhere, "data") && o.storage.On != "" {
		nearest += "sizes measured on another machine: fit a run of yours with ckpt predict fit; times on " + p.Storage.(*shared).sys.Name + "\n"
	} else if !g.Quiet && slices.Contains(m.Elsewhere, "data") {
		nearest += "measured on another machine, with its disks: fit a run of yours with ckpt predict fit, and use --measure\n"
	}
	if o.top > 0 && o.top < len(options) {
		options = options[:o.top]
	}
	return g.Show(planResult{p.App.String(), cmp.Or(p.Engine, dataset.DMTCP), p.Minimize, o.keep, options}, func() error { return printPlan(g, &p, options, nearest) })
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
			return text + fmt.Sprintf("the best within the measurements is %d×%d %s %s: %s, %s\n", o.Nodes, o.PPN, o.MPI, o.Codec, ui.Seconds(o.CheckpointS), times(o.LowS, o.HighS))
		}
	}
	return text + "nothing that fits lies within the measurements\n"
}

func printPlan(g *ui.Globals, p *plan.Planning, options []plan.Option, nearest string) error {
	kind := ofBudget
	if p.IO == predict.FullIO {
		kind |= ofAggregators
	}
	explainEngine(g, p.Engine, "")
	printOptions(g, kind, options)
	text := nearest
	switch {
	case len(options) == 0 || options[0].Best:
	case options[0].Fits:
		text += "all that fits is a guess, far outside the measurements: measure nearer, and use --model\n"
	default:
		text += "nothing fits: accept more overhead, or enlarge the store\n"
	}
	if slices.ContainsFunc(options, func(o plan.Option) bool { return o.Extrapolation > plan.Within }) && !g.Quiet {
		text += "extrapolated ×F: outside the range measured, by that factor\n"
	}
	if slices.ContainsFunc(options, func(o plan.Option) bool { return o.Assumed }) && !g.Quiet {
		text += "zstd and s2: rates and ratios are assumed from live solvers, not measured by the tables\n"
	}
	return g.Printf("%s", text)
}

// The comparisons that a column is of.
const (
	ofBudget = 1 << iota
	ofAggregators
	ofModes
	ofLevels
	ofSeveral // mappings, libraries or codecs, with modes
	ofStaggers
	ofLags   // checkpoints behind the job
	ofStores // that are too small
	ofObjects
	ofPrices
)

// columns has all comparisons: what a column is of, the head and the cell.
var columns = []struct {
	of   int
	head string
	cell func(o *plan.Option) string
}{
	{ofBudget, "", func(o *plan.Option) string { return map[bool]string{true: "*"}[o.Best] }},
	{ofModes, "mode, log", func(o *plan.Option) string { return modeName(o.Mode, o.Log) }},
	{ofLevels, "checkpoints", levelName},
	{ofStaggers, "|at once", func(o *plan.Option) string { return atOnce(o) }},
	{ofBudget | ofSeveral, "mapping", func(o *plan.Option) string { return fmt.Sprintf("%d×%d", o.Nodes, o.PPN) }},
	{ofBudget | ofSeveral, "MPI", func(o *plan.Option) string { return o.MPI }},
	{ofBudget | ofSeveral, "codec", func(o *plan.Option) string { return o.Codec }},
	{ofAggregators, "|agg", func(o *plan.Option) string { return strconv.Itoa(o.Aggregators) }},
	{ofAggregators, "|buffer", func(o *plan.Option) string { return size(o.BufferMiB) }},
	{ofBudget, "~|image", func(o *plan.Option) string { return size(o.FileMiB) }},
	{ofBudget, "~|stored", func(o *plan.Option) string { return size(o.GstoredMiB) }},
	{ofBudget, "|time", func(o *plan.Option) string { return ui.Seconds(o.CheckpointS) }},
	{ofModes, "|checkpoint", func(o *plan.Option) string { return ui.Seconds(o.CheckpointS) }},
	{ofBudget, "~|95 %", func(o *plan.Option) string { return times(o.LowS, o.HighS) }},
	{ofBudget, "|count", func(o *plan.Option) string { return strconv.Itoa(o.Count) }},
	{ofBudget, "|every", func(o *plan.Option) string { return ui.Seconds(o.IntervalS) }},
	{ofModes, "|every", func(o *plan.Option) string { return spanOf(o.IntervalS) }},
	{ofModes, "|log", logged},
	{ofModes, "|log wait", func(o *plan.Option) string { return ui.Seconds(o.LogS) }},
	{ofModes, "|restart", func(o *plan.Option) string { return ui.Seconds(o.RestartS) }},
	{ofLevels, "|local every", func(o *plan.Option) string { return period(o, true) }},
	{ofLevels, "|store every", func(o *plan.Option) string { return period(o, false) }},
	{ofLevels, "|waste", func(o *plan.Option) string { return ui.Percent(o.Waste) }},
	{ofBudget, "~|total", func(o *plan.Option) string { return lasting(o.TotalS) }},
	{ofLags, "|lag", func(o *plan.Option) string { return ui.Seconds(o.LagS) }},
	{ofBudget, "~|lost", func(o *plan.Option) string { return ui.Seconds(o.LostS) }},
	{ofModes, "|lost", func(o *plan.Option) string { return ui.Seconds(o.LostS) }},
	{ofBudget | ofStores, "|store", func(o *plan.Option) string { return size(o.StorageMiB) }},
	{ofObjects, "|PUT", func(o *plan.Option) string { return strconv.FormatInt(o.Requests.Puts, 10) }},
	{ofPrices, "|price", func(o *plan.Option) string { return fmt.Sprintf("%.3g %s", o.Bill.Checkpoint, o.Bill.Currency) }},
	{ofPrices, "|month", func(o *plan.Option) string { return fmt.Sprintf("%.3g %s", o.Bill.Month, o.Bill.Currency) }},
	{ofModes | ofLevels, "|total", func(o *plan.Option) string { return never(o.Expected, spanOf) + map[bool]string{true: " *"}[o.Best] }},
	{ofBudget | ofStores, "", remark},
}

// printOptions prints the columns of a comparison.
func printOptions(g *ui.Globals, of int, options []plan.Option) error {
	if slices.ContainsFunc(options, func(o plan.Option) bool { return o.Lag != nil }) {
		of |= ofLags
	}
	if files := func(o plan.Option) bool { return o.Requests == nil }; of&ofBudget > 0 && !slices.ContainsFunc(options, files) {
		of |= ofObjects
		if !slices.ContainsFunc(options, func(o plan.Option) bool { return o.Bill == nil }) {
			of |= ofPrices
		}
	}
	var header []string
	rows := make([][]string, len(options))
	for _, c := range columns {
		if c.of&of == 0 {
			continue
		}
		header = append(header, c.head)
		for i := range options {
			rows[i] = append(rows[i], c.cell(&options[i]))
		}
	}
	return g.Table(header, rows)
}

func remark(o *plan.Option) string {
	text := ""
	switch {
	case o.Best:
	case o.Count == 0 && o.Failing == nil:
		text = "no checkpoint is affordable"
	case !o.Fits:
		text = "store too small"
	}
	if o.Fits && o.Guess {
		text = "a guess"
	}
	if o.Extrapolation > plan.Within {
		text = strings.TrimPrefix(text+fmt.Sprintf(", extrapolated ×%.2g", o.Extrapolation), ", ")
	}
	return text
}

// lasting formats the time of a run.
func lasting(s float64) string {
	if s < 600 {
		return ui.Seconds(s)
	}
	return spanOf(s)
}

// atOnce says how many groups store at the same time.
func atOnce(o *plan.Option) string {
	if o.GroupCount <= 1 {
		return "all"
	}
	return strconv.Itoa(max(1, int(math.Ceil(o.Together*float64(o.GroupCount)))))
}

func logged(o *plan.Option) string {
	if o.Log == service.Sender && o.KeptMiB > 0 {
		return "kept " + size(o.KeptMiB)
	}
	return size(o.LogMiB)
}

// period is the time between checkpoints on the nodes, or in the store.
func period(o *plan.Option, local bool) string {
	for _, l := range o.Pattern.Levels {
		if local == (l.Name == "local") {
			return spanOf(l.Period)
		}
	}
	return "-"
}
