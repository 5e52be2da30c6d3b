package pfs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ckpt/image/iosched"
)

// Scheduler is the order of the requests at each target. Without a policy they are
// served as they come. Zero is the default of package iosched.
type Scheduler struct {
	Policy     string   `yaml:"policy,omitempty" json:"policy"`           // one of iosched.Names
	PerRequest Duration `yaml:"per_request,omitempty" json:"per_request"` // how much later a request waits for its turn
	Quantum    Bytes    `yaml:"quantum,omitempty" json:"quantum"`         // of rr, srpt and wsjf; the base quantum of mlf
	Bound      Duration `yaml:"bound,omitempty" json:"bound"`             // of wsjf: how long an application waits; of mlf: a request
	// The others are for mlf, IdleWait and its part of Without for wsjf as well.
	MaxAggregate  Bytes    `yaml:"max_aggregate,omitempty" json:"max_aggregate"`
	MaxWindow     Duration `yaml:"max_window,omitempty" json:"max_window"`
	ShiftWait     Duration `yaml:"shift_wait,omitempty" json:"shift_wait"`
	AggregateWait Duration `yaml:"aggregate_wait,omitempty" json:"aggregate_wait"`
	IdleWait      Duration `yaml:"idle_wait,omitempty" json:"idle_wait"`
	Without       []string `yaml:"without,omitempty" json:"without,omitempty"` // parts that are switched off
}

// mlfParts are those parts of mlf that Scheduler.Without can name.
var mlfParts = map[string]func(*iosched.MLFOptions){
	"aggregates":     func(m *iosched.MLFOptions) { m.Aggregate = false },
	"windows":        func(m *iosched.MLFOptions) { m.Windows = false },
	"shift-wait":     func(m *iosched.MLFOptions) { m.ShiftWait = 0 },
	"aggregate-wait": func(m *iosched.MLFOptions) { m.AggWait = 0 },
	"idle-wait":      func(m *iosched.MLFOptions) { m.IdleWait = 0 },
	"offset-first":   func(m *iosched.MLFOptions) { m.OffsetFirst = false },
	"growth":         func(m *iosched.MLFOptions) { m.Grow, m.Shrink = 1, 1 },
	"pipeline":       func(m *iosched.MLFOptions) { m.PipelineWrites = false },
}

// Check says what is wrong with a scheduler.
func (s *Scheduler) Check() error {
	if s.Policy == "" {
		if s.PerRequest != 0 || s.Quantum != 0 {
			return fmt.Errorf("scheduler.policy: missing, want one of %s", strings.Join(iosched.Names(), ", "))
		}
		return nil
	}
	if s.Quantum != 0 && s.Quantum < 4096 {
		return fmt.Errorf("scheduler.quantum: %s: must be at least 4KiB", s.Quantum)
	}
	for _, name := range s.Without {
		if mlfParts[name] == nil {
			return fmt.Errorf("scheduler.without: %q: no such part of mlf, want one of %s", name, strings.Join(slices.Sorted(maps.Keys(mlfParts)), ", "))
		}
	}
	if _, err := iosched.New(s.Policy, s.options(0)); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return nil
}

// options returns those of the policy, for a target that moves so many bytes in a
// second.
func (s *Scheduler) options(rate float64) iosched.Options {
	m := iosched.DefaultMLF()
	for _, d := range []struct {
		from Duration
		to   *time.Duration
	}{
		{s.Bound, &m.Deadline}, {s.MaxWindow, &m.WindowMax}, {s.ShiftWait, &m.ShiftWait}, {s.AggregateWait, &m.AggWait}, {s.IdleWait, &m.IdleWait},
	} {
		if d.from != 0 {
			*d.to = ns(float64(d.from))
		}
	}
	if s.Quantum != 0 {
		m.QB = int64(s.Quantum)
	}
	if s.MaxAggregate != 0 {
		m.MaxAgg = int64(s.MaxAggregate)
	}
	for _, name := range s.Without {
		mlfParts[name](&m)
	}
	idle := ns(float64(s.IdleWait))
	if m.IdleWait == 0 {
		idle = -1
	}
	return iosched.Options{Rate: rate, Quantum: int64(s.Quantum), Bound: ns(float64(s.Bound)), IdleWait: idle, MLF: &m}
}

// scheduler returns the one that counts: of the options, or of the description, or
// nil.
func (s *System) scheduler(o *Scheduler) *Scheduler {
	if o == nil {
		o = &s.Scheduler
	}
	if o.Policy == "" {
		return nil
	}
	return o
}

// Unit is a target as its scheduler saw it.
type Unit struct {
	Target int `json:"target"`
	iosched.Stats
}

// Units returns what the schedulers of the targets have counted so far. Targets that
// served nothing are left out.
func (sim *Sim) Units() (units []Unit) {
	sim.eachTarget(func(t *target) {
		if t.unit == nil {
			return
		}
		if s := t.unit.control.Stats(); len(s.Files) > 0 {
			units = append(units, Unit{t.name, s})
		}
	})
	return units
}
