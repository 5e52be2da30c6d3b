package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/plan"
)

// A trial is a short job whose checkpoints are measured.
type trial struct {
	App       string
	NP, Nodes int
	Settings  plan.Settings
	Codec     string
}

// trialSettings are those of a trial as JSON.
type trialSettings struct {
	Layout      string `json:"layout"`
	Strategy    string `json:"strategy"`
	Aggregators int    `json:"aggregators"` // 0: the default, −1: auto
	Buffer      int64  `json:"buffer_bytes"`
	Codec       string `json:"codec"`
}

func (t *trial) settings() trialSettings {
	s := t.Settings
	return trialSettings{string(s.Layout), string(s.Strategy), s.Aggregators, s.Buffer, t.Codec}
}

// job names the job as APP.CLASS.NP.
func (t *trial) job() string { return fmt.Sprintf("%s.%d", t.App, t.NP) }

// layout names who writes what.
func (t *trial) layout() string {
	s := t.Settings
	if s.Layout == plan.PerRank || s.Strategy == "" || s.Strategy == plan.TwoPhase {
		return string(s.Layout)
	}
	return string(s.Layout) + " " + string(s.Strategy)
}

// row begins the row of a table.
func (t *trial) row() []string {
	return []string{t.App, fmt.Sprint(t.NP), fmt.Sprint(t.Nodes), t.layout(), fmt.Sprint(t.Settings.Buffer >> 20), t.Codec}
}

var trialHeader = []string{"app", "|ranks", "|nodes", "layout", "|buffer MiB", "codec"}

// mapping spreads the ranks over the nodes.
func (t *trial) mapping() job.Mapping {
	m := make(job.Mapping, t.Nodes)
	for rank := range t.NP {
		m[rank*t.Nodes/t.NP]++
	}
	return m
}

// forecast is the trial as package tune takes it.
func (t *trial) forecast() (tune.Case, error) {
	inst, err := dataset.ParseApp(t.App, t.NP)
	if err != nil {
		return tune.Case{}, err
	}
	return tune.Case{Instance: inst, Mapping: t.mapping(), MPI: job.NewSpec(inst).MPI, Settings: t.Settings, Codec: t.Codec}, nil
}

// spec describes the job, which takes so many checkpoints.
func (t *trial) spec(inst *dataset.Instance, checkpoints int) job.Spec {
	s := job.NewSpec(inst)
	s.Mapping, s.WritePath, s.Codec = t.mapping(), t.Settings, t.Codec
	s.Incremental, s.Trace = false, false
	s.Iterations, s.Schedule = checkpoints+1, job.Schedule{Every: 1}
	return s
}

// An outcome is what a trial measured: medians in seconds, and the bytes of a checkpoint.
type outcome struct {
	Coordination, Latency float64
	Stored                int64
	all                   []float64 // latencies
}

// latencies observes a run.
type latencies struct {
	g    *ui.Globals
	list []job.CheckpointEvent
}

// Warn implements coordinator.Observer.
func (l *latencies) Warn(text string) { l.g.Warn("%s", ui.OneLine(text)) }

// Event implements coordinator.Observer.
func (l *latencies) Event(ev any) {
	if e, ok := ev.(*job.CheckpointEvent); ok {
		l.list = append(l.list, *e)
	}
}

// trials run in a directory, within its limit of bytes.
type trials struct {
	g    *ui.Globals
	dir  string
	most int64
	// seen, if not nil, is given the store of each job before it is removed.
	seen func(ctx context.Context, t *trial, store string) error
}

// errTooLarge says that a trial needs more space than it may take.
var errTooLarge = errors.New("the job needs more than --max-bytes")

// run runs a trial. The first checkpoint does not count: it stores the library, and meets
// buffers that nothing has touched.
func (r *trials) run(ctx context.Context, t *trial, checkpoints int) (o outcome, err error) {
	inst, err := dataset.ParseApp(t.App, t.NP)
	if err != nil {
		return o, err
	}
	s := t.spec(inst, checkpoints)
	if s.Keep, err = r.keep(inst, &s, checkpoints); err != nil {
		return o, err
	}
	dir, err := os.MkdirTemp(r.dir, "ckpt-bench-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	obs := &latencies{g: r.g}
	if _, err := coordinator.Launch(ctx, s, coordinator.Options{Store: dir, Observer: obs, Log: r.g.Log(), StopOnFull: true}); err != nil {
		return o, err
	}
	if err := ctx.Err(); err != nil {
		return o, err
	}
	if len(obs.list) < 2 {
		return o, fmt.Errorf("%s took %d checkpoints, want 2 or more", s.App, len(obs.list))
	}
	if r.seen != nil {
		if err := r.seen(ctx, t, dir); err != nil {
			return o, err
		}
	}
	return outcomeOf(obs.list[1:]), nil
}

func outcomeOf(list []job.CheckpointEvent) outcome {
	var coordination, all []float64
	for i := range list {
		coordination, all = append(coordination, list[i].Latency.Coordination), append(all, list[i].Latency.Total)
	}
	return outcome{Coordination: medianOf(coordination), Latency: medianOf(all), Stored: list[len(list)-1].StoredBytes, all: all}
}

// joined is the outcome of several runs of a trial: medians of all checkpoints.
func joined(list []outcome) outcome {
	var coordination, all []float64
	for i := range list {
		coordination, all = append(coordination, list[i].Coordination), append(all, list[i].all...)
	}
	return outcome{Coordination: medianOf(coordination), Latency: medianOf(all), Stored: list[len(list)-1].Stored, all: all}
}

// keep returns how many checkpoints may stay, 0 for all.
func (r *trials) keep(inst *dataset.Instance, s *job.Spec, checkpoints int) (int, error) {
	one, err := checkpointBytes(inst, s)
	if err != nil {
		return 0, err
	}
	library := int64(0)
	if exe, err := os.Executable(); err == nil {
		if fi, err := os.Stat(exe); err == nil {
			library = fi.Size()
		}
	}
	switch {
	case library+int64(checkpoints)*one <= r.most:
		return 0, nil
	case library+2*one <= r.most:
		return 1, nil
	}
	return 0, errTooLarge
}

// checkpointBytes is how large a checkpoint of a job is at most.
func checkpointBytes(inst *dataset.Instance, s *job.Spec) (int64, error) {
	m, err := job.PlanMemory(inst, s.Mapping, s.MPI)
	if err != nil {
		return 0, err
	}
	bytes := int64(1 << 20)
	for _, src := range m.Sources {
		for _, p := range src.Pieces {
			bytes += p.Bytes
		}
	}
	return bytes, nil
}

// imagesOf lists the images of ranks in a store.
func imagesOf(store string) ([]string, error) {
	list, err := filepath.Glob(filepath.Join(store, "jobs", "*", "*", "rank-*.img"))
	slices.Sort(list)
	return list, err
}
