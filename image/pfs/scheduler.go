package pfs

import (
	"fmt"
	"maps"
	"math"
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

// options returns the options of the policy, for a target that moves so many bytes in a
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

// unit is a target whose requests wait until a policy chooses them. It serves one
// after the other.
type unit struct {
	sim     *Sim
	target  *target
	control *iosched.Controller
	grants  []iosched.Grant // to be served, in this order
	serving bool
	began   float64
	clock   time.Duration // at least: no alarm is too early
	wake    time.Duration // when the last alarm goes off
	alarm   int32         // the number of the one that counts
	outside []*transfer   // writes that wait for the cache of the server
}

// transfer is what a unit does for a chunk.
type transfer struct {
	request iosched.Request
	unit    *unit
	client  *Client
	file    *File
	chunk   *chunk // nil if it is answered already
	left    int64  // bytes to be served
}

// The events of a transfer.
const (
	stored int32 = iota // its bytes are in the cache
	queued              // the policy may choose it
)

// newUnit gives a target its controller.
func (sim *Sim) newUnit(t *target) *unit {
	s := sim.opt.Scheduler
	p, err := iosched.New(s.Policy, s.options(t.write))
	if err != nil {
		panic("pfs: " + err.Error()) // Scheduler.Check refuses it.
	}
	return &unit{sim: sim, target: t, control: iosched.NewController(fmt.Sprintf("target %d", t.name), p)}
}

// ns returns a virtual time as a scheduler counts it: not for more than 30 years.
func ns(seconds float64) time.Duration {
	return time.Duration(math.Round(min(seconds, 1e9) * 1e9))
}

// submit has a chunk wait for its target when all of it is there.
func (u *unit) submit(c *chunk, at float64) {
	l, sim := c.lane, u.sim
	w := sim.transfers.take()
	w.unit, w.client, w.file, w.chunk, w.left = u, l.client, l.file, c, c.bytes
	r, p := &w.request, l.client.process
	r.App, r.User, r.Rank, r.Burst, r.File = p.App, p.User, p.Rank, p.Burst, l.file.name
	r.Op, r.Offset, r.Bytes, r.Data = iosched.Write, c.offset, c.bytes, w
	if l.read {
		r.Op = iosched.Read
	} else {
		l.client.undrained++
	}
	if !l.read && sim.sys.Servers.WriteBehind {
		sim.schedule(at, w, stored)
		return
	}
	sim.schedule(at+u.delay(), w, queued)
}

func (w *transfer) act(what int32) {
	u := w.unit
	switch what {
	case stored:
		u.outside = append(u.outside, w)
		u.admit()
	case queued:
		if err := u.control.Add(ns(u.sim.now), &w.request); err != nil {
			panic("pfs: " + err.Error()) // A chunk has bytes, and is added once.
		}
		u.next()
	}
}

// admit lets writes into the cache of the server as long as they fit, and answers them.
func (u *unit) admit() {
	t, sim := u.target, u.sim
	for len(u.outside) > 0 {
		w := u.outside[0]
		if t.kept > 0 && t.kept+w.left > t.space {
			return
		}
		u.outside = u.outside[1:]
		t.kept += w.left
		sim.schedule(sim.now+sim.latency(w.left), w.chunk, atHost)
		w.chunk = nil
		sim.schedule(sim.now+u.delay(), w, queued)
	}
	u.outside = nil
}

func (u *unit) delay() float64 { return float64(u.sim.opt.Scheduler.PerRequest) }

// next serves the next grant, if the target has nothing to do.
func (u *unit) next() {
	if u.serving {
		return
	}
	sim := u.sim
	if len(u.grants) == 0 {
		u.alarm++
		u.clock = max(u.clock, ns(sim.now))
		grants, wake := u.control.Next(u.clock)
		u.grants = append(u.grants[:0], grants...)
		if len(grants) == 0 {
			if wake > 0 {
				u.wake = wake
				sim.schedule(max(wake.Seconds(), sim.now), u, u.alarm)
			}
			return
		}
	}
	g := &u.grants[0]
	w := g.Request.Data.(*transfer)
	cost := sim.cost(u.target, w.file, g.Offset, g.Bytes, g.Request.Op == iosched.Read)
	u.serving, u.began = true, sim.now
	u.target.disk.busy += cost
	sim.schedule(sim.now+cost, u, served)
}

// served is the event of a unit that has served a grant. Others are alarms.
const served int32 = -1

func (u *unit) act(what int32) {
	switch {
	case what == served:
		u.done()
		u.next()
	case what == u.alarm:
		u.clock = max(u.clock, u.wake)
		u.next()
	}
}

// done ends a grant, and its request if that was all of it.
func (u *unit) done() {
	g, sim := u.grants[0], u.sim
	u.grants = u.grants[1:]
	u.serving = false
	u.control.Done(ns(u.began), ns(sim.now), g)
	w := g.Request.Data.(*transfer)
	if w.left -= g.Bytes; w.left > 0 {
		return
	}
	read := g.Request.Op == iosched.Read
	if !read {
		w.client.wrote()
	}
	switch c := w.chunk; {
	case c == nil:
		u.target.kept -= g.Request.Bytes
		u.admit()
	case read:
		c.fetched(sim, flow{sim.now, sim.now})
	default:
		sim.schedule(sim.now+sim.latency(c.bytes), c, atHost)
	}
	sim.transfers.give(w)
}

// wrote is told that a write of the client is on its target.
func (c *Client) wrote() {
	c.drained = c.sim.now
	if c.undrained--; c.undrained > 0 {
		return
	}
	waits := c.drainWaits
	c.drainWaits = nil
	for _, w := range waits {
		c.sim.At(c.sim.now+w.more, w.done)
	}
}

// drainWait is a call of Drain that waits.
type drainWait struct {
	more float64
	done func()
}
