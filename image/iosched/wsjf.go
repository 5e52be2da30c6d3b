package iosched

import (
	"slices"
	"time"
)

// wsjf serves the application that has the fewest bytes left to move, divided by
// its share of what its user may have. So a user with many applications gets no more
// than a user with one. An application that has waited for longer than the bound goes
// first. Requests of an application are served in the order of offsets.
type wsjf struct {
	apps
	bound  time.Duration
	active []*app // with requests that wait
}

const defaultBound = 10 * time.Second

func newWSJF(o Options) *wsjf {
	p := &wsjf{apps: newApps(o, defaultQuantum), bound: defaultBound}
	p.sweeps = true
	if o.Bound > 0 {
		p.bound = o.Bound
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
	if !p.continues() {
		a = p.choose(now)
		p.used = 0
	}
	out := p.serve(now, a)
	if a.waiting() == 0 {
		p.leave(a)
	}
	return out, 0
}

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
