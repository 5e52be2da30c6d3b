package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/iosched"
	"ckpt/image/plan"
	"ckpt/zones"
)

// containerHeader is the header block with which every file begins,
// docs/FORMAT.md.
const containerHeader = plan.PageSize

// planRows is how many writers, and rounds, are shown without --all.
const planRows = 20

type layoutOptions struct {
	ui.Placement
	writePath
	contendOptions
	chosenTargets
	storage     ui.StorageOptions
	np, rank    int
	mpi         string
	rounds, all bool
}

func newLayoutCommand(g *ui.Globals) *cobra.Command {
	var o layoutOptions
	cmd := &cobra.Command{
		Use:   "layout APP",
		Short: "Show which rank writes which bytes of a checkpoint where",
		Long: `Show which rank would write which bytes of a checkpoint where: the files, the
writers, their operations and rounds, and the bytes that travel to them. The command
runs nothing and writes nothing. docs/LAYOUTS.md explains layouts, strategies and
switches.

APP is NAME.CLASS.NP (bt.B.4), NAME.CLASS with --np, or a workload file. The
plan is of one full checkpoint: the data of every rank, and the shared segment of a
node with its first rank. The library zone is stored beside, once for the job.

With --on the plan is carried out in virtual time on a described storage: how long it
takes, what it waits for, how many writers each target has (docs/STORAGE.md). Each
--with adds a job that uses the storage at the same time, and the command compares how
all fare side by side, in turns, and with targets that order requests (docs/TURNS.md).
A job file has the keys app, start, user, read, and the flags of this command.

ckpt launch takes the same flags, and writes as planned.`,
		Example: `  ckpt layout bt.C.64 --nodes 4 --layout shared --aggregators auto
  ckpt layout bt.C.64 --nodes 4 --layout aggregated --rounds --rank 16
  ckpt layout bt.C.64 --nodes 4 --layout shared --on eos-spider2
  ckpt layout bt.C.64 --nodes 4 --on nfs --with bt.C.64,nodes=4 --with other-job.yaml
  ckpt layout cg.B --np 32 --map 8,8,8,8 --layout shared --stripe-count 4 --p4 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "np", "nodes"); err != nil {
				return err
			}
			if cmd.Flags().Changed("rank") && !o.rounds {
				return ui.BadUsage(fmt.Sprintf("--rank %d: --rank selects the writer whose rounds are shown", o.rank), "add --rounds")
			}
			if err := o.contendOptions.check(cmd, o.storage.On); err != nil {
				return err
			}
			return runPlan(cmd.Context(), g, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	o.Placement.AddFlags(f)
	f.StringVar(&o.mpi, "mpi", mpi.MPICH.String(), "layout of the shared segment: mpich or openmpi")
	ui.Choices(f, "mpi", mpi.MPICH.String(), mpi.OpenMPI.String())
	o.writePath.addFlags(f)
	o.addTuningFlags(f)
	o.storage.AddFlags(f, "on", "predict the time on this storage")
	o.chosenTargets.addFlag(f)
	o.contendOptions.addFlags(f)
	f.BoolVar(&o.rounds, "rounds", false, "show the rounds of a writer")
	f.IntVar(&o.rank, "rank", 0, "show the rounds of this rank (default the first writer)")
	f.BoolVar(&o.all, "all", false, fmt.Sprintf("show all jobs, writers and rounds, not the first %d", planRows))
	return cmd
}

// writePlan is the plan of a checkpoint, as --json prints it.
type writePlan struct {
	App     string      `json:"app"`
	NP      int         `json:"np"`
	Mapping job.Mapping `json:"mapping"`
	MPI     string      `json:"mpi"`
	Zones   zones.Sizes `json:"zones"` // in memory, of the whole job
	plan.Summary
	Settings   settingsLine     `json:"settings"`
	Forecast   *Forecast        `json:"forecast,omitempty"`        // with --on
	Continuity *continuityLine  `json:"plan_continuity,omitempty"` // with --on
	Contention *tune.Contention `json:"contention,omitempty"`      // with --with
	Schedule   *schedule        `json:"schedule,omitempty"`        // with --rounds
}

func runPlan(ctx context.Context, g *ui.Globals, o *layoutOptions, app string) error {
	if err := o.combination(); err != nil {
		return err
	}
	inst, err := dataset.ParseApp(app, o.np)
	if err != nil {
		return err
	}
	d := writePlan{App: inst.String(), NP: inst.NP, MPI: o.mpi}
	if d.Mapping, err = o.Resolve(inst.NP); err != nil {
		return err
	}
	settings, err := o.settings()
	if err != nil {
		return err
	}
	settings.Header = containerHeader
	m, err := tune.PlanMemory(inst, d.Mapping, o.mpi)
	if err != nil {
		return err
	}
	p, err := plan.New(m.Sources, settings)
	if err != nil {
		return o.usage(err)
	}
	if o.rounds {
		most := planRows
		if o.all || g.JSON {
			most = -1
		}
		if d.Schedule, err = o.schedule(p, m, most); err != nil {
			return err
		}
	}
	d.Zones = m.Zones
	add, done := g.Progress("plan", fileBytes(p))
	d.Summary = p.Summarize(add)
	d.Settings = settingsLine(p.Settings)
	done()
	c := tune.Case{Instance: inst, Mapping: d.Mapping, MPI: o.mpi, Settings: settings, Whole: true}
	if d.Forecast, err = o.forecast(ctx, c); err != nil {
		return err
	}
	if d.Continuity, err = o.continuity(m.Sources, p); err != nil {
		return err
	}
	if d.Contention, err = o.contend(ctx, c); err != nil {
		return err
	}
	return g.Show(d, func() error { return printWritePlan(g, &d, o.all) })
}

// forecast predicts the plan on the storage of --on; nil without.
func (o *layoutOptions) forecast(ctx context.Context, c tune.Case) (*Forecast, error) {
	var err error
	if c.Background, err = o.storage.Background(); err != nil {
		return nil, err
	}
	if o.storage.On == "" {
		return nil, o.chosenTargets.needStorage()
	}
	sys, err := o.storage.Load()
	if err != nil {
		return nil, err
	}
	if c.Targets, err = o.chosenTargets.of(sys); err != nil {
		return nil, err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	f, err := tune.Predict(ctx, sys, c)
	if err != nil {
		return nil, o.usage(err)
	}
	r := forecastOf(sys, &f)
	return &r, nil
}

// printWritePlan prints a plan as text, of its writers and rounds the first.
func printWritePlan(g *ui.Globals, d *writePlan, all bool) error {
	s := &d.Summary.Settings
	lowest, highest := slices.Min(d.StripesPerOST), slices.Max(d.StripesPerOST)
	text := fmt.Sprintf("%s on %s (%s), %s: one full checkpoint\n\n", d.App, ui.Count(d.Nodes, "node"), d.Mapping.Short(), d.MPI)
	for _, line := range [][2]string{
		{"layout", describeLayout(s)},
		{"switches", fmt.Sprintf("P1 %s, P2 %s, P3 %s, P4 %s", onOff(s.P1), onOff(s.P2), onOff(s.P3), onOff(s.P4))},
		{"buffer", ui.Size(s.Buffer)},
		{"striping", fmt.Sprintf("%s over %s, from OST %d", ui.Size(s.StripeSize), ui.Count(s.StripeCount, "OST"), s.FirstOST)},
		{"memory", fmt.Sprintf("%s MiB: data %s, shared %s", ui.MiB(d.Zones.Total()), ui.MiB(d.Zones.Data), ui.MiB(d.Zones.Shared))},
		{"files", fmt.Sprintf("%d + manifest, %s MiB", d.Files, ui.MiB(d.FileBytes))},
		{"holes", fmt.Sprintf("%d, %s MiB", d.Holes, ui.MiB(d.HoleBytes))},
		{"writers", fmt.Sprintf("%d of %s", len(d.Writers), ui.Count(d.Ranks, "rank"))},
		{"operations", fmt.Sprintf("%d writes, %d gathers, %d extra reads", d.Writes, d.Gathers, d.ExtraReads)},
		{"rounds", fmt.Sprintf("%d, of one writer at most %d", d.Rounds, d.MaxRounds)},
		{"written", ui.MiB(d.Bytes) + " MiB"},
		{"  in place", ui.MiB(d.InPlaceBytes) + " MiB, the writers' own"},
		{"  on node", ui.MiB(d.SameNodeBytes) + " MiB, gathered from other ranks of the node"},
		{"  network", ui.MiB(d.OtherNodeBytes) + " MiB, gathered from other nodes"},
		{"stripes", fmt.Sprintf("%d, on each OST %s", d.Stripes, minMax(lowest, highest))},
		{"  shared", fmt.Sprintf("%d, with data of several ranks", d.SharedStripes)},
		{"  contended", fmt.Sprintf("%d, written by several ranks", d.ContendedStripes)},
		{"  writers", fmt.Sprintf("%s on each OST, at most %d of one file", minMax(slices.Min(d.WritersPerOST), d.MaxWriters), d.MaxFileWriters)},
		{"buffers", fmt.Sprintf("%s MiB, of one writer at most %s", ui.MiB(d.BufferBytes), ui.MiB(d.PeakBuffer))},
	} {
		text += fmt.Sprintf("%-12s%s\n", line[0], line[1])
	}
	if d.Forecast != nil {
		for _, line := range d.Forecast.Lines() {
			text += fmt.Sprintf("%-12s%s\n", line[0], line[1])
		}
	}
	if d.Continuity != nil {
		text += fmt.Sprintf("%-12s%s\n", "continuity", d.Continuity.text())
	}
	g.Printf("%s\n", text)
	if err := printWriters(g, d, all); err != nil {
		return err
	}
	if d.Contention != nil {
		if err := printContention(g, d.Contention, all); err != nil {
			return err
		}
	}
	if d.Schedule == nil {
		return nil
	}
	return printSchedule(g, d)
}

func describeLayout(s *plan.Settings) string {
	switch {
	case s.Layout == plan.PerRank:
		return "per-rank: every rank writes a file of its own"
	case s.Strategy == plan.Individual:
		return fmt.Sprintf("%s, individual: every rank writes its own bytes", s.Layout)
	}
	return fmt.Sprintf("%s, %s, %s", s.Layout, s.Strategy, ui.Count(s.Aggregators, "aggregator"))
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func minMax(low, high int64) string {
	if low == high {
		return strconv.FormatInt(low, 10)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// printWriters prints the table of the writers, without columns that have no
// meaning in this plan.
func printWriters(g *ui.Globals, d *writePlan, all bool) error {
	s := &d.Summary.Settings
	gathers := s.Strategy != plan.Individual
	table := []struct {
		header string
		shown  bool
		cell   func(w *plan.WriterSummary) string
	}{
		{"|rank", true, func(w *plan.WriterSummary) string { return strconv.Itoa(w.Rank) }},
		{"|node", true, func(w *plan.WriterSummary) string { return strconv.Itoa(w.Node) }},
		{"|OSTs", len(d.Writers[0].OSTs) > 0, func(w *plan.WriterSummary) string { return firstToLast(w.OSTs) }},
		{"|ranks", gathers, func(w *plan.WriterSummary) string { return firstToLast(w.Ranks) }},
		{"|rounds", true, func(w *plan.WriterSummary) string { return strconv.FormatInt(w.Rounds, 10) }},
		{"|writes", true, func(w *plan.WriterSummary) string { return strconv.FormatInt(w.Writes, 10) }},
		{"|gathers", gathers, func(w *plan.WriterSummary) string { return strconv.FormatInt(w.Gathers, 10) }},
		{"|MiB", true, func(w *plan.WriterSummary) string { return ui.MiB(w.Bytes) }},
		{"|on node", gathers, func(w *plan.WriterSummary) string { return ui.MiB(w.SameNodeBytes) }},
		{"|network", gathers, func(w *plan.WriterSummary) string { return ui.MiB(w.OtherNodeBytes) }},
	}
	var header []string
	for _, c := range table {
		if c.shown {
			header = append(header, c.header)
		}
	}
	var rows [][]string
	for i := range d.Writers {
		if i == planRows && !all {
			break
		}
		var row []string
		for _, c := range table {
			if c.shown {
				row = append(row, c.cell(&d.Writers[i]))
			}
		}
		rows = append(rows, row)
	}
	g.Table(header, rows)
	return printMore(g, len(d.Writers)-len(rows))
}

// printMore prints the number of rows that are not shown.
func printMore(g *ui.Globals, n int) error {
	if n == 0 {
		return nil
	}
	return g.Printf("and %d more; --all\n", n)
}

// firstToLast writes consecutive numbers.
func firstToLast(n []int) string {
	first, last := n[0], n[len(n)-1]
	if first == last {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

func fileBytes(p *plan.Plan) (n int64) {
	for _, f := range p.Files {
		n += f.Bytes
	}
	return n
}

// settingsLine is plan.Settings as --json prints it. A store keeps those under names
// of its own. It has the fields of plan.Settings, so that one converts into the other.
type settingsLine struct {
	Layout      plan.Layout   `json:"layout"`
	Strategy    plan.Strategy `json:"strategy"`
	Aggregators int           `json:"aggregators"`
	Buffer      int64         `json:"buffer_bytes"`
	StripeSize  int64         `json:"stripe_bytes"`
	StripeCount int           `json:"stripe_count"`
	FirstOST    int           `json:"first_ost"`
	Header      int64         `json:"header_bytes"`
	Unaligned   bool          `json:"unaligned"`
	P1          bool          `json:"p1"`
	P2          bool          `json:"p2"`
	P3          bool          `json:"p3"`
	P4          bool          `json:"p4"`
}

// continuityLine is the degree of continuity of a plan, as --json prints it.
type continuityLine struct {
	Degree     float64     `json:"continuity"`
	Way        iosched.Way `json:"continuity_way"`
	Plain      float64     `json:"plain_access_s"`
	Sieved     float64     `json:"sieved_access_s"`
	Collective float64     `json:"collective_access_s"`
	Blocks     int64       `json:"rank_blocks"`
	Block      int64       `json:"block_bytes"`
	Span       int64       `json:"span_bytes"`
}

// continuity measures a plan on the storage of --on; nil without.
func (o *layoutOptions) continuity(sources []plan.Source, p *plan.Plan) (*continuityLine, error) {
	if o.storage.On == "" {
		return nil, nil
	}
	sys, err := o.storage.Load()
	if err != nil {
		return nil, err
	}
	pattern, ok := tune.Accesses(sys, sources, p)
	if !ok {
		return nil, nil
	}
	c, err := pattern.Continuity()
	if err != nil {
		return nil, err
	}
	return &continuityLine{Degree: c.Degree, Way: c.Way, Plain: c.Plain, Sieved: c.Sieved, Collective: c.Collective,
		Blocks: pattern.Blocks, Block: pattern.Block, Span: pattern.Span}, nil
}

// text describes it in a line.
func (c *continuityLine) text() string {
	return fmt.Sprintf("β %.2f: %s; plain %s, sieved %s, collective %s", c.Degree, c.Way,
		ui.Seconds(c.Plain), ui.Seconds(c.Sieved), ui.Seconds(c.Collective))
}
