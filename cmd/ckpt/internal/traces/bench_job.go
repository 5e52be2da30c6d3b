package traces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/iotrace"
	"ckpt/iotrace/replay/bench"
)

// benchTraceJob has the cost of recording for the checkpoints of a job. Times are in
// seconds, one for each checkpoint.
type benchTraceJob struct {
	App        string    `json:"app"`
	Iterations int       `json:"iterations"`
	Every      int       `json:"every"` // iterations
	Plain      []float64 `json:"plain_latency_s"`
	Recorded   []float64 `json:"recorded_latency_s"`
	Ratio      float64   `json:"recorded_ratio"`    // of the medians
	Events     []int     `json:"checkpoint_events"` // of each recorded checkpoint
	// Share is the time to record the events of a checkpoint one after the other, as
	// a share of the latency of the same checkpoint; the median. The time of one
	// event is that measured in the first checkpoint.
	Share float64 `json:"recorder_share"`
}

// traceJob describes a job that takes some checkpoints and little time else.
func traceJob(app string) (job.Spec, error) {
	inst, err := dataset.ParseApp(app, 0)
	if err != nil {
		return job.Spec{}, err
	}
	s := job.NewSpec(inst)
	// All extents are new, so that each checkpoint stores as much.
	s.Schedule.Every, s.Iterations, s.Incremental = 2, 13, false
	return s, nil
}

// run runs the job with and without recording, in turns. One event takes perEvent
// seconds to record.
func (j *benchTraceJob) run(ctx context.Context, g *ui.Globals, o *benchTraceOptions, s job.Spec, perEvent float64, done func(int)) error {
	for k := range 2 * o.Rounds {
		s.Trace = (k+k/2)%2 == 1 // each goes first equally often
		s.Created = time.Now().UTC()
		if err := j.once(ctx, g, o.Dir, s); err != nil {
			return err
		}
		done(k + 1)
	}
	if len(j.Plain) == 0 || len(j.Recorded) == 0 || len(j.Events) != len(j.Recorded) {
		return fmt.Errorf("%s: %d checkpoints without traces, %d with, %d traces", j.App, len(j.Plain), len(j.Recorded), len(j.Events))
	}
	j.Ratio = bench.Median(j.Recorded) / bench.Median(j.Plain)
	var shares []float64
	for i, n := range j.Events {
		shares = append(shares, float64(n)*perEvent/j.Recorded[i])
	}
	j.Share = bench.Median(shares)
	return nil
}

// once runs the job in a store that it removes.
func (j *benchTraceJob) once(ctx context.Context, g *ui.Globals, dir string, s job.Spec) (err error) {
	store, err := os.MkdirTemp(dir, "ckpt-bench-trace-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(store)) }()
	t := &latencies{g: g}
	if _, err := coordinator.Launch(ctx, s, coordinator.Options{Store: store, Observer: t, Log: g.Log()}); err != nil {
		return err
	}
	if !s.Trace {
		j.Plain = append(j.Plain, t.list...)
		return nil
	}
	j.Recorded = append(j.Recorded, t.list...)
	names, err := filepath.Glob(filepath.Join(store, "jobs", "*", "traces", "*.trace"))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		tr, err := iotrace.ReadFile(name)
		if err != nil {
			return err
		}
		j.Events = append(j.Events, len(tr.Events))
	}
	return nil
}

// latencies keeps the latency of each checkpoint.
type latencies struct {
	g    *ui.Globals
	list []float64
}

func (l *latencies) Warn(text string) { l.g.Warn("%s", ui.OneLine(text)) }

func (l *latencies) Event(ev any) {
	if c, ok := ev.(*job.CheckpointEvent); ok {
		l.list = append(l.list, c.Latency.Total)
	}
}

func (j *benchTraceJob) print(g *ui.Globals) error {
	return g.Printf("\n%s, %s with --trace and %d without, in turns, about %d events each\n"+
		"recording the events      %.4f %% of the latency\n"+
		"median latency            %s with, %s without: ratio %.3f\n",
		j.App, ui.Count(len(j.Recorded), "checkpoint"), len(j.Plain), j.Events[len(j.Events)/2],
		100*j.Share, ui.Seconds(bench.Median(j.Recorded)), ui.Seconds(bench.Median(j.Plain)), j.Ratio)
}
