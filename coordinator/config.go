package coordinator

import (
	"context"
	"maps"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
)

// supervisorConfig describes the job to its protocol.
func (d *driver) supervisorConfig(from *image.Manifest) (supervisor.Config, error) {
	// A program has 0 iterations: how many is not known.
	cfg := supervisor.Config{Iterations: d.spec.Iterations, Schedule: d.spec.ProtocolSchedule(), Jitter: d.spec.Jitter, Seed: d.spec.Seed,
		Limits: d.limits, AutoRestart: d.spec.AutoRestart, Async: d.spec.Async || d.spec.Lone(), Lone: d.spec.Lone(), Keep: 2}
	for _, g := range d.groups {
		cfg.Groups = append(cfg.Groups, g.ranks)
	}
	var err error
	if cfg.Next, err = d.job.Next(); err != nil {
		return cfg, err
	}
	if d.inventory != nil {
		cfg.Next = max(cfg.Next, d.inventory.next)
	}
	data, _, err := d.spec.Memory()
	if err != nil {
		return cfg, err
	}
	cfg.Cost = d.expectedCost(from != nil, data)
	if cfg.Printed, d.output, err = job.OpenOutput(d.job, len(d.members)); err != nil {
		return cfg, err
	}
	if len(d.groups) == 1 {
		err := d.addKnown(&cfg, from)
		return cfg, err
	}
	cfg.Log, cfg.Stagger = d.spec.Log, d.spec.Stagger
	if d.baseline, err = job.ReadBaseline(d.job, len(d.groups)); err != nil {
		return cfg, err
	}
	cfg.Base, cfg.Incarnation = d.baseline.Base, d.baseline.Incarnation
	stored, err := job.ReadStored(d.job, d.spec, d.baseline.Base)
	if err != nil {
		return cfg, err
	}
	if !d.baseline.FromScratch() {
		if cfg.Known, err = job.Known(stored.Found); err != nil {
			return cfg, err
		}
		if err := d.forgoLogs(cfg); err != nil {
			return cfg, err
		}
	}
	stored.Miss(&d.baseline)
	if len(d.baseline.Taken) != len(d.groups) {
		d.baseline.Taken = make([]int, len(d.groups))
	}
	for _, err := range stored.Passed {
		d.out.Warn(err.Error())
	}
	d.passed = stored.Reason()
	cfg.Base = d.baseline.Base
	switch {
	case d.baseline.FromScratch():
		cfg.Known = nil
		return cfg, nil
	case d.baseline.Unlogged:
		if err := d.baseline.CheckUnlogged(d.job, cfg); err != nil {
			return cfg, err
		}
		cfg.Known = d.baseline.Only(cfg.Known)
		return cfg, nil
	case !cfg.Log.Logs():
		return cfg, nil
	}
	for g, found := range stored.Found {
		if err := job.CheckLogs(d.job, d.spec, g, found); err != nil {
			return cfg, job.OfferLine(d.job.Name(), cfg, err)
		}
	}
	if cfg.Log == channel.Optimistic {
		cfg.Logged, err = job.Logged(context.Background(), d.job, d.spec, cfg)
	}
	return cfg, err
}

// addKnown adds the checkpoints that a job of one group may go back to: the one to
// begin with and those before it. Damaged ones may be among them: falling back to one
// falls back further. Later ones are of a future that this run leaves aside.
func (d *driver) addKnown(cfg *supervisor.Config, from *image.Manifest) error {
	if from == nil {
		return nil
	}
	known, err := d.job.Iterations()
	if err != nil {
		return err
	}
	known[from.Number] = from.Iteration
	for n, m := range d.groups[0].level.versions() {
		known[n] = m.Iteration
	}
	for _, n := range slices.Sorted(maps.Keys(known)) {
		if n <= from.Number {
			cfg.Known = append(cfg.Known, supervisor.Stored{Number: n, Iter: int(known[n])})
		}
	}
	cfg.From = from.Number
	return nil
}

// forgoLogs chooses what the checkpoints alone allow, if that is asked for.
func (d *driver) forgoLogs(cfg supervisor.Config) error {
	l := &d.baseline
	if !d.withoutLog || l.Unlogged {
		return nil
	}
	line, err := supervisor.LineWithoutLogs(cfg)
	if err != nil {
		return err
	}
	l.Base = nil
	for _, c := range line {
		l.Base = append(l.Base, c.Number)
	}
	if slices.Max(l.Base) == 0 {
		for g := range l.Base {
			l.Base[g] = -1 // the job restarts from scratch
		}
		return nil
	}
	l.Taken, l.Unlogged = slices.Clone(l.Base), true
	return nil
}
