package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict/life"
)

// simulateOptions are the flags of ckpt simulate.
type simulateOptions struct {
	predictions.FailingOptions
	lifeCosts
	nodes, machineNodes int
	failures, system    string
	shape               float64
	loss                string
	detect, repair      string
	spares              int
	appTime, interval   string
	runs                int
	seed                uint64
}

// NewSimulateCommand returns the command that simulates the life of a job.
func NewSimulateCommand(g *ui.Globals) *cobra.Command {
	var o simulateOptions
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate the life of a job on a machine that fails, from its start to its end",
		Long: `Simulate the life of a job in virtual time: it computes, takes checkpoints, loses
nodes and processes, restarts and repeats work, until it ends. The command compares
modes of checkpoints that meet the same failures, says when 90 of 100 runs end, which
share of the time is work, and what takes the rest.

Each node stores --node-bytes in a checkpoint, into a store that all share, which has a
rate or a description (--on, docs/STORAGE.md), or, with --local-rate, on the nodes first and behind the job into the store, as ckpt launch
--local does. Nodes fail by themselves, exponentially or in bursts (--shape 0.7), or as
--failures says; --node-loss is the share of the failures that lose a node with its
directory, --spares and --repair are what replaces it.

With --mode semi the ranks of --group-nodes nodes take checkpoints and restart by
themselves, with --mode uncoordinated each rank; messages between them come from logs,
whose cost is --logging. While a group writes, restarts and repeats work, the others get
further by --slack, and then wait for its messages. --stagger says whether groups store
at the same time, and share the storage, or one after the other. --interval auto tries
five around an estimate and takes the best. docs/INTERVAL.md has the model and its
limits; ckpt interval has the closed forms.`,
		Example: `  ckpt simulate --nodes 4096 --node-bytes 64GiB --store-rate 500GiB/s --node-mtbf 5y --app-time 30d
  ckpt simulate --nodes 4096 --node-bytes 64GiB --store-rate 500GiB/s --local-rate 4GiB/s --protect partner --drain every=4 --node-mtbf 5y --shape 0.7 --node-loss 30%
  ckpt simulate --nodes 4096 --np 65536 --node-bytes 64GiB --store-rate 500GiB/s --node-mtbf 1y --mode coordinated,semi,uncoordinated --logging 2% --replay 1.5 --network-rate 10GiB/s --slack 1m
  ckpt simulate --nodes 100 --machine-nodes 400 --failures failures.csv --node-bytes 64GiB --store-rate 50GiB/s --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "nodes", "np", "machine-nodes"); err != nil {
				return err
			}
			defer g.Busy(cmd.CommandPath())()
			return runSimulate(cmd.Context(), g, &o, cmd.Flags())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.nodes, "nodes", 0, "number of nodes of the job")
	o.lifeCosts.addFlags(f)
	o.FailingOptions.AddFlags(f, "")
	f.Float64Var(&o.shape, "shape", 1, "shape of the Weibull distribution of a node's failures: 1 is exponential, 0.7 that of large machines")
	f.StringVar(&o.failures, "failures", "", "log of the failures of a machine, in place of --node-mtbf: CSV (node,start,end,kind), of LANL, of SCR, or a list of times")
	f.StringVar(&o.system, "system", "", "with --failures: the system that counts, of several in one log")
	f.IntVar(&o.machineNodes, "machine-nodes", 0, "with --failures: nodes of the machine (default: as the log says, else the job has all)")
	f.StringVar(&o.loss, "node-loss", "100%", "share of the failures that lose a node with its directory; the others kill processes")
	f.StringVar(&o.detect, "detect", "30s", "time from a failure until the job is ended")
	f.IntVar(&o.spares, "spares", -1, "spare nodes that replace lost ones at once (default: always one)")
	f.StringVar(&o.repair, "repair", "", "with --spares: time until a lost node is back, like 1d")
	f.StringVar(&o.appTime, "app-time", "30d", "time of the run without checkpoints and failures")
	f.StringVar(&o.interval, "interval", "auto", "time between checkpoints, or auto: the best of five")
	f.IntVar(&o.runs, "runs", 200, "number of simulated runs of each mode and interval")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the simulation")
	return cmd
}

// machine reads what fails.
func (o *simulateOptions) machine(f *pflag.FlagSet) (m life.Machine, err error) {
	if o.nodes == 0 {
		return m, ui.Missing("--nodes", "4096")
	}
	var q ui.Quantities
	m = life.Machine{Shape: o.shape, Lost: q.Share("--node-loss", o.loss), Detect: q.Duration("--detect", o.detect).Seconds(), Spares: o.spares, Repair: q.Duration("--repair", o.repair).Seconds()}
	switch {
	case q.Err != nil:
		return m, q.Err
	case o.spares < -1 || f.Changed("spares") && o.spares < 0:
		return m, ui.BadUsage(fmt.Sprintf("--spares %d: want a number of nodes from 0", o.spares), "leave it out if a spare is always there")
	case (o.spares >= 0) != f.Changed("repair"):
		return m, ui.BadUsage("--spares and --repair belong together: a lost node is replaced by a spare, or once it is repaired", "give both, like --spares 8 --repair 1d")
	case o.failures != "" && (o.FailingOptions.Given() || f.Changed("shape")):
		return m, ui.BadUsage("--failures says when nodes fail, and so do --mtbf, --node-mtbf and --shape", "leave one of them out")
	case o.failures != "":
		return m, o.log(&m)
	case f.Changed("system") || f.Changed("machine-nodes"):
		return m, ui.BadUsage("--system and --machine-nodes belong to a log of failures", "add --failures FILE")
	case !o.FailingOptions.Given():
		return m, ui.Missing("--node-mtbf", "5y")
	}
	mtbf, err := o.FailingOptions.Job(o.nodes)
	m.NodeMTBF = mtbf.Seconds() * float64(o.nodes)
	return m, err
}

// log reads the failures of a log.
func (o *simulateOptions) log(m *life.Machine) error {
	r, err := os.Open(o.failures)
	if err != nil {
		return dataset.CannotRead("log", o.failures, err)
	}
	defer r.Close()
	if m.Log, err = interval.ReadFailures(o.failures, o.system, r); err != nil {
		if bad := new(interval.LogError); errors.As(err, &bad) && bad.Systems != nil {
			err = ui.WithHint(err, "choose one with --system")
		}
		return ui.AsUsage(err)
	}
	machine := max(o.machineNodes, 0)
	if machine == 0 {
		machine = m.Log.Nodes
	}
	if machine == 0 {
		machine = o.nodes
	}
	if o.nodes > machine {
		return ui.BadUsage(fmt.Sprintf("--nodes %d: the machine of the log has %d", o.nodes, machine), "give the nodes of the job, and with --machine-nodes those of the machine")
	}
	m.LogShare = float64(o.nodes) / float64(machine)
	return nil
}

// mtbf is the mean time between failures of the job, in seconds.
func (o *simulateOptions) mtbf(m *life.Machine) float64 {
	if m.Log != nil {
		return (m.Log.To - m.Log.From) / float64(len(m.Log.Failures)) / m.LogShare
	}
	return m.NodeMTBF / float64(o.nodes)
}

// A way is a mode, and how its groups store.
type way struct {
	mode    job.Mode
	stagger supervisor.Stagger
}

// String is the stagger, "" of one group.
func (w way) String() string {
	if w.mode == job.Coordinated {
		return ""
	}
	return w.stagger.String()
}

// ways are all that are asked for.
func (c *costs) ways() (list []way) {
	for _, mode := range c.modes {
		for _, stagger := range c.staggers {
			if w := (way{mode, stagger}); mode != job.Coordinated {
				list = append(list, w)
			}
		}
		if mode == job.Coordinated {
			list = append(list, way{mode: mode})
		}
	}
	return list
}

// around are the intervals that auto tries, by the closed form.
var around = []float64{1, 0.5, 0.7, 1.4, 2}

func runSimulate(ctx context.Context, g *ui.Globals, o *simulateOptions, f *pflag.FlagSet) error {
	m, err := o.machine(f)
	if err != nil {
		return err
	}
	var q ui.Quantities
	work, fixed := q.Duration("--app-time", o.appTime).Seconds(), 0.0
	if o.interval != "auto" {
		fixed = q.Duration("--interval", o.interval).Seconds()
	}
	switch {
	case q.Err != nil:
		return q.Err
	case fixed <= 0 && o.interval != "auto":
		return ui.BadUsage("--interval "+o.interval+": must be over 0", "give a time like 1h, or auto")
	}
	var jobs []life.Job
	var ways []way
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	costs, err := o.lifeCosts.read(ctx, f, o.nodes)
	if err != nil {
		return err
	}
	for _, w := range costs.ways() {
		j := costs.job(w.mode, w.stagger)
		j.Work, j.Interval, j.Nodes = work, fixed, o.nodes
		tries := []float64{1}
		if fixed == 0 {
			if j.Interval, err = costs.best(&j, o.mtbf(&m), m.Lost); err != nil {
				return ui.AsUsage(err)
			}
			tries = around
		}
		for _, factor := range tries {
			try := j
			try.Interval = min(work, j.Interval*factor)
			jobs, ways = append(jobs, try), append(ways, w)
		}
	}
	s, err := life.Simulate(ctx, jobs, m, life.Runs{Count: o.runs, Seed: o.seed})
	if err != nil {
		return rangeOfLife(err)
	}
	r := &simulateResult{Nodes: o.nodes, NodeBytes: costs.bytes, WorkS: work, MTBFS: o.mtbf(&m), Runs: o.runs, Seed: o.seed, Protect: costs.scheme.String(), Lives: []simulatedLife{}, Assumed: costs.assumed()}
	r.add(jobs, ways, s)
	return g.Show(r, func() error { return r.print(g) })
}

// rangeOfLife makes numbers that cannot be simulated, and jobs without progress, errors of usage.
func rangeOfLife(err error) error {
	if stuck := new(life.StuckError); errors.As(err, &stuck) {
		return ui.AsUsage(ui.WithHint(err, stuck.Hint()))
	}
	if errors.As(err, new(*life.RangeError)) {
		return ui.AsUsage(err)
	}
	return err
}

// simulateResult is what lives tell, as --json prints it.
type simulateResult struct {
	Nodes     int             `json:"nodes"`
	NodeBytes int64           `json:"node_image_bytes"`
	Protect   string          `json:"protection"`
	MTBFS     float64         `json:"mtbf_s"`
	WorkS     float64         `json:"app_s"`
	Runs      int             `json:"runs"`
	Seed      uint64          `json:"seed"`
	Lives     []simulatedLife `json:"simulated_list"`
	Assumed   []string        `json:"assumption_list"`
}

// A simulatedLife is the best interval of a mode.
type simulatedLife struct {
	Mode        job.Mode      `json:"mode"`
	Stagger     string        `json:"stagger,omitempty"`
	GroupCount  int           `json:"group_count"`
	Best        bool          `json:"best"`
	IntervalS   float64       `json:"interval_s"`
	CostS       float64       `json:"cost_s"`
	MeanS       float64       `json:"mean_s"`
	LowS        float64       `json:"low_s"`
	HighS       float64       `json:"high_s"`
	P5          float64       `json:"run_p5_s"`
	P95         float64       `json:"run_p95_s"`
	ETTR        float64       `json:"ettr"`
	ETTRP5      float64       `json:"ettr_p5"`
	ETTRP95     float64       `json:"ettr_p95"`
	Longer      float64       `json:"longer_share"`
	LongerLow   float64       `json:"longer_low_share"`
	LongerHigh  float64       `json:"longer_high_share"`
	Failures    float64       `json:"mean_failures"`
	LostNodes   float64       `json:"mean_lost_nodes"`
	Restarts    float64       `json:"mean_restarts"`
	FromStore   float64       `json:"mean_store_restarts"`
	Checkpoints float64       `json:"mean_checkpoints"`
	Drains      float64       `json:"mean_drains"`
	Time        []timeOfCause `json:"time_list"`
}

// timeOfCause is the share of the time of the runs that goes to a cause.
type timeOfCause struct {
	Cause string  `json:"time_cause"`
	Share float64 `json:"time_share"`
}

// add takes the best interval of each mode, the best mode first.
func (r *simulateResult) add(jobs []life.Job, ways []way, s *life.Simulation) {
	best := map[way]int{}
	for i, w := range ways {
		if k, ok := best[w]; !ok || s.Lives[i].End.Mean < s.Lives[k].End.Mean {
			best[w] = i
		}
	}
	for i, w := range ways {
		if best[w] != i {
			continue
		}
		l := &s.Lives[i]
		x := simulatedLife{Mode: w.mode, Stagger: w.String(), GroupCount: max(1, jobs[i].Groups), Best: l.Best, IntervalS: jobs[i].Interval, CostS: jobs[i].Pause(),
			MeanS: l.End.Mean, LowS: l.End.Low, HighS: l.End.High, P5: l.End.P5, P95: l.End.P95,
			ETTR: l.ETTR.Mean, ETTRP5: l.ETTR.P5, ETTRP95: l.ETTR.P95, Longer: l.More.Mean, LongerLow: l.More.Low, LongerHigh: l.More.High,
			Failures: l.Failures, LostNodes: l.LostNodes, Restarts: l.Restarts, FromStore: l.FromLast, Checkpoints: l.Checkpoints, Drains: l.Drains}
		for c, share := range l.By {
			x.Time = append(x.Time, timeOfCause{life.Cause(c).String(), share})
		}
		r.Lives = append(r.Lives, x)
	}
	slices.SortStableFunc(r.Lives, func(a, b simulatedLife) int {
		if a.MeanS < b.MeanS {
			return -1
		}
		return 1
	})
}

// name is the mode and the stagger.
func (l *simulatedLife) name() string { return strings.TrimSpace(string(l.Mode) + " " + l.Stagger) }

func (r *simulateResult) print(g *ui.Globals) error {
	if !g.Quiet {
		g.Printf("%s, %s each in a checkpoint; work %s, a failure every %s\n\n", ui.Count(r.Nodes, "node"), ui.Bytes(float64(r.NodeBytes)), ui.Seconds(r.WorkS), ui.Seconds(r.MTBFS))
	}
	header := []string{"", "mode", "stagger", "|every", "|cost", "|total", "|90 of 100 runs", "|ETTR", "|longer", "|failures", "|restarts"}
	var rows [][]string
	for i := range r.Lives {
		l := &r.Lives[i]
		longer := ""
		if !l.Best {
			longer = fmt.Sprintf("%s (%s)", ui.Percent1(l.Longer), ui.Between(l.LongerLow, l.LongerHigh, ui.Percent1))
		}
		rows = append(rows, []string{map[bool]string{true: "*"}[l.Best], string(l.Mode), l.Stagger, ui.Seconds(l.IntervalS), ui.Seconds(l.CostS), ui.Seconds(l.MeanS),
			ui.Between(l.P5, l.P95, ui.Seconds), ui.Percent1(l.ETTR), longer, fmt.Sprintf("%.1f", l.Failures), fmt.Sprintf("%.1f", l.Restarts)})
	}
	if err := g.Table(header, rows); err != nil || g.Quiet {
		return err
	}
	var text strings.Builder
	text.WriteString("\n")
	for i := range r.Lives {
		l := &r.Lives[i]
		var parts []string
		for _, c := range l.Time {
			if c.Share >= 0.0005 {
				parts = append(parts, fmt.Sprintf("%s %s", c.Cause, ui.Percent1(c.Share)))
			}
		}
		fmt.Fprintf(&text, "%s: %s\n", l.name(), strings.Join(parts, ", "))
	}
	best := &r.Lives[0]
	fmt.Fprintf(&text, "* the mean of %d runs is %s in 95 %%; longer: in the same failures, with its 95 %% interval\n", r.Runs, ui.Between(best.LowS, best.HighS, ui.Seconds))
	for i := range r.Lives {
		if l := &r.Lives[i]; !l.Best && l.LongerLow <= 0 {
			fmt.Fprintf(&text, "  %s may be as fast\n", l.name())
		}
	}
	for _, a := range r.Assumed {
		text.WriteString("assumed: " + a + "\n")
	}
	return g.Printf("%s", text.String())
}
