package coordinator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/zones"
)

// A tuning looks for a better way to write while the job runs. Its fields belong to the
// driver's loop, but for the adapter, which is asked by one goroutine at a time.
type tuning struct {
	adapter *tune.Adapter
	of      int  // group whose checkpoints are compared with forecasts
	asked   bool // the adapter is at work
	told    bool // the way in which the job begins
}

// startTuning takes up the way in which the job was last told to write.
func (d *driver) startTuning() error {
	t := d.spec.Tuning
	if t == nil {
		return nil
	}
	sys, err := pfs.Read(strings.NewReader(t.Storage))
	if err != nil {
		return fmt.Errorf("storage that job %s is tuned for: %w", d.job.Name(), err)
	}
	objective, err := tune.ParseObjective(t.Objective)
	if err != nil {
		return err
	}
	way := tune.ReadWay(d.job, d.spec)
	for _, g := range d.groups {
		g.way = &way
	}
	c, err := tune.OfJob(d.spec, way)
	if err != nil {
		return err
	}
	d.tuning = &tuning{adapter: tune.NewAdapter(sys, c, objective, tune.SpaceOf(d.spec, tune.Between, objective)),
		of: tune.Watched(d.spec), told: d.resumed()}
	return nil
}

// tellTuned tells, once, in which way a new job begins.
func (d *driver) tellTuned() {
	if d.tuning == nil || d.tuning.told || d.spec.Program != nil {
		return // a program begins as the user says
	}
	d.tuning.told = true
	t := d.spec.Tuning
	d.Event(&tune.TunedEvent{Type: "tuned", Objective: t.Objective, From: tune.NewTunedWay(t.Before, t.BeforeAsync),
		To: tune.NewTunedWay(d.spec.Way(), d.spec.Async), Why: t.Why})
}

// adapt compares a checkpoint with its forecast, or its copy into the store where it was on nodes
// first.
func (g *group) adapt(ev *job.CheckpointEvent) {
	if g.spec.Tier != nil {
		return
	}
	latency, pause := ev.Costs(g.spec.Async)
	m := tune.Taken{Full: g.base == 0, Bytes: ev.StoredBytes, Seconds: latency, Pause: pause}
	for _, f := range g.taken.Files {
		if f.Kind == container.KindLibrary && g.base == 0 && ev.Number == 1 {
			m.Library += f.Bytes
		}
	}
	g.adaptTo(g.taken, m)
}

// adaptTo looks for a better way to write, beside the computation, after a checkpoint. Another way
// holds from the next one on that has not been begun.
func (g *group) adaptTo(of *image.Manifest, m tune.Taken) {
	t := g.d.tuning
	if t == nil || t.asked || t.of != g.id {
		return
	}
	t.asked = true
	if g.spec.Program != nil {
		m.Memory = storedBy(of)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.d.Go(func() {
		select {
		case <-g.d.done:
			cancel()
		case <-ctx.Done():
		}
	})
	g.d.Go(func() {
		defer cancel()
		change, err := t.adapter.Next(ctx, m)
		g.d.Post(func() {
			t.asked = false
			if err != nil {
				g.d.log.Debug("no better way was looked for", "error", err)
				return
			}
			g.d.change(change, of.Number, m.Seconds)
		})
	})
}

// storedBy is what ranks have stored in a checkpoint. A file of several ranks counts for each by
// its memory.
func storedBy(m *image.Manifest) *tune.PlannedMemory {
	memory := &tune.PlannedMemory{Regions: []string{"memory"}, Zones: m.Bytes}
	bytes := map[string]int64{} // of memory, by file
	for _, r := range m.Ranks {
		bytes[r.File] += r.Zones.Total()
	}
	for i, r := range m.Ranks {
		s := plan.Source{Rank: i, Node: r.Node}
		for _, f := range m.Files {
			if f.Path == r.File && bytes[r.File] > 0 {
				share := float64(r.Zones.Total()) / float64(bytes[r.File])
				s.Pieces = []plan.Piece{{Bytes: zones.PageRound(int64(share * float64(f.Bytes-f.Holes))), Align: true}}
			}
		}
		memory.Sources = append(memory.Sources, s)
	}
	return memory
}

// change has all groups write in another way from now on.
func (d *driver) change(c *tune.Change, after int, measured float64) {
	if c == nil {
		return
	}
	was, is := *d.groups[0].way, job.Way{WritePath: c.Settings, Codec: c.Codec}
	if is == was || d.spec.Possible(is) != nil {
		return
	}
	for _, g := range d.groups {
		g.way = &is
	}
	d.Event(&tune.TunedEvent{Type: "tuned", After: after, Objective: d.spec.Tuning.Objective, From: tune.NewTunedWay(was, d.spec.Async),
		To: tune.NewTunedWay(is, d.spec.Async), Measured: measured, Forecast: c.Forecast, Why: c.Why})
}

// A pace is where and when the ranks last began to compute.
type pace struct {
	iteration int
	at        time.Duration
	known     bool
}

// paceFrom measures the pace anew, since the ranks of a group compute.
func (d *driver) paceFrom(g *group) {
	d.pace = pace{iteration: g.restored.iter, at: d.now(), known: true}
	if d.spec.Several() {
		d.pace.iteration = d.machine.Iteration()
	}
}

// rate is how many iterations the job does per second, checkpoints included, 0 if that
// is not known.
func (d *driver) rate() float64 {
	done, took := d.machine.Iteration()-d.pace.iteration, (d.now() - d.pace.at).Seconds()
	if !d.pace.known || done <= 0 || took <= 0 {
		return 0
	}
	return float64(done) / took
}

// underWay returns the number of a checkpoint that is being written, or 0.
func (d *driver) underWay() int {
	for _, g := range d.groups {
		if n := g.level.Facts().UnderWay; n > 0 {
			return n
		}
	}
	return 0
}

// beginning says where and when the run began.
func (d *driver) beginning() job.Beginning {
	b := job.NewBeginning()
	b.Started = d.since.UTC().Truncate(time.Millisecond)
	return b
}
