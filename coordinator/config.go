package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
)

func (d *driver) protocolConfig(from *image.Manifest) (protocol.Config, error) {
	cfg := protocol.Config{Iterations: d.spec.Iterations, Schedule: d.spec.ProtocolSchedule(),
		Limits: d.limits, Async: d.spec.Async, AutoRestart: d.spec.AutoRestart, Known: map[int]int{}}
	var err error
	if cfg.Next, err = d.job.Next(); err != nil {
		return cfg, err
	}
	if from != nil {
		// Damaged checkpoints may be among them: falling back to one falls back
		// further.
		known, err := d.job.Iterations()
		if err != nil {
			return cfg, err
		}
		for n, iteration := range known {
			if n < from.Number { // else of a future that this run leaves aside
				cfg.Known[n] = int(iteration)
			}
		}
		cfg.From = from.Number
		cfg.Known[from.Number] = int(from.Iteration)
	}
	data, shared, err := d.spec.Memory()
	if err != nil {
		return cfg, err
	}
	// Before the first measurement: the write takes a second per 256 MiB.
	cfg.Cost = time.Duration((data+shared+d.library.bytes)>>20) * time.Second / 256
	return cfg, nil
}

// supervisorConfig describes the job to its protocol.
func (d *driver) supervisorConfig(from *image.Manifest) (supervisor.Config, error) {
	one, err := d.protocolConfig(from)
	if err != nil {
		return supervisor.Config{}, err
	}
	cfg := supervisor.Config{Iterations: one.Iterations, Schedule: one.Schedule, Jitter: d.spec.Jitter, Seed: d.spec.Seed,
		Limits: one.Limits, AutoRestart: one.AutoRestart, Async: one.Async, Cost: one.Cost, From: one.From, Next: one.Next, Keep: 2}
	for _, g := range d.groups {
		cfg.Groups = append(cfg.Groups, g.ranks)
	}
	if cfg.Printed, d.output, err = job.OpenOutput(d.job, d.spec.NP); err != nil {
		return cfg, err
	}
	if len(d.groups) == 1 {
		for _, n := range slices.Sorted(maps.Keys(one.Known)) {
			cfg.Known = append(cfg.Known, supervisor.Stored{Number: n, Iter: one.Known[n]})
		}
		return cfg, nil
	}
	cfg.Log, cfg.Stagger, cfg.From = d.spec.Log, d.spec.Stagger, 0
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
		cfg.Logged, err = d.logged(cfg.Known)
	}
	return cfg, err
}

// logged returns, by rank and checkpoint, the states in its message log.
func (d *driver) logged(known []supervisor.Stored) ([]map[int][]channel.Vector, error) {
	all := make([]map[int][]channel.Vector, d.spec.NP)
	for rank := range all {
		all[rank] = make(map[int][]channel.Vector)
		group := d.spec.GroupOf[rank]
		numbers := []int{}
		if len(d.baseline.Base) == 0 || d.baseline.Base[group] == 0 {
			numbers = append(numbers, 0)
		}
		for _, k := range known {
			if k.Group == group {
				numbers = append(numbers, k.Number)
			}
		}
		for _, n := range numbers {
			states, err := job.LoggedStates(context.Background(), d.job, d.spec, rank, n)
			if err != nil {
				return nil, fmt.Errorf("message log of rank %d: %w", rank, err)
			}
			all[rank][n] = states
		}
	}
	return all, nil
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
			l.Base[g] = -1 // the job begins anew
		}
		return nil
	}
	l.Taken, l.Unlogged = slices.Clone(l.Base), true
	return nil
}
