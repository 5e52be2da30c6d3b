package iosched_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"ckpt/image/iosched"
)

// A sim is a virtual world: clients, a network with delays, one disk, and a
// controller that can die. All of it follows from a seed.
type sim struct {
	rng    *rand.Rand
	now    time.Duration
	seq    uint64
	agenda agenda
	o      iosched.TurnOptions

	ctl     *controller // nil while it is down
	lives   int         // controllers so far
	nextID  iosched.Conn
	clients []*client
	disk    disk
	faults  []string
	events  int
	actions uint64 // a hash of all
}

type moment struct {
	at  time.Duration
	seq uint64
	do  func()
}

type agenda []moment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(moment)) }
func (a *agenda) Pop() any {
	x := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return x
}

func newSim(seed uint64, o iosched.TurnOptions) *sim {
	return &sim{rng: rand.New(rand.NewPCG(seed, 19)), o: o, disk: disk{rate: 100e6}}
}

func (s *sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.agenda, moment{s.now + max(0, d), s.seq, do})
}

// run lets time pass until all clients are done, or nothing can happen.
func (s *sim) run(limit time.Duration) {
	for len(s.agenda) > 0 && !s.done() && len(s.faults) == 0 {
		m := heap.Pop(&s.agenda).(moment)
		if m.at > limit {
			s.fault("time is over")
			return
		}
		s.now = m.at
		s.events++
		m.do()
	}
}

func (s *sim) done() bool {
	for _, c := range s.clients {
		if !c.finished() {
			return false
		}
	}
	return true
}

func (s *sim) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf("%v: ", s.now)+fmt.Sprintf(format, args...))
}

// between draws a duration.
func (s *sim) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.rng.Int64N(int64(high-low)+1))
}

// A disk serves one operation after the other, and seeks between applications.
type disk struct {
	rate  float64
	seek  time.Duration
	free  time.Duration
	owner string
}

// serve returns when an operation that comes now is over.
func (d *disk) serve(now time.Duration, owner string, n int64) time.Duration {
	d.free = max(d.free, now)
	if owner != d.owner {
		d.free += d.seek
		d.owner = owner
	}
	d.free += time.Duration(float64(n) / d.rate * 1e9)
	return d.free
}

// A controller is an Arbiter with connections.
type controller struct {
	s     *sim
	life  int
	a     *iosched.Arbiter
	links map[iosched.Conn]*link
	wake  time.Duration
	hung  bool
	inbox []iosched.Event // while hung
	mirror
}

// A link is a connection: both directions keep their order.
type link struct {
	id       iosched.Conn
	ctl      *controller
	client   *client
	up, down time.Duration // when the newest message of each direction arrives
	left     bool
}

func (s *sim) startController() {
	a, err := iosched.NewArbiter("disk", s.o)
	if err != nil {
		panic(err)
	}
	s.lives++
	s.ctl = &controller{s: s, life: s.lives, a: a, links: map[iosched.Conn]*link{}, mirror: newMirror(s)}
}

// killController loses all connections at once.
func (s *sim) killController() {
	ctl := s.ctl
	if ctl == nil {
		return
	}
	s.ctl = nil
	for _, c := range s.clients {
		if l := c.link; l != nil && l.ctl == ctl {
			s.after(s.between(0, 20*ms), func() { c.linkLost(l) })
		}
	}
}

func (s *sim) connect(c *client) *link {
	if s.ctl == nil {
		return nil
	}
	s.nextID++
	l := &link{id: s.nextID, ctl: s.ctl, client: c, up: s.now, down: s.now}
	s.ctl.links[l.id] = l
	return l
}

func (s *sim) delay() time.Duration {
	if s.rng.IntN(50) == 0 {
		return s.between(0, 200*ms)
	}
	return s.between(50*time.Microsecond, 2*ms)
}

// send carries an event to the controller, after those sent before it.
func (l *link) send(e iosched.Event) {
	s := l.ctl.s
	l.up = max(l.up, s.now+s.delay())
	s.after(l.up-s.now, func() { l.ctl.receive(l, e) })
}

func (ctl *controller) receive(l *link, e iosched.Event) {
	switch {
	case ctl.s.ctl != ctl || l.left:
	case ctl.hung:
		ctl.inbox = append(ctl.inbox, e)
	default:
		_, l.left = e.(iosched.Leave)
		ctl.step(e)
	}
}

func (ctl *controller) resume() {
	ctl.hung = false
	inbox := ctl.inbox
	ctl.inbox = nil
	for _, e := range inbox {
		ctl.step(e)
	}
	ctl.step(iosched.Tick{})
	clear(ctl.since)
}

func (ctl *controller) step(e iosched.Event) {
	actions, err := ctl.a.Step(ctl.s.now, e)
	if err != nil {
		ctl.s.fault("%#v: %v", e, err)
	}
	ctl.see(ctl.s.now, e, actions)
	for _, x := range actions {
		ctl.s.actions = ctl.s.actions*31 + uint64(x.Verb) + uint64(x.Conn)<<8 + x.Burst<<20 + x.Turn<<40
		l := ctl.links[x.Conn]
		l.down = max(l.down, ctl.s.now+ctl.s.delay())
		ctl.s.after(l.down-ctl.s.now, func() { l.client.receive(l, x) })
	}
	ctl.alarm()
}

// alarm brings a Tick when the Arbiter wants one.
func (ctl *controller) alarm() {
	at, ok := ctl.a.Wake()
	if !ok || ctl.wake > ctl.s.now && ctl.wake <= at {
		return
	}
	if at <= ctl.s.now {
		ctl.s.fault("the arbiter wants to wake at %v", at)
		return
	}
	ctl.wake = at
	ctl.s.after(at-ctl.s.now, func() {
		if ctl.s.ctl == ctl && !ctl.hung && ctl.wake == ctl.s.now {
			ctl.step(iosched.Tick{})
		}
	})
}
