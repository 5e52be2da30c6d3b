package predictions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/interval"
)

type intervalOptions struct {
	levelOptions
	FailingOptions
	logOptions
	predicted               intervalApp
	ends                    interval.Ends // of the numbers below that have an interval
	log                     *failureLog   // nil without --failures
	measured                *jobCost      // nil without --from-job
	failing                 string        // the MTBF in words
	cost, restart, downtime string
	app, at                 string
	nodes                   int
	mode                    string
	logging, logged, growth string
	replay                  float64
	simulate                bool
	runs                    int
	shape                   float64
	seed                    uint64
	steady                  bool
	plot                    string
}

func newIntervalCommand(g *ui.Globals) *cobra.Command {
	var o intervalOptions
	cmd := &cobra.Command{
		Use:   "interval [APP]",
		Short: "Find the interval between checkpoints that loses the least time to failures",
		Long: `Find the interval between checkpoints that loses the least time to failures:
by Young's formula, by Daly's, and exactly, with the wasted time and the expected
time of a run. An interval runs from the end of a checkpoint to the start of the
next. docs/INTERVAL.md has the formulas and their sources.

With message logs (--mode uncoordinated or semi) only the failed rank or node
rolls back; --logging is the cost of the logs. --cost is then the time that the job
loses to one checkpoint of every group, --restart the time that it loses to
restarting one rank or node.

With several --storage-level a checkpoint goes through levels of storage, the nearest first:
--storage-level local=5s --storage-level store=2m --share-local 85%. The cost of a level is what a
checkpoint of it costs more than one of the level before. A level may have restart=,
the time to read a checkpoint back; share=, that of the failures that its checkpoints
survive; drain=, the time until a checkpoint is safe in the last level, behind the
job, whose cost is then how much that slows the job down. The answer is the interval,
and which checkpoints go on to the next level; every= and --interval fix them.

--from-job takes the costs of checkpoints and restarts from the journal of a job, of any
engine, mode and level, and the levels of one whose checkpoints went to its nodes first.

--failures reads a log of the failures of a machine: it tells MTBF, shape, repair times,
trend and the nodes that fail most, and the interval that follows (docs/PLANNING.md).

With an APP the command predicts the cost and the restart, those of --mode, that no
flag gives: ckpt predict plan --mtbf has the model. The ranks are spread over --nodes.
Two levels, as in --storage-level local=2GiB/s --storage-level store=200MiB/s, then have
the rates of a node and of the store in place of costs.

--simulate simulates runs with random failures, from a seed. --shape 0.7 makes
failures cluster, as they do on large machines, with the same MTBF.`,
		Example: `  ckpt interval --cost 5m --mtbf 6h --restart 10m
  ckpt interval --cost 5m --node-mtbf 1y --nodes 1000 --app-time 72h --shape 0.7
  ckpt interval --cost 5m --mtbf 6h --interval 2h --json
  ckpt interval bt.D.64 --mtbf 24h --model bt.model
  ckpt interval --storage-level local=5s --storage-level store=2m --mtbf 24h --share-local 85%
  ckpt interval --storage-level local=5s,restart=10s --storage-level store=6s,drain=10m,restart=5m --mtbf 24h --share-local 85%
  ckpt interval --from-job night --mtbf 24h
  ckpt interval --failures failures.csv --cost 5m --restart 10m
  ckpt interval --cost 5m --mtbf 6h --mode semi --logging 3% --logged 40% --replay 1.5`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd, g, args); err != nil {
				return err
			}
			return runInterval(cmd.Context(), g, &o)
		},
	}
	o.addFlags(cmd.Flags())
	o.predicted.addFlags(cmd.Flags())
	g.Renamed(cmd.Flags(), "level", "storage-level")
	g.AddStoreFlag(cmd)
	return cmd
}

func (o *intervalOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.cost, "cost", "", "time that the application loses to one checkpoint, like 5m")
	o.levelOptions.addFlags(f)
	o.FailingOptions.AddFlags(f, "")
	o.logOptions.addFlags(f)
	f.StringVar(&o.restart, "restart", "", "time to restart from a checkpoint (default 0)")
	f.StringVar(&o.downtime, "downtime", "", "time from a failure to the start of the restart (default 0)")
	f.IntVar(&o.nodes, "nodes", 0, "number of nodes of the job, for --node-mtbf, --failures and APP")
	f.StringVar(&o.app, "app-time", "24h", "time of the run without checkpoints and failures")
	f.StringVar(&o.at, "interval", "", "show waste and expected time at this interval instead of the best")
	f.StringVar(&o.mode, "mode", string(job.Coordinated), "how ranks checkpoint: coordinated, uncoordinated or semi")
	ui.Choices(f, "mode", string(job.Coordinated), string(job.Semi), string(job.Uncoordinated))
	f.StringVar(&o.logging, "logging", "", "speed lost if all messages are logged, like 2%")
	f.StringVar(&o.logged, "logged", "100%", "share of the messages that is logged; for semi the share between nodes")
	f.StringVar(&o.growth, "log-growth", "0%", "time that logs add to a checkpoint, as a share of the interval, if all messages are logged")
	f.Float64Var(&o.replay, "replay", 1, "speed of repeated work, whose messages come from logs")
	f.BoolVar(&o.simulate, "simulate", false, "simulate runs with random failures; implied by --runs, --shape, --steady and --seed")
	f.IntVar(&o.runs, "runs", 10000, "number of simulated runs")
	f.Float64Var(&o.shape, "shape", 1, "shape of the Weibull distribution of failures: 1 is exponential")
	f.BoolVar(&o.steady, "steady", false, "start on a machine long in use, not right after a failure")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the simulation")
	f.StringVar(&o.plot, "plot", "", "draw the waste over the interval to a file: .svg, .png, .pdf or .json")
}

// complete checks what goes together, and fills in what an APP, a job and a log tell.
func (o *intervalOptions) complete(cmd *cobra.Command, g *ui.Globals, args []string) error {
	f := cmd.Flags()
	for _, flag := range []string{"runs", "shape", "steady", "seed"} {
		o.simulate = o.simulate || f.Changed(flag)
	}
	if err := o.levelOptions.check(f); err != nil {
		return err
	}
	if err := o.fromLog(f); err != nil {
		return err
	}
	if o.NodeMTBF == "" {
		o.explain(g, o.nodes)
	}
	if f.Changed("model") && len(args) == 0 {
		args = []string{""} // the model's
	}
	if len(args) > 0 {
		if name := changed(f, "log", "group-size"); name != "" && !f.Changed("mode") {
			return ui.BadUsage("--"+name+": it is about groups of ranks", "add --mode semi or --mode uncoordinated")
		}
		return o.ofApp(cmd, g, args[0])
	}
	if name := changed(f, "np", "mpi", "codec", "log", "group-size"); name != "" {
		return ui.BadUsage("--"+name+" belongs to an APP whose costs are predicted", "name one, as in ckpt interval bt.D.64 --mtbf 24h")
	}
	if o.fromJob == "" {
		return nil
	}
	j, err := g.OpenJob(o.fromJob)
	if err != nil {
		return err
	}
	if o.tier, err = levels.MeasureTier(j); err == nil && len(o.tier.Pauses) > 0 && o.async > 0 {
		return ui.BadUsage("--async and --from-job "+o.fromJob+": the checkpoints of the job wait on its nodes until they are safe", "leave --async out")
	}
	if err != nil || len(o.tier.Pauses) > 0 {
		return err
	}
	o.tier = nil
	if o.shareLocal != "" {
		return ui.BadUsage("--share-local "+o.shareLocal+": no checkpoint of the job went to its nodes", "leave it out, or name a job that was launched with --local '/nvme/{node}'")
	}
	return o.ofJob(f, j)
}

// model reads the flags that describe the job.
func (o *intervalOptions) model() (interval.Model, error) {
	var m interval.Model
	if o.cost == "" {
		return m, ui.Missing("--cost", "5m")
	}
	if err := o.checkNodes(); err != nil {
		return m, err
	}
	var q ui.Quantities
	m.Cost = q.Duration("--cost", o.cost)
	m.Restart, m.Downtime = q.Duration("--restart", o.restart), q.Duration("--downtime", o.downtime)
	if q.Err != nil {
		return m, q.Err
	}
	var err error
	if m.MTBF, o.failing, err = o.jobMTBF(); err != nil {
		return m, err
	}
	switch job.Mode(o.mode) {
	case job.Coordinated:
		if o.logging != "" {
			return m, ui.BadUsage("--logging "+o.logging+": coordinated checkpoints need no message logs", "leave it out, or add --mode uncoordinated or --mode semi")
		}
		return m, nil
	case job.Uncoordinated:
		m.Mode = interval.Uncoordinated
	case job.Semi:
		m.Mode = interval.Semicoordinated
	default:
		return m, ui.BadUsage(fmt.Sprintf("--mode %q is unknown", o.mode), "choose coordinated, uncoordinated or semi")
	}
	if o.logging == "" {
		return m, ui.BadUsage("--logging is missing: without message logs the domino effect has no bound", "add the cost of logging, like --logging 2%")
	}
	l := &m.Logging
	l.Replay = o.replay
	l.Slowdown, l.Share, l.Growth = q.Share("--logging", o.logging), q.Share("--logged", o.logged), q.Share("--log-growth", o.growth)
	return m, q.Err
}

func (o *intervalOptions) checkNodes() error {
	if o.nodes < 0 {
		return ui.BadUsage(fmt.Sprintf("--nodes %d: want a number of nodes from 1", o.nodes), "give the nodes of the job with the --node-mtbf of one, or the --mtbf of the job alone")
	}
	return nil
}

func runInterval(ctx context.Context, g *ui.Globals, o *intervalOptions) error {
	switch {
	case o.several():
		return runLevels(ctx, g, o)
	case o.log != nil && o.cost == "":
		return showFailures(g, o.log)
	}
	r, err := o.result(ctx)
	if err != nil {
		return rangeIsUsage(err)
	}
	if o.plot != "" {
		if err := plotWaste(o.plot, &r.model, r.Rules); err != nil {
			return err
		}
	}
	return g.Show(r, func() error { return printInterval(g, r) })
}

func runLevels(ctx context.Context, g *ui.Globals, o *intervalOptions) error {
	r, err := o.ofLevels(ctx, g)
	if err != nil {
		return rangeIsUsage(err)
	}
	if o.plot != "" {
		if err := plotLevels(o.plot, r); err != nil {
			return err
		}
	}
	return g.Show(r, func() error { return printLevels(g, r) })
}

// rangeIsUsage turns quantities out of range into usage errors.
func rangeIsUsage(err error) error {
	if r := new(interval.RangeError); errors.As(err, &r) {
		return ui.AsUsage(err)
	}
	return err
}

func (o *intervalOptions) result(ctx context.Context) (*Interval, error) {
	m, err := o.model()
	if err != nil {
		return nil, err
	}
	if err := ui.CheckPlotName(o.plot); err != nil {
		return nil, err
	}
	var q ui.Quantities
	app, at := q.Duration("--app-time", o.app), q.Duration("--interval", o.at)
	if q.Err != nil {
		return nil, q.Err
	}
	best, err := m.Optimum()
	if err != nil {
		return nil, err
	}
	r := &Interval{
		Young: best.Young.Seconds(), Daly: best.Daly.Seconds(), Exact: best.Exact.Seconds(), App: app.Seconds(),
		Cost: m.Cost.Seconds(), MTBF: m.MTBF.Seconds(), Restart: m.Restart.Seconds(), Downtime: m.Downtime.Seconds(), Mode: o.mode,
		model: m, failing: o.failing, Log: o.log, Measured: o.measured, CostRange: o.ends.Of(m, at), Engine: o.predicted.engine,
	}
	given := []time.Duration{at}
	if o.at == "" {
		given, at = nil, best.Exact
	}
	if r.Rules, err = best.Rules(&m, app, given...); err != nil {
		return nil, err
	}
	last := r.Rules[len(r.Rules)-1]
	r.Waste, r.Total, r.Interval = last.Waste, last.Total, last.Interval
	if run, err := m.Best(app); err == nil {
		r.Run = run.Row()
	}
	if o.simulate {
		s := interval.Simulation{Model: m, Work: app, Interval: at, Shape: o.shape, Runs: o.runs, Seed: o.seed, Steady: o.steady}
		r.Sim, err = o.simulated(ctx, s.Run)
	}
	return r, err
}

// simulated runs a simulation, which ^C ends.
func (o *intervalOptions) simulated(ctx context.Context, run func(context.Context) (*interval.Estimate, error)) (*interval.Simulated, error) {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	e, err := run(ctx)
	if err != nil {
		return nil, err
	}
	return e.Seconds(o.shape, o.seed, o.steady), nil
}
