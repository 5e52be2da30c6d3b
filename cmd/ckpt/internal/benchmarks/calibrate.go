package benchmarks

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
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// A trial is a short job whose checkpoints are measured.
type trial struct {
	App       string
	NP, Nodes int
	Settings  plan.Settings
	Codec     string
}

// trialSettings is how a trial writes, as JSON.
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
func (r *trials) run(ctx context.Context, t *trial, checkpoints int) (outcome, error) {
	inst, err := dataset.ParseApp(t.App, t.NP)
	if err != nil {
		return nil, err
	}
	s := t.spec(inst, checkpoints)
	if s.Keep, err = r.keep(inst, &s, checkpoints); err != nil {
		return nil, err
	}
	seen := func(store string) error {
		if err := ctx.Err(); err != nil || r.seen == nil {
			return err
		}
		return r.seen(ctx, t, store)
	}
	job, err := runJob(ctx, r.g, r.dir, s, coordinator.Options{StopOnFull: true}, seen)
	if err != nil {
		return nil, err
	}
	if n := len(job.checkpoints); n < 2 {
		return nil, fmt.Errorf("%s took %d checkpoints, want 2 or more", s.App, n)
	}
	return job.checkpoints[1:], nil
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
	m, err := tune.PlanMemory(inst, s.Mapping, s.MPI)
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

// A calibration runs jobs in a directory that probes have measured.
type calibration struct {
	trials
	sys   *pfs.System
	until time.Time
	packs map[string][]pfs.CodecSpeed // by codec, of all rounds
}

// calibrationTrials are small and short.
func calibrationTrials() []trial {
	shape := func(layout plan.Layout, np, nodes int, app, codec string) trial {
		s := plan.Defaults()
		s.Layout = layout
		return trial{App: app, NP: np, Nodes: nodes, Settings: s, Codec: codec}
	}
	return []trial{
		shape(plan.PerRank, 4, 1, "minighost.W", "none"),
		shape(plan.Shared, 8, 2, "minighost.W", "none"),
		shape(plan.PerRank, 4, 1, packApp, "none"),
		shape(plan.PerRank, 2, 1, "minighost.S", "none"),
		shape(plan.PerRank, 8, 1, packApp, "none"),
		shape(plan.PerRank, 16, 1, "minighost.S", "none"),
		shape(plan.Aggregated, 16, 4, "minighost.S", "none"),
		shape(plan.Shared, 4, 2, "minighost.A", "none"),
		shape(plan.Aggregated, 8, 2, "minighost.A", "none"),
		shape(plan.PerRank, 8, 1, "minighost.A", "zstd"),
		shape(plan.Shared, 8, 2, "minighost.A", "s2"),
		shape(plan.Shared, 16, 1, "minighost.S", "none"),
		shape(plan.PerRank, 4, 1, "minighost.A", "s2"),
		shape(plan.PerRank, 16, 1, "minighost.W", "none"),
		shape(plan.Aggregated, 4, 1, "minighost.A", "none"),
		shape(plan.Aggregated, 8, 4, "minighost.W", "zstd"),
		shape(plan.Shared, 4, 1, "minighost.A", "zstd"),
		shape(plan.PerRank, 2, 1, "minighost.A", "none"),
		shape(plan.Shared, 16, 2, "minighost.A", "none"),
		shape(plan.PerRank, 2, 1, "minighost.W", "none"),
		shape(plan.Aggregated, 2, 2, "minighost.A", "none"),
	}
}

// heldOut says which of the trials are for the misfit.
func heldOut(i int) bool { return i%4 == 3 }

const (
	// checkpointsEach is how many checkpoints a trial takes; the first does not count.
	checkpointsEach = 6
	// fewestTrials run even if the time is over.
	fewestTrials = 2
	// packApp is the application whose images codecs are tried on, packBytes at most.
	packApp   = "minighost.A"
	packBytes = 16 << 20
)

// run runs the trials in turns, as the time and the space suffice, and calibrates.
func (c *calibration) run(ctx context.Context) (*pfs.System, []trialRow, error) {
	c.seen, c.packs = c.pack, make(map[string][]pfs.CodecSpeed)
	list := calibrationTrials()
	all, err := c.runUntil(ctx, list)
	if err != nil {
		return nil, nil, err
	}
	c.enterCodecs()
	return c.calibrate(ctx, list, all)
}

// runUntil runs trials in turns until the time is over.
func (c *calibration) runUntil(ctx context.Context, list []trial) ([]outcome, error) {
	all := make([]outcome, len(list))
	bar := c.g.NewBar("jobs", int64(len(list)), false)
	defer bar.Clear()
	for ran, n := 0, 0; n < ran+len(list) && !(ran >= fewestTrials && time.Now().After(c.until)); n++ {
		i := n % len(list)
		o, err := c.trials.run(ctx, &list[i], checkpointsEach)
		if errors.Is(err, errTooLarge) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[i] = append(all[i], o...)
		ran++
		bar.Set(int64(min(ran, len(list))))
	}
	return all, nil
}

// calibrate fits what the description gives to what the trials took.
func (c *calibration) calibrate(ctx context.Context, list []trial, all []outcome) (*pfs.System, []trialRow, error) {
	var runs []tune.Measured
	rows := []trialRow{}
	for i := range list {
		if len(all[i]) == 0 {
			continue
		}
		cs, err := list[i].forecast()
		if err != nil {
			return nil, nil, err
		}
		o := all[i]
		runs = append(runs, tune.Measured{Case: cs, Coordination: o.coordination(), Latency: o.latency(), HeldOut: heldOut(i)})
		rows = append(rows, newTrialRow(list[i], o))
	}
	if n := len(list) - len(rows); n > 0 {
		c.sys.Unknown = append(c.sys.Unknown, fmt.Sprintf("%d of %d jobs: the time or the space was too short", n, len(list)))
	}
	if len(rows) == 0 {
		c.sys.Unknown = append(c.sys.Unknown, "what ckpt itself costs: no job was run")
		return c.sys, rows, nil
	}
	sys, compared, err := tune.Calibrate(ctx, c.sys, runs)
	for i := range compared {
		rows[i].HeldOut = compared[i].HeldOut
		rows[i].predicted(&compared[i].Forecast)
	}
	return sys, rows, err
}

// pack tries the codecs on the image of a rank, of a trial that stores it raw.
func (c *calibration) pack(ctx context.Context, t *trial, store string) error {
	if t.App != packApp || t.Settings.Layout != plan.PerRank || t.Codec != "none" {
		return nil
	}
	images, err := imagesOf(store)
	if err != nil || len(images) == 0 {
		return err
	}
	x, err := readExtents(ctx, images[len(images)-1], packBytes)
	if err != nil {
		return err
	}
	results, err := x.codecs(ctx, nil)
	for _, r := range results {
		c.packs[r.Codec] = append(c.packs[r.Codec], pfs.CodecSpeed{Pack: pfs.Rate(r.Encode), Unpack: pfs.Rate(r.Decode), Ratio: 1 / r.Ratio})
	}
	return err
}

// enterCodecs enters how fast the codecs are, and what they leave, in medians: data differ
// between numbers of ranks.
func (c *calibration) enterCodecs() {
	c.sys.Codecs = make(map[string]pfs.CodecSpeed)
	for name, list := range c.packs {
		if name == "none" {
			continue
		}
		var rates, unpacks, ratios []float64
		for _, s := range list {
			rates, unpacks, ratios = append(rates, float64(s.Pack)), append(unpacks, float64(s.Unpack)), append(ratios, s.Ratio)
		}
		c.sys.Codecs[name] = pfs.CodecSpeed{Pack: pfs.Rate(medianOf(rates)), Unpack: pfs.Rate(medianOf(unpacks)), Ratio: medianOf(ratios)}
	}
}
