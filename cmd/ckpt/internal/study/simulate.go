package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/predict/life"
)

// simulateOptions are the flags of ckpt simulate.
type simulateOptions struct {
	predictions.FailingOptions
	lifeCosts
	nodes, machineNodes int
	failures, system    string
	failuresFrom        string
	shape               float64
	loss                string
	detect, repair      string
	spares              int
	domains             int
	domainMTBF          string
	storeMTBF           string
	storeRepair         string
	walltime, queue     string
	shrink              bool
	appTime, interval   string
	runs                int
	seed                uint64
	preset              string
	instead             []string // flags that say otherwise than the preset
	logMTBF             float64  // of the machine of a log
	vary                []string
	target, solve       string
	plot                string
}

// NewSimulateCommand returns the command that simulates the life of a job.
func NewSimulateCommand(g *ui.Globals) *cobra.Command {
	var o simulateOptions
	cmd := &cobra.Command{
		Use:   "simulate [APP]",
		Short: "Simulate the life of a job on a machine that fails, from its start to its end",
		Long: `Simulate the life of a job in virtual time: it computes, takes checkpoints, loses
nodes and processes, restarts and repeats work, until it ends. The command compares
modes of checkpoints that meet the same failures, says when 90 of 100 runs end, which
share of the time is work, and what takes the rest.

Each node stores --node-bytes in a checkpoint, or what is predicted for APP, with a
--model of ckpt predict fit or with the built-in tables; ckpt predict size has the forms
of APP. The bytes go into a store that all share, which has a rate or a description
(--on, docs/STORAGE.md), or, with --local-rate, onto the nodes first and behind the job
into the store, as ckpt launch --local does. Nodes fail by themselves, exponentially or
in bursts (--shape 0.7), or as --failures says; --node-loss is the share of the failures
that lose a node with its directory, --spares and --repair are what replaces it.

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
  ckpt simulate --model heat.model --np 65536 --nodes 4096 --on eos-spider2 --node-mtbf 5y
  ckpt simulate --machine llama3 --node-bytes 32GiB --vary store-rate=100GiB/s..10TiB/s
  ckpt simulate --machine frontier --node-mtbf 5y --target 'waste<10%' --solve store-rate=1TiB/s..100TiB/s --plot life.svg
  ckpt simulate --nodes 100 --machine-nodes 400 --failures failures.csv --node-bytes 64GiB --store-rate 50GiB/s --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "nodes", "np", "ppn", "machine-nodes"); err != nil {
				return err
			}
			o.size.app = strings.Join(args, "")
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
	f.StringVar(&o.failuresFrom, "failures-from", "", "with --failures: the time after the log's beginning at which all runs begin, like 90d (default: random)")
	f.IntVar(&o.machineNodes, "machine-nodes", 0, "with --failures: nodes of the machine (default: as the log says, else the job has all)")
	f.StringVar(&o.loss, "node-loss", "100%", "share of the failures that lose a node with its directory; the others kill processes")
	f.StringVar(&o.detect, "detect", "30s", "time from a failure until the job is ended")
	f.IntVar(&o.spares, "spares", -1, "spare nodes that replace lost ones at once (default: always one)")
	f.StringVar(&o.repair, "repair", "", "with --spares: time until a lost node is back, like 1d")
	f.IntVar(&o.domains, "domains", 0, "failure domains of the job's nodes, like racks: each fails as a whole, too")
	f.StringVar(&o.domainMTBF, "domain-mtbf", "", "with --domains: mean time between failures of one, like 20y")
	f.StringVar(&o.storeMTBF, "store-mtbf", "", "mean time until the store is away, like 30d; checkpoints and restarts wait for it")
	f.StringVar(&o.storeRepair, "store-repair", "", "with --store-mtbf: for how long it is away, like 4h")
	f.StringVar(&o.walltime, "walltime", "", "the job stops with a checkpoint before the end of each allocation of this length, like 24h")
	f.StringVar(&o.queue, "queue", "0s", "with --walltime: time until the next allocation begins")
	f.BoolVar(&o.shrink, "shrink", false, "with --spares: go on with the nodes that are left, slower, while no spare is")
	f.StringVar(&o.preset, "machine", "", "take nodes, memory and rates of a machine: "+strings.Join(presetNames(), ", "))
	ui.Choices(f, "machine", presetNames()...)
	f.StringArrayVar(&o.vary, "vary", nil, "repeat for seven values of a flag, like node-mtbf=1y..10y; given twice, for five of the second one each")
	f.StringVar(&o.target, "target", "", "with --solve: the waste to reach, like 'waste<5%'")
	f.StringVar(&o.solve, "solve", "", "with --target: the flag whose value is looked for, and its range, like store-rate=10GiB/s..10TiB/s")
	f.StringVar(&o.plot, "plot", "", "draw one life, and the waste over the interval, to a file: .svg, .png, .pdf or .json")
	f.StringVar(&o.appTime, "app-time", "30d", "time of the run without checkpoints and failures")
	f.StringVar(&o.interval, "interval", "auto", "time between checkpoints, or auto: the best of five")
	f.IntVar(&o.runs, "runs", 200, "number of simulated runs of each mode and interval")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the simulation")
	return cmd
}

// A way is a mode, and how its groups store. Bare groups keep no message logs.
type way struct {
	mode    job.Mode
	stagger supervisor.Stagger
	bare    bool
}

// staggered is the stagger, "" of one group.
func (w way) staggered() string {
	if w.mode == job.Coordinated {
		return ""
	}
	return w.stagger.String()
}

// groups says how its groups store, "" of one group.
func (w way) groups() string {
	if w.bare {
		return w.staggered() + " unlogged"
	}
	return w.staggered()
}

// name is the mode, and how its groups store.
func (w way) name() string { return strings.TrimSpace(string(w.mode) + " " + w.groups()) }

// ways are all that are asked for.
func (c *costs) ways() (list []way) {
	for _, mode := range c.modes {
		if mode == job.Coordinated {
			list = append(list, way{mode: mode})
			continue
		}
		for _, bare := range c.bare {
			for _, stagger := range c.staggers {
				list = append(list, way{mode, stagger, bare})
			}
		}
	}
	return list
}

// around are the intervals that auto tries, by the closed form.
var around = []float64{1, 0.5, 0.7, 1.4, 2}

func runSimulate(ctx context.Context, g *ui.Globals, o *simulateOptions, f *pflag.FlagSet) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	if err := ui.CheckPlotName(o.plot); err != nil {
		return err
	}
	if err := o.usePreset(f); err != nil {
		return err
	}
	r, err := o.answer(ctx, f)
	if err != nil {
		return err
	}
	if o.plot != "" {
		if err := r.draw(o.plot); err != nil {
			return err
		}
	}
	return g.Show(r, func() error { return r.print(g) })
}

// answer is the result for the flags, for several values of one, or for the one that is looked for.
func (o *simulateOptions) answer(ctx context.Context, f *pflag.FlagSet) (*simulateResult, error) {
	switch {
	case len(o.vary) > 2:
		return nil, ui.BadUsage(fmt.Sprintf("--vary is there %d times", len(o.vary)), "vary one flag, or two for a map of the best ways")
	case len(o.vary) > 0 && o.plot != "":
		return nil, ui.BadUsage("--plot draws one life, and --vary simulates many", "leave one of them out, or write the table with --json")
	case len(o.vary) > 0 && o.target != "":
		return nil, ui.BadUsage("--vary and --target both change a flag", "leave one of them out")
	case (o.target == "") != (o.solve == ""):
		return nil, ui.BadUsage("--target and --solve belong together: which waste, and which flag to reach it by", "give both, like --target 'waste<5%' --solve store-rate=10GiB/s..10TiB/s")
	case len(o.vary) > 0:
		return o.varied(ctx, f)
	case o.target != "":
		return o.solved(ctx, f)
	}
	return o.simulate(ctx, f)
}

// simulate simulates what the flags say.
func (o *simulateOptions) simulate(ctx context.Context, f *pflag.FlagSet) (*simulateResult, error) {
	m, err := o.machine(f)
	if err != nil {
		return nil, err
	}
	var q ui.Quantities
	work, fixed := q.Duration("--app-time", o.appTime).Seconds(), 0.0
	if o.interval != "auto" {
		fixed = q.Duration("--interval", o.interval).Seconds()
	}
	walltime, queue := q.Duration("--walltime", o.walltime).Seconds(), q.Duration("--queue", o.queue).Seconds()
	switch {
	case q.Err != nil:
		return nil, q.Err
	case fixed <= 0 && o.interval != "auto":
		return nil, ui.BadUsage("--interval "+o.interval+": must be over 0", "give a time like 1h, or auto")
	case o.walltime == "" && f.Changed("queue"):
		return nil, ui.BadUsage("--queue: a job without --walltime waits in no queue", "add --walltime 24h")
	case o.storeMTBF != "" && o.local != "" && slices.ContainsFunc(o.modeNames, func(m string) bool { return m != string(job.Coordinated) }):
		return nil, ui.BadUsage("--store-mtbf with --local-rate is simulated for coordinated checkpoints only: how long the nodes of each group have room is not", "leave --local-rate or the other modes out")
	case o.shrink && slices.ContainsFunc(o.modeNames, func(m string) bool { return m != string(job.Coordinated) }):
		return nil, ui.BadUsage("--shrink: groups that went back need as many ranks as they had", "leave it or the other modes out")
	case o.shrink && o.spares < 0:
		return nil, ui.BadUsage("--shrink: a spare is always there", "add the number of spares, like --spares 0 --repair 1d")
	}
	costs, err := o.lifeCosts.read(ctx, f, o.nodes)
	if err != nil {
		return nil, err
	}
	if err := costs.within(o.domains); err != nil {
		return nil, err
	}
	var jobs []life.Job
	var without []string // ways that have no end
	var never error
	var ways []way
	asked := costs.ways()
	for _, w := range asked {
		if w.bare && w.stagger == supervisor.Spread && o.walltime != "" {
			return nil, ui.BadUsage("--walltime with "+w.name()+": groups that store apart and stop together are not simulated", "leave --walltime out, or add --stagger none")
		}
		j := costs.job(w)
		j.Work, j.Interval, j.Nodes, j.Walltime, j.Queue, j.Shrink = work, fixed, o.nodes, walltime, queue, o.shrink
		tries := []float64{1}
		if fixed == 0 {
			if j.Interval, err = costs.best(&j, o.mtbf(&m), m.Lost); err != nil {
				without, never = append(without, w.name()), cmp.Or(never, ui.AsUsage(err))
				continue
			}
			tries = around
		}
		for _, factor := range tries {
			try := j
			try.Interval = min(work, j.Interval*factor)
			jobs, ways = append(jobs, try), append(ways, w)
		}
	}
	var s *life.Simulation
	for len(jobs) > 0 {
		s, err = life.Simulate(ctx, jobs, m, life.Runs{Count: o.runs, Seed: o.seed})
		stuck := new(life.StuckError)
		if !errors.As(err, &stuck) {
			break
		}
		// The others are compared without a way or an interval that makes no progress.
		name := ways[stuck.Job].name()
		jobs, ways = slices.Delete(jobs, stuck.Job, stuck.Job+1), slices.Delete(ways, stuck.Job, stuck.Job+1)
		if !slices.ContainsFunc(ways, func(w way) bool { return w.name() == name }) {
			without, never = append(without, name), cmp.Or(never, err)
		}
	}
	if len(jobs) == 0 {
		return nil, &neverError{o.rangeOfLife(never), without}
	}
	if err != nil {
		return nil, o.rangeOfLife(err)
	}
	slices.Sort(without)
	r := &simulateResult{ways: asked, Without: without, Nodes: o.nodes, NodeBytes: costs.bytes, WorkS: work, MTBFS: o.mtbf(&m), Runs: o.runs, Seed: o.seed, Protect: costs.scheme.String(), Lives: []simulatedLife{},
		Assumed: append(o.assumed(), costs.assumed()...), jobs: jobs, machine: m}
	r.add(costs, jobs, ways, s)
	return r, o.room.after(r)
}

// A neverError says that no way has an end, and why the first has none.
type neverError struct {
	error
	ways []string
}

func (e *neverError) Unwrap() error { return e.error }

// rangeOfLife makes numbers that cannot be simulated, and jobs without progress, errors of usage.
func (o *simulateOptions) rangeOfLife(err error) error {
	stuck := new(life.StuckError)
	switch {
	case errors.As(err, &stuck) && o.interval != "auto":
		return ui.AsUsage(ui.WithHint(err, "give a shorter --interval, or --interval auto"))
	case errors.As(err, &stuck):
		return ui.AsUsage(ui.WithHint(err, stuck.Hint()))
	case errors.As(err, new(*life.RangeError)):
		return ui.AsUsage(err)
	}
	return err
}
