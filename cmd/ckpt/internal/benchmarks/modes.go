package benchmarks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol/channel"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/vfs"
	"ckpt/predict"
)

type benchModesOptions struct {
	ui.Placement
	np, iterations, every, runs int
	mtbf, dir                   string
	seed                        uint64
	failOne                     bool
}

func newBenchModesCommand(g *ui.Globals) *cobra.Command {
	var o benchModesOptions
	cmd := &cobra.Command{
		Use:   "modes APP",
		Short: "Compare the modes of checkpointing on your job",
		Long: `Run the same job without checkpoints and failures, then in every mode and with
every message log, with the same seed of failures, and compare the costs.
The runs follow each other in a store of their own; the command removes it.

latency and pause are means over the checkpoints of a run. Depending on the mode,
each checkpoint is of all ranks, of those of a node, or of one rank. overhead is the
total time divided by that of the run without checkpoints and failures, less 1. work
lost counts iterations that ranks repeat, added up over the ranks. restart is the
time from a failure until all ranks compute again, added up. With --runs, each line
is the run of median total time.

The predictions beside them are those of ckpt predict plan --mtbf, with a model that is
fitted to all other modes of this comparison: what a round of checkpoints of all groups
adds to the run, the bytes logged, and a restart, each with its 95 % interval. Each
measured value is the median of --runs; use 3 or more on a machine that does other work.`,
		Example: `  ckpt bench modes bt.W.4 --every 10 --mtbf 2s --seed 1
  ckpt bench modes bt.A.16 --nodes 4 --iterations 40 --fail-one`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "np", "iterations", "every", "runs", "nodes"); err != nil {
				return err
			}
			return runBenchModes(cmd.Context(), g, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	o.Placement.AddFlags(f)
	f.IntVar(&o.iterations, "iterations", 0, "number of iterations (default: that of the class)")
	f.IntVar(&o.every, "every", 0, "checkpoint every N iterations (default: a fifth of all)")
	f.StringVar(&o.mtbf, "mtbf", "", "kill a random rank after random times, exponential with this mean (default: never)")
	f.Uint64Var(&o.seed, "seed", 1, "random seed of the failures")
	f.BoolVar(&o.failOne, "fail-one", false, "kill one rank once, after two thirds of the iterations, and compare the recoveries")
	f.IntVar(&o.runs, "runs", 1, "runs of each kind, in turns")
	f.StringVar(&o.dir, "dir", os.TempDir(), "directory for the store")
	return cmd
}

// benchModes is a comparison as JSON.
type benchModes struct {
	App        string      `json:"app"`
	NP         int         `json:"np"`
	Mapping    job.Mapping `json:"mapping"`
	Iterations int         `json:"iterations"`
	Every      int         `json:"every"` // iterations
	Failures   []string    `json:"inject"`
	Seed       uint64      `json:"seed"`
	Digest     string      `json:"digest"` // of every run
	Base       float64     `json:"base_s"` // total time without checkpoints and failures
	Modes      []benchRow  `json:"modes"`
	// Of all comparisons: how many lie in their intervals, how wide these are, and the median differences.
	Inside  *float64 `json:"inside_share"`
	Width   *float64 `json:"median_half_width"` // of the intervals, over the measured values
	Added   *float64 `json:"round_added_difference"`
	Logged  *float64 `json:"run_logged_difference"`
	Restart *float64 `json:"restarted_difference"`

	bases []float64 // totals of the runs without checkpoints
}

// benchRow is one mode, in its run of median total time. Times are in seconds,
// sizes in bytes.
type benchRow struct {
	Mode        job.Mode  `json:"mode"`
	Log         string    `json:"log"` // "" where nothing is sent between groups
	Checkpoints int       `json:"checkpoints"`
	Ranks       float64   `json:"ranks_each"`     // mean, of a checkpoint
	Latency     float64   `json:"mean_latency_s"` // mean, of a checkpoint
	Pause       float64   `json:"mean_pause_s"`   // mean, of a checkpoint
	Still       float64   `json:"still_s"`        // that a rank stood still for checkpoints in the run, mean of the ranks
	Stored      int64     `json:"stored_bytes"`
	LogBytes    int64     `json:"log_bytes"`
	LogFsyncs   int64     `json:"log_fsyncs"`
	Failures    int       `json:"failures"`
	Restarted   int       `json:"ranks_restarted"`
	WorkLost    int       `json:"repeated_iterations"` // iterations, added up over the ranks
	Restart     float64   `json:"restarts_s"`
	Total       float64   `json:"total_s"`
	Overhead    float64   `json:"overhead"` // total_s / base_s − 1
	Faster      float64   `json:"restart_ratio,omitempty"`
	Totals      []float64 `json:"totals_s"` // of all runs
	// PredictedLog is what the messages of the spec say of LogBytes; PredictedRestart is
	// what the restarts of the other modes say of MedianRestart, over all restarts of all
	// runs. It is nil if they say nothing.
	PredictedLog     int64    `json:"predicted_log_bytes"`
	MedianRestart    float64  `json:"median_restart_s,omitempty"`
	PredictedRestart *float64 `json:"predicted_restart_s,omitempty"`
	// The same with intervals, and what the job loses until every group has stored once. Nil
	// where nothing was measured, or nothing can be predicted.
	Added    *predict.SecondsBeside `json:"round_added,omitempty"`
	Logged   *sizeBeside            `json:"run_logged,omitempty"`
	Restarts *predict.SecondsBeside `json:"restarted,omitempty"`

	restarts []dataset.JobRestart
	measured []modeRun
}

// A modeRun is one run of a mode, for predictions of the others.
type modeRun struct {
	job      dataset.JobRun
	rounds   float64 // how often all groups took a checkpoint
	total    float64 // seconds
	base     float64 // seconds of the run without checkpoints in the same turn
	failures float64 // seconds of restarts and repeated work
}

func (r *benchRow) name() string {
	if r.Log == "" {
		return string(r.Mode)
	}
	return string(r.Mode) + ", " + r.Log
}

// modesToCompare returns all modes with the logs that they support.
func modesToCompare() []job.Spec {
	list := []job.Spec{{Mode: job.Coordinated}}
	for _, k := range []channel.Kind{channel.Receiver, channel.Sender} {
		list = append(list, job.Spec{Mode: job.Semi, Log: k.String()})
	}
	for _, k := range []channel.Kind{channel.Receiver, channel.Sender, channel.Optimistic, channel.None} {
		list = append(list, job.Spec{Mode: job.Uncoordinated, Log: k.String()})
	}
	return list
}

// spec describes the job without checkpoints.
func (o *benchModesOptions) spec(name string) (job.Spec, error) {
	inst, err := dataset.ParseApp(name, o.np)
	if err != nil {
		return job.Spec{}, err
	}
	s := job.NewSpec(inst)
	if !o.Given() {
		o.Nodes = min(2, inst.NP)
	}
	s.Mapping, err = o.Resolve(inst.NP)
	s.Trace, s.Seed = false, o.seed
	if o.iterations != 0 {
		s.Iterations = o.iterations
	}
	if o.every == 0 {
		o.every = max(1, s.Iterations/5)
	}
	return s, err
}

// failures returns the failures that are injected in all modes.
func (o *benchModesOptions) failures(s *job.Spec) (texts []string, list []launch.Failure, err error) {
	if o.mtbf != "" {
		if _, err := ui.ParseDuration("--mtbf", o.mtbf); err != nil {
			return nil, nil, err
		}
		texts = append(texts, fmt.Sprintf("mtbf=%s,seed=%d", o.mtbf, o.seed))
	}
	if o.failOne {
		texts = append(texts, fmt.Sprintf("rank=%d@iter=%d", s.NP/2, max(1, 2*s.Iterations/3)))
	}
	for _, text := range texts {
		f, err := launch.ParseFailure(text)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, f)
	}
	return append([]string{}, texts...), list, nil
}

func runBenchModes(ctx context.Context, g *ui.Globals, o *benchModesOptions, name string) error {
	base, err := o.spec(name)
	if err != nil {
		return err
	}
	texts, failures, err := o.failures(&base)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	b := benchModes{App: base.App, NP: base.NP, Mapping: base.Mapping, Iterations: base.Iterations, Every: o.every,
		Failures: texts, Seed: o.seed}
	ways := append([]job.Spec{base}, modesToCompare()...)
	for i := range ways[1:] {
		s := base
		s.Mode, s.Log, s.Schedule.Every, s.AutoRestart = ways[i+1].Mode, ways[i+1].Log, o.every, true
		ways[i+1] = s
	}
	progress := g.NewBar("run", int64(o.runs*len(ways)), false)
	defer progress.Clear()
	rows, done := make([][]benchRow, len(ways)), int64(0)
	err = inTurns(o.runs, len(ways), func(_, i int) error {
		with := failures
		if i == 0 {
			with = nil
		}
		row, digest, err := runMode(ctx, g, o.dir, ways[i], with)
		if err != nil && i > 0 {
			err = fmt.Errorf("%s: %w", (&benchRow{Mode: ways[i].Mode, Log: ways[i].Log}).name(), err)
			if o.mtbf != "" && errors.As(err, new(*coordinator.JobFailedError)) {
				// Its own hint is for ckpt launch.
				err = ui.WithHint(err, "give a larger --mtbf: failures come faster than this mode recovers from them")
			}
		}
		if err != nil {
			return err
		}
		if b.Digest = cmp.Or(b.Digest, digest); digest != b.Digest {
			return fmt.Errorf("%s: digest %s, another run %s", row.name(), digest, b.Digest)
		}
		rows[i] = append(rows[i], row)
		done++
		progress.Set(done)
		return nil
	})
	if err != nil {
		return err
	}
	for _, runs := range rows[1:] {
		for k := range runs {
			runs[k].measured[0].base = rows[0][k].Total
		}
	}
	without := median(rows[0], 1)
	b.Base, b.bases = without.Total, without.Totals
	for _, runs := range rows[1:] {
		b.Modes = append(b.Modes, median(runs, b.Base))
	}
	for i := range b.Modes {
		if first := b.Modes[0].Restart; first > 0 {
			b.Modes[i].Faster = b.Modes[i].Restart / first
		}
	}
	if err := b.predict(&base); err != nil {
		return err
	}
	progress.Clear()
	return printModes(g, &b, o)
}

// median returns the run of median total time.
func median(runs []benchRow, base float64) benchRow {
	slices.SortStableFunc(runs, func(a, b benchRow) int { return cmp.Compare(a.Total, b.Total) })
	r := runs[(len(runs)-1)/2]
	r.Overhead = r.Total/base - 1
	r.restarts, r.measured = nil, nil
	for _, x := range runs {
		r.Totals = append(r.Totals, x.Total)
		r.restarts = append(r.restarts, x.restarts...)
		r.measured = append(r.measured, x.measured...)
	}
	return r
}

// runMode runs a job once.
func runMode(ctx context.Context, g *ui.Globals, dir string, s job.Spec, failures []launch.Failure) (row benchRow, digest string, err error) {
	var run dataset.JobRun
	r, err := runJob(ctx, g, dir, s, coordinator.Options{Failures: failures}, func(store string) (err error) {
		if s.Schedule.Every > 0 {
			run, err = measuredRun(store)
		}
		return err
	})
	if err != nil {
		return row, "", err
	}
	n := float64(max(1, len(r.checkpoints)))
	row = benchRow{Mode: s.Mode, Log: s.Log, Checkpoints: len(r.checkpoints), LogBytes: r.LogBytes, LogFsyncs: r.LogFsyncs,
		Failures: r.Failures, Total: r.Wall, restarts: r.restarts}
	for i := range r.checkpoints {
		c := &r.checkpoints[i]
		row.Ranks += float64(c.Ranks) / n
		row.Latency += c.Latency.Total / n
		row.Pause += c.Pause / n
		row.Still += c.Pause * float64(c.Ranks) / float64(s.NP)
		row.Stored += c.StoredBytes
	}
	for _, n := range r.Restarts {
		row.Restarted += n
	}
	for _, n := range r.WorkLost {
		row.WorkLost += n
	}
	for _, s := range r.Recovery {
		row.Restart += s
	}
	row.measured = []modeRun{newModeRun(run, r)}
	return row, r.Digest, nil
}

// measuredRun measures the only job of a store; one without a checkpoint measures nothing.
func measuredRun(dir string) (run dataset.JobRun, err error) {
	s, err := image.OpenStore(vfs.OS{}, dir)
	if err != nil {
		return run, err
	}
	names, err := s.Jobs()
	if err != nil || len(names) == 0 {
		return run, err
	}
	j, err := s.Job(names[0])
	if err != nil {
		return run, err
	}
	if run, err = job.MeasureRun(j); errors.Is(err, image.ErrCheckpointNotFound) {
		err = nil
	}
	return run, err
}

func newModeRun(run dataset.JobRun, r *jobRun) modeRun {
	m := modeRun{job: run, total: r.Wall}
	groups := make(map[int]bool)
	for i := range r.checkpoints {
		c := &r.checkpoints[i]
		first := -1
		if len(c.Of) > 0 {
			first = c.Of[0]
		}
		groups[first] = true
	}
	if len(groups) > 0 {
		m.rounds = float64(len(r.checkpoints)) / float64(len(groups))
	}
	for _, f := range r.restarts {
		m.failures += f.TotalS
		if f.ReplayS != nil {
			m.failures += *f.ReplayS
		} else {
			m.failures += f.LostS
		}
	}
	return m
}
