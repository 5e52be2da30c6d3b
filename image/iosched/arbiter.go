package iosched

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// DefaultPolicy is used where Options do not name a policy.
const DefaultPolicy = "wsjf"

// DefaultWindow is how long a turn lasts before the others are looked at, where Options
// do not say.
const DefaultWindow = 500 * time.Millisecond

// Options say how an Arbiter decides. Zero values are defaults.
type TurnOptions struct {
	// Policy is one of Policies.
	Policy string
	// Window is how long a turn lasts before the others are looked at;
	// 500 ms, the longest regulation window of Lebre 2006, chapter 7.
	Window time.Duration
	// Lease is how long a connection may be silent before it loses its turn
	// to others; 5 s. Clients give signs of life several times per lease.
	Lease time.Duration
	// Grace is how long a burst of a connection that lives may take to answer
	// a revocation; two leases.
	Grace time.Duration
	// MaxWait is how long an application waits before it goes next, whatever
	// the policy; 60 s.
	MaxWait time.Duration
	// Linger is how long the unit stays with an application whose bursts have
	// all ended, if connections of it are expected to ask; 2 ms, the
	// aggregation wait of Lebre 2006, chapter 7. Below 0: not at all.
	Linger time.Duration
	// Stall is after how long without progress a turn is revoked if others
	// wait, or four times the longest silence between two operations of the
	// application, if that is more; 5 s. Clients that say when they are idle
	// lose the turn sooner.
	Stall time.Duration
	// Share returns the share of a user, 1 if nil. A user with 2 is served
	// twice as much as one with 1 while both wait.
	Share func(user string) float64
	// MaxConns and MaxBursts limit connections, and the bursts of each;
	// 65,536 and 1,024.
	MaxConns, MaxBursts int
}

func (o TurnOptions) withDefaults() (TurnOptions, error) {
	if o.Policy == "" {
		o.Policy = DefaultPolicy
	}
	if !slices.Contains(TurnPolicies(), o.Policy) {
		return o, fmt.Errorf("unknown policy %q of storage turns (want %s)", o.Policy, strings.Join(TurnPolicies(), ", "))
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"window", &o.Window, DefaultWindow},
		{"lease", &o.Lease, 5 * time.Second},
		{"grace", &o.Grace, 0},
		{"longest wait", &o.MaxWait, time.Minute},
		{"stall", &o.Stall, 5 * time.Second},
	} {
		if *d.v < 0 {
			return o, fmt.Errorf("%s of storage turns is %v, want 0 (the default) or more", d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.Grace == 0 {
		o.Grace = 2 * o.Lease
	}
	switch {
	case o.Linger == 0:
		o.Linger = 2 * time.Millisecond
	case o.Linger < 0:
		o.Linger = 0
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 65536
	}
	if o.MaxBursts <= 0 {
		o.MaxBursts = 1024
	}
	if o.Share == nil {
		o.Share = func(string) float64 { return 1 }
	}
	return o, nil
}

// An Arbiter decides about one storage unit. It is not for several goroutines.
type Arbiter struct {
	unit   string
	o      TurnOptions
	policy *turnPolicy

	began, now time.Duration
	started    bool
	seq        uint64 // of the newest ask
	conns      map[Conn]*conn
	apps       []*applicant // in order of their first connection
	users      map[string]*account
	left       []AppStatus // of applications that have gone, newest last

	turn turn
	// asked is set while an event is handled that brought a burst: policies
	// that preempt look at the others then.
	asked bool
	// skip had nothing under way and lost its turn: another goes next.
	skip *applicant
	out  []Action

	rate   rate
	status Status // as far as it is counted
}

type conn struct {
	id     Conn
	app    *applicant
	heard  time.Duration // when it gave a sign of life
	bursts map[uint64]*burst
}

type burst struct {
	id    uint64
	conn  *conn
	kind  string
	file  string
	order uint64 // its place in line: of its Ask, or of the burst that it joined
	bytes int64  // as asked; -1 unknown
	moved int64
	// turn is the number of its turn while granted, or while a straggler.
	turn      uint64
	granted   bool
	straggler bool // evicted, and has not answered
	idle      bool
}

// New returns an Arbiter for a storage unit.
func NewArbiter(unit string, o TurnOptions) (*Arbiter, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Arbiter{
		unit: unit, o: o,
		conns: map[Conn]*conn{}, users: map[string]*account{},
		rate: rate{perSecond: defaultRate},
	}
	for _, row := range policies {
		if row.name == o.Policy {
			a.policy = row.turns
		}
	}
	return a, nil
}

// Step tells the Arbiter of an event at a time, and returns what to send. An
// error says that the connection broke the rules: its owner closes it, and
// says Leave. The actions are valid beside an error.
func (a *Arbiter) Step(now time.Duration, e Event) ([]Action, error) {
	a.advance(now)
	err := a.apply(e)
	a.settle()
	out := a.out
	a.out, a.asked = nil, false
	return out, err
}

func (a *Arbiter) apply(e Event) error {
	switch e := e.(type) {
	case Join:
		return a.join(e)
	case Ask:
		return a.ask(e)
	case Progress:
		return a.progress(e)
	case Idle:
		b, err := a.burst(e.Conn, e.Burst)
		if err == nil {
			b.idle = b.granted
		}
		return err
	case Release:
		return a.release(e)
	case End:
		b, err := a.burst(e.Conn, e.Burst)
		if err == nil {
			a.remove(b)
		}
		return err
	case Alive:
		_, err := a.conn(e.Conn)
		return err
	case Leave:
		return a.leave(e)
	case Tick:
		return nil
	}
	return fmt.Errorf("unknown event %T", e)
}

func (a *Arbiter) join(e Join) error {
	if a.conns[e.Conn] != nil {
		return fmt.Errorf("connection %d has joined already", e.Conn)
	}
	if len(a.conns) >= a.o.MaxConns {
		return fmt.Errorf("%d connections have joined, no more are taken", len(a.conns))
	}
	if !(e.Weight >= 0 && e.Weight <= maxWeight) {
		return fmt.Errorf("weight %v of application %q is not from 0 to %g", e.Weight, e.App, float64(maxWeight))
	}
	p := a.application(e.App, e.User)
	p.weight = 1
	if e.Weight > 0 {
		p.weight = max(e.Weight, 1/float64(maxWeight))
	}
	p.conns++
	a.conns[e.Conn] = &conn{id: e.Conn, app: p, heard: a.now, bursts: map[uint64]*burst{}}
	return nil
}

func (a *Arbiter) ask(e Ask) error {
	c, err := a.conn(e.Conn)
	if err != nil {
		return err
	}
	if len(c.bursts) >= a.o.MaxBursts {
		return fmt.Errorf("connection %d has %d bursts, no more are taken", e.Conn, len(c.bursts))
	}
	if c.bursts[e.Burst] != nil {
		return fmt.Errorf("connection %d has asked for burst %d already", e.Conn, e.Burst)
	}
	a.seq++
	b := &burst{id: e.Burst, conn: c, kind: e.Kind, file: e.File, order: a.seq, bytes: min(max(e.Bytes, -1), maxBytes)}
	p := c.app
	if len(p.bursts) == 0 {
		a.begin(p)
	}
	c.bursts[e.Burst] = b
	p.bursts = append(p.bursts, b)
	if e.Whole > 0 { // an earlier burst, of which served are, may not be over
		p.whole = max(p.whole, min(p.served+min(e.Whole, maxBytes), maxBytes))
	}
	p.status.Requests++
	p.seen[c] = true
	if p.grants == 0 && !p.waiting {
		p.waiting, p.waitFrom = true, a.now
	}
	a.asked = true
	return nil
}

func (a *Arbiter) progress(e Progress) error {
	b, err := a.burst(e.Conn, e.Burst)
	if err != nil {
		return err
	}
	if e.Bytes < 0 {
		return fmt.Errorf("progress of burst %d is %d bytes, want 0 or more", e.Burst, e.Bytes)
	}
	working := b.granted && !b.idle
	b.idle = false
	a.moved(b, min(e.Bytes, maxBytes), working)
	return nil
}

func (a *Arbiter) release(e Release) error {
	b, err := a.burst(e.Conn, e.Burst)
	if err != nil {
		return err
	}
	if b.turn == e.Turn {
		a.drop(b)
		a.straggles(b, false)
	}
	return nil
}

func (a *Arbiter) leave(e Leave) error {
	c, err := a.conn(e.Conn)
	if err != nil {
		return err
	}
	for _, b := range slices.Clone(c.app.bursts) {
		if b.conn == c {
			a.remove(b)
		}
	}
	delete(a.conns, e.Conn)
	c.app.conns--
	delete(c.app.seen, c)
	if c.app.conns == 0 {
		a.forget(c.app)
	}
	return nil
}

// conn finds a connection that has said something.
func (a *Arbiter) conn(id Conn) (*conn, error) {
	c := a.conns[id]
	if c == nil {
		return nil, fmt.Errorf("connection %d has not joined", id)
	}
	c.heard = a.now
	return c, nil
}

func (a *Arbiter) burst(id Conn, number uint64) (*burst, error) {
	c, err := a.conn(id)
	if err != nil {
		return nil, err
	}
	if b := c.bursts[number]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("connection %d has no burst %d", id, number)
}

// remove takes out a burst that is over.
func (a *Arbiter) remove(b *burst) {
	p := b.conn.app
	if b.granted {
		p.ended = a.now
	}
	a.drop(b)
	a.straggles(b, false)
	p.bursts = slices.DeleteFunc(p.bursts, func(x *burst) bool { return x == b })
	delete(b.conn.bursts, b.id)
	if len(p.bursts) == 0 {
		a.over(p)
	}
}
