package iosched

import (
	"slices"
	"time"
)

// wsjf serves the application that has the fewest bytes left to move, divided by
// its share of what its user may have. So a user with many applications gets no more
// than a user with one. An application that has waited for longer than the bound goes
// first. Requests of an application are served in the order of offsets, and it keeps
// the unit for a moment if its next request is about to come.
type wsjf struct {
	apps
	bound  time.Duration
	idle   time.Duration
	active []*app // with requests that wait
	keeper *app   // for whose request the unit stays idle, or nil
	until  time.Duration
	wait   Wait
}

const (
	defaultBound = 10 * time.Second
	defaultIdle  = 3 * time.Millisecond
)

func newWSJF(o Options) *wsjf {
	p := &wsjf{apps: newApps(o, defaultQuantum), bound: defaultBound, idle: defaultIdle}
	p.sweeps = true
	if o.Bound > 0 {
		p.bound = o.Bound
	}
	if o.IdleWait != 0 {
		p.idle = o.IdleWait
	}
	return p
}

func (p *wsjf) Name() string { return "wsjf" }

func (p *wsjf) Add(now time.Duration, r *Request) {
	if a := p.byName[r.App]; a != nil && a.left == 0 && now-a.since > p.bound {
		a.served = 0
	}
	a, _ := p.add(now, r)
	p.join(a)
}

func (p *wsjf) join(a *app) {
	if a.index < 0 {
		a.index = len(p.active)
		p.active = append(p.active, a)
	}
}

func (p *wsjf) leave(a *app) {
	last := p.active[len(p.active)-1]
	p.active[a.index], last.index = last, a.index
	p.active = slices.Delete(p.active, len(p.active)-1, len(p.active))
	a.index = -1
}

// cost is what the applications are ordered by. An application that has not said how
// much it moves is expected to move as much again as it has.
func (a *app) cost() float64 {
	left := a.remaining()
	if a.burst <= 0 {
		left = max(left, a.served)
	}
	return float64(left) * float64(a.user.active) / a.user.weight
}

func (p *wsjf) Next(now time.Duration) ([]Grant, time.Duration) {
	if len(p.active) == 0 {
		return nil, 0
	}
	a := p.current
	switch {
	case a == nil || p.used >= p.quantum:
		a = nil
	case a.waiting() == 0:
		if wake := p.linger(now, a, Synchronous); wake > 0 {
			return nil, wake
		}
		a = nil
	}
	if a == nil {
		a = p.choose(now)
		p.current, p.used = a, 0
	}
	if _, follows := a.sweep.nearest(); !follows {
		if wake := p.linger(now, a, Shift); wake > 0 {
			return nil, wake
		}
	} else if p.keeper == a {
		a.patience = patience{}
	}
	p.keeper = nil
	out := p.serve(now, a)
	if a.waiting() == 0 {
		p.leave(a)
	}
	return out, 0
}

// linger returns until when the unit stays idle, since a process of a is likely to have
// a request soon that follows the last one; 0 says that it does not.
func (p *wsjf) linger(now time.Duration, a *app, reason Reason) time.Duration {
	all := a.declared > 0 && a.burst <= a.left // that it has said wait already
	switch {
	case p.idle <= 0 || all || a.waiting() >= len(a.processes):
		return 0
	case p.keeper != a:
		if !a.patience.try() {
			return 0
		}
		p.keeper, p.until = a, now+p.idle
		p.wait = Wait{File: a.lastFile, Op: a.lastOp, Reason: reason, Number: p.wait.Number + 1}
	case now >= p.until:
		a.patience.failed()
		clear(a.processes)
		return 0
	}
	return p.until
}

// Waiting describes the wait that Next asked for last.
func (p *wsjf) Waiting() Wait { return p.wait }

func (p *wsjf) choose(now time.Duration) (best *app) {
	overdue := false
	for _, a := range p.active {
		late := now-a.since > p.bound
		switch {
		case best == nil, late && !overdue:
			best, overdue = a, late
		case late != overdue:
		case late && (a.since < best.since || a.since == best.since && a.first < best.first):
			best = a
		case !late:
			if x, y := a.cost(), best.cost(); x < y || x == y && a.first < best.first {
				best = a
			}
		}
	}
	return best
}

func (p *wsjf) Done(_, _ time.Duration, g Grant) {
	if r := g.Request; r.left > 0 {
		p.queue(r.place.app, r)
		p.join(r.place.app)
	}
}
