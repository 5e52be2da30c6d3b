package iosched

import (
	"slices"
	"time"
)

// app is an application, and its requests that wait.
type app struct {
	name     string
	user     *user
	fifo     heap[*Request] // in the order in which they came,
	sweep    sweep          // or of their offsets
	left     int64          // bytes that came and are not granted
	burst    int64          // bytes that are to come or wait, as far as it has said
	declared int64          // as it said last
	served   int64          // bytes granted since it was idle for long
	since    time.Duration  // when it began to wait, or was served last
	first    uint64         // the number of its first request since then
	line     int            // its place among those that take turns
	index    int            // among those with requests that wait, or -1

	processes map[int]struct{} // ranks that are likely to have requests again
	patience  patience
	lastFile  string
	lastOp    Op
}

// user is who has applications that wait.
type user struct {
	weight float64
	active int
}

// turns is the policies rr, srpt and wsjf: an application has the unit for a quantum.
//
// rr has them take turns. srpt serves the one that has the fewest bytes left to move. wsjf
// divides these by its share of what its user may have, so that a user with many applications
// gets no more than a user with one. An application that has waited for longer than the bound
// goes first. Requests of an application are served in the order of offsets, and it keeps the
// unit for a moment if its next request is about to come.
type turns struct {
	name    string
	less    func(p *turns, now time.Duration, a, b *app) bool
	quantum int64 // 0 says one request
	shares  bool  // wsjf
	weight  func(string) float64
	bound   time.Duration
	idle    time.Duration

	byName  map[string]*app
	users   map[string]*user
	files   numbers
	active  []*app // with requests that wait
	len     int    // requests with bytes that are not granted
	current *app   // who had the unit last
	used    int64
	lines   int  // places given out
	keeper  *app // for whose request the unit stays idle, or nil
	until   time.Duration
	wait    Wait
	out     [1]Grant
}

const (
	defaultQuantum = 1 << 20
	defaultBound   = 10 * time.Second
	defaultIdle    = 3 * time.Millisecond
)

func newTurns(name string, o Options, quantum int64, less func(p *turns, now time.Duration, a, b *app) bool) *turns {
	p := &turns{name: name, less: less, quantum: quantum, weight: o.Weight,
		byName: make(map[string]*app), users: make(map[string]*user), files: make(numbers)}
	if o.Quantum > 0 {
		p.quantum = o.Quantum
	}
	return p
}

func newRR(o Options) *turns {
	return newTurns("rr", o, defaultQuantum, func(_ *turns, _ time.Duration, a, b *app) bool { return a.line < b.line })
}

func newSRPT(o Options) *turns {
	return newTurns("srpt", o, 0, func(_ *turns, _ time.Duration, a, b *app) bool {
		x, y := a.remaining(), b.remaining()
		return x < y || x == y && a.first < b.first
	})
}

func newWSJF(o Options) *turns {
	p := newTurns("wsjf", o, defaultQuantum, (*turns).shorter)
	p.shares, p.bound, p.idle = true, defaultBound, defaultIdle
	if o.Bound > 0 {
		p.bound = o.Bound
	}
	if o.IdleWait != 0 {
		p.idle = o.IdleWait
	}
	return p
}

func (p *turns) Name() string { return p.name }
func (p *turns) Len() int     { return p.len }

func (p *turns) Add(now time.Duration, r *Request) {
	a := p.byName[r.App]
	if a == nil {
		a = &app{name: r.App, user: p.user(r.User), fifo: heap[*Request]{less: older}, index: -1, processes: make(map[int]struct{})}
		p.byName[r.App] = a
	}
	r.left, r.place.app = r.Bytes, a
	if a.left == 0 {
		if p.shares && now-a.since > p.bound {
			a.served = 0
		}
		a.since = now
	}
	if p.shares {
		r.place.file = p.files.of(r.File)
		a.processes[r.Rank] = struct{}{}
	}
	p.len++
	a.left += r.Bytes
	if r.Burst > 0 && (a.burst <= 0 || r.Burst != a.declared) {
		a.burst, a.declared = r.Burst, r.Burst
	}
	p.queue(a, r)
}

func (p *turns) user(name string) *user {
	u := p.users[name]
	if u == nil {
		u = &user{weight: 1}
		if p.weight != nil {
			if w := p.weight(name); w > 0 {
				u.weight = w
			}
		}
		p.users[name] = u
	}
	return u
}

// queue puts what is left of a request among those that wait.
func (p *turns) queue(a *app, r *Request) {
	if a.waiting() == 0 {
		a.first = r.Seq
		a.user.active++
		a.index = len(p.active)
		p.active = append(p.active, a)
		if a != p.current {
			p.enqueue(a)
		}
	}
	if p.shares {
		a.sweep.add(r)
	} else {
		a.fifo.push(r)
	}
}

// enqueue gives an application the last place.
func (p *turns) enqueue(a *app) {
	p.lines++
	a.line = p.lines
}

func (a *app) waiting() int { return a.fifo.len() + a.sweep.len }

// remaining is how many bytes the application still has to move, as far as it has
// said, or as many as wait.
func (a *app) remaining() int64 { return max(a.burst, a.left) }

// Next serves the application that has the unit, until its quantum is used up or no request
// of it waits. Then it chooses: those that came meanwhile have places before it.
func (p *turns) Next(now time.Duration) ([]Grant, time.Duration) {
	a := p.current
	if len(p.active) == 0 {
		if !p.shares {
			p.current = nil
		}
		return nil, 0
	}
	switch {
	case a == nil:
	case p.used >= p.quantum:
		if a.waiting() > 0 {
			p.enqueue(a)
		}
		a = nil
	case a.waiting() == 0:
		if wake := p.linger(now, a, Synchronous); wake > 0 {
			return nil, wake
		}
		a = nil
	}
	if a == nil {
		a = p.active[0]
		for _, b := range p.active[1:] {
			if p.less(p, now, b, a) {
				a = b
			}
		}
		p.current, p.used = a, 0
	}
	if p.shares {
		if _, follows := a.sweep.nearest(); !follows {
			if wake := p.linger(now, a, Shift); wake > 0 {
				return nil, wake
			}
		} else if p.keeper == a {
			a.patience = patience{}
		}
		p.keeper = nil
	}
	return p.serve(now, a), 0
}

// serve grants the next request of a, or what its quantum has left for it.
func (p *turns) serve(now time.Duration, a *app) []Grant {
	var r *Request
	if p.shares {
		r, _ = a.sweep.nearest()
		a.sweep.take(r)
		a.lastFile, a.lastOp = r.File, r.Op
	} else {
		r = a.fifo.pop()
	}
	g := r.grant(max(0, p.quantum-p.used))
	p.used += g.Bytes
	a.left -= g.Bytes
	a.burst -= g.Bytes
	a.served += g.Bytes
	a.since = now
	if r.left == 0 {
		p.len--
	}
	if a.waiting() == 0 {
		a.user.active--
		last := p.active[len(p.active)-1]
		p.active[a.index], last.index = last, a.index
		p.active = slices.Delete(p.active, len(p.active)-1, len(p.active))
		a.index = -1
	}
	p.out[0] = g
	return p.out[:]
}

// Done puts back what is left of a request.
func (p *turns) Done(_, _ time.Duration, g Grant) {
	if r := g.Request; r.left > 0 {
		p.queue(r.place.app, r)
	}
}

// cost is what wsjf has the least of first. An application that has not said how much it
// moves is expected to move as much again as it has.
func (a *app) cost() float64 {
	left := a.remaining()
	if a.burst <= 0 {
		left = max(left, a.served)
	}
	return float64(left) * float64(a.user.active) / a.user.weight
}

// shorter is the order of wsjf. Those that are overdue go by how long they have waited.
func (p *turns) shorter(now time.Duration, a, b *app) bool {
	late, other := now-a.since > p.bound, now-b.since > p.bound
	if late != other {
		return late
	}
	x, y := a.cost(), b.cost()
	if late {
		x, y = float64(a.since), float64(b.since)
	}
	return x < y || x == y && a.first < b.first
}

// linger returns until when the unit stays idle, since a process of a is likely to have
// a request soon that follows the last one; 0 says that it does not.
func (p *turns) linger(now time.Duration, a *app, reason Reason) time.Duration {
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
func (p *turns) Waiting() Wait { return p.wait }
