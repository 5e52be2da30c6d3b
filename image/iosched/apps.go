package iosched

import (
	"slices"
	"time"
)

// app is an application, and those of its requests that wait.
type app struct {
	name     string
	user     *user
	fifo     heap[*Request] // under rr and srpt
	sweep    sweep          // under wsjf
	left     int64          // bytes that came and are not granted
	burst    int64          // bytes that are to come or wait, as far as it has said
	declared int64          // as it said last
	served   int64          // bytes granted since it was idle for long
	since    time.Duration  // when it began to wait, or was served last
	first    uint64         // the number of its first request since then
	index    int            // in the heap or ring of the policy

	// Under wsjf:
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

// apps is what rr, srpt and wsjf share.
type apps struct {
	byName  map[string]*app
	users   map[string]*user
	files   numbers
	weight  func(string) float64
	quantum int64 // 0 says one request
	sweeps  bool
	len     int  // requests with bytes that are not granted
	current *app // who had the unit last
	used    int64
	out     [1]Grant
}

func newApps(o Options, quantum int64) apps {
	if o.Quantum > 0 {
		quantum = o.Quantum
	}
	return apps{byName: make(map[string]*app), users: make(map[string]*user), files: make(numbers), weight: o.Weight, quantum: quantum}
}

func (p *apps) Len() int { return p.len }

// add takes in a request, and says whether its application had none that waits.
func (p *apps) add(now time.Duration, r *Request) (a *app, first bool) {
	r.left = r.Bytes
	a = p.byName[r.App]
	if a == nil {
		a = &app{name: r.App, user: p.user(r.User), fifo: heap[*Request]{less: older}, index: -1, processes: make(map[int]struct{})}
		p.byName[r.App] = a
	}
	r.place.app = a
	if p.sweeps {
		r.place.file = p.files.of(r.File)
		a.processes[r.Rank] = struct{}{}
	}
	p.len++
	if a.left == 0 {
		a.since = now
	}
	a.left += r.Bytes
	if r.Burst > 0 && (a.burst <= 0 || r.Burst != a.declared) {
		a.burst, a.declared = r.Burst, r.Burst
	}
	return a, p.queue(a, r)
}

func (p *apps) user(name string) *user {
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

// queue puts what is left of a request among those that wait, and says whether it is
// the only one of its application.
func (p *apps) queue(a *app, r *Request) (only bool) {
	only = a.waiting() == 0
	if only {
		a.first = r.Seq
		a.user.active++
	}
	if p.sweeps {
		a.sweep.add(r)
	} else {
		a.fifo.push(r)
	}
	return only
}

func (a *app) waiting() int { return a.fifo.len() + a.sweep.len }

// remaining is how many bytes the application still has to move, as far as it has
// said, or as many as wait.
func (a *app) remaining() int64 { return max(a.burst, a.left) }

// serve grants the next request of a, or what its quantum has left for it.
func (p *apps) serve(now time.Duration, a *app) []Grant {
	if a != p.current {
		p.current, p.used = a, 0
	}
	var r *Request
	if p.sweeps {
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
	}
	p.out[0] = g
	return p.out[:]
}

// continues says whether the application that has the unit keeps it: its quantum is
// not used up, and one of its requests waits.
func (p *apps) continues() bool {
	return p.current != nil && p.used < p.quantum && p.current.waiting() > 0
}

// rr has the applications take turns of one quantum each.
type rr struct {
	apps
	ring []*app // that have requests, but for the current one
}

const defaultQuantum = 1 << 20

func newRR(o Options) *rr { return &rr{apps: newApps(o, defaultQuantum)} }

func (p *rr) Name() string { return "rr" }

func (p *rr) Add(now time.Duration, r *Request) {
	if a, first := p.add(now, r); first && a != p.current {
		p.ring = append(p.ring, a)
	}
}

// Next puts the application whose quantum is used up behind those that came
// meanwhile.
func (p *rr) Next(now time.Duration) ([]Grant, time.Duration) {
	if p.continues() {
		return p.serve(now, p.current), 0
	}
	if a := p.current; a != nil && a.waiting() > 0 {
		p.ring = append(p.ring, a)
	}
	p.current = nil
	if len(p.ring) == 0 {
		return nil, 0
	}
	a := p.ring[0]
	p.ring = slices.Delete(p.ring, 0, 1)
	return p.serve(now, a), 0
}

// Done puts back what is left of a request.
func (p *rr) Done(_, _ time.Duration, g Grant) {
	r := g.Request
	if r.left == 0 {
		return
	}
	if a := r.place.app; p.queue(a, r) && a != p.current {
		p.ring = append(p.ring, a)
	}
}

// srpt serves the application that has the fewest bytes left to move.
type srpt struct {
	apps
	order heap[*app]
}

func newSRPT(o Options) *srpt {
	p := &srpt{apps: newApps(o, 0)}
	p.order = heap[*app]{
		less: func(a, b *app) bool {
			if x, y := a.remaining(), b.remaining(); x != y {
				return x < y
			}
			return a.first < b.first
		},
		moved: func(a *app, i int) { a.index = i },
	}
	return p
}

func (p *srpt) Name() string { return "srpt" }

func (p *srpt) Add(now time.Duration, r *Request) {
	a, _ := p.add(now, r)
	p.place(a)
}

// place puts an application where it belongs among those with requests.
func (p *srpt) place(a *app) {
	switch {
	case a.waiting() == 0 && a.index >= 0:
		p.order.remove(a.index)
	case a.waiting() > 0 && a.index < 0:
		p.order.push(a)
	case a.index >= 0:
		p.order.fix(a.index)
	}
}

func (p *srpt) Next(now time.Duration) ([]Grant, time.Duration) {
	if p.order.len() == 0 {
		return nil, 0
	}
	a := p.order.first()
	p.used = 0 // it chooses again after each grant
	out := p.serve(now, a)
	p.place(a)
	return out, 0
}

func (p *srpt) Done(_, _ time.Duration, g Grant) {
	if r := g.Request; r.left > 0 {
		p.queue(r.place.app, r)
		p.place(r.place.app)
	}
}
