package iosched

import (
	"math"
	"slices"
	"time"
)

const (
	maxWeight = 1 << 20
	// maxBytes bounds what is added at once, so that sums do not overflow.
	maxBytes = 1 << 60
	// idlePatience is for how long an application whose bursts are all idle keeps
	// its turn after another of its bursts has ended: a job that has written its
	// files is about to commit them.
	idlePatience = 100 * time.Millisecond
	// leftKept is how many applications are still shown after they left.
	leftKept = 64
	// defaultRate is the guess at the rate of a unit until progress was seen.
	defaultRate = 100e6
	// minEstimate is the least that a burst may have left that has moved more than it said.
	minEstimate = 1 << 20
	// The stages of bursts that do not say their size; see stage.
	firstStage  = 16 * time.Second
	stageFactor = 4
	minStage    = 64 << 20
)

// An app is an application: connections that have their turns together.
type applicant struct {
	name   string
	user   *account
	weight float64
	conns  int
	bursts []*burst // in the order of their asks
	grants int      // bursts that are granted
	// stragglers counts bursts that were evicted and have not answered.
	stragglers int

	// From the first ask to the end of all bursts:
	arrived    time.Duration
	whole      int64          // bytes of all bursts, as it said; 0 unknown
	served     int64          // bytes moved since arrived
	progressed bool           // some Progress has come
	held       time.Duration  // with a turn, since arrived
	seen       map[*conn]bool // connections that have asked
	level      int            // of policy mlf: whole windows used
	last       time.Duration  // of the newest progress, or of the grant
	gap        time.Duration  // longest time between two

	ended time.Duration // when a burst of it last ended

	expected int // connections that took part last time
	waiting  bool
	waitFrom time.Duration
	status   AppStatus // as far as it is counted
	// Seconds of the flows so far, of the longest, and that what was served takes alone.
	flow, longestFlow, alone float64
}

// A user has applications. Its account is what its applications were given, or
// more: a user that comes back starts from the least account of those that have
// bursts then, so that time without work earns no credit. Only differences
// between accounts count.
type account struct {
	name    string
	share   float64
	apps    int
	account float64 // bytes over share
}

func (a *Arbiter) application(name, owner string) *applicant {
	for _, p := range a.apps {
		if p.name == name && p.user.name == owner {
			return p
		}
	}
	u := a.users[owner]
	if u == nil {
		u = &account{name: owner, share: a.o.Share(owner)}
		if !(u.share > 0 && u.share <= maxWeight) {
			u.share = 1
		}
		a.users[owner] = u
	}
	u.apps++
	p := &applicant{name: name, user: u, seen: map[*conn]bool{}}
	a.apps = append(a.apps, p)
	return p
}

// forget drops an application whose last connection has gone.
func (a *Arbiter) forget(p *applicant) {
	a.apps = slices.DeleteFunc(a.apps, func(x *applicant) bool { return x == p })
	a.left = append(a.left, a.statusOf(p, "left"))
	if len(a.left) > leftKept {
		a.left = slices.Delete(a.left, 0, len(a.left)-leftKept)
	}
	if a.turn.app == p {
		a.turn.app = nil
	}
	if a.skip == p {
		a.skip = nil
	}
	p.user.apps--
	least := a.leastAccount()
	for name, u := range a.users {
		// An account that others may still hold against the user stays.
		if u.apps == 0 && u.account <= least {
			delete(a.users, name)
		}
	}
}

// begin notes the first ask of an application that had no burst.
func (a *Arbiter) begin(p *applicant) {
	least := a.leastAccount()
	p.arrived, p.served, p.whole, p.progressed, p.held = a.now, 0, 0, false, 0
	p.ended = -idlePatience
	p.level, p.last, p.gap = 0, a.now, 0
	if a.turn.app != p {
		clear(p.seen)
	}
	if !a.active(p.user) {
		p.user.account = max(p.user.account, least)
	}
}

// over notes that an application has no burst left.
func (a *Arbiter) over(p *applicant) {
	a.waited(p)
	flow := (a.now - p.arrived).Seconds()
	p.status.Flows++
	p.flow += flow
	p.longestFlow = max(p.longestFlow, flow)
	p.alone += a.alone(p)
}

func (a *Arbiter) active(u *account) bool {
	return slices.ContainsFunc(a.apps, func(p *applicant) bool { return p.user == u && len(p.bursts) > 0 })
}

// leastAccount is the smallest account of the users with bursts, or the largest
// of all if every user has what it wanted.
func (a *Arbiter) leastAccount() float64 {
	least, largest := math.Inf(1), 0.0
	for _, p := range a.apps {
		if len(p.bursts) > 0 {
			least = min(least, p.user.account)
		}
	}
	if !math.IsInf(least, 1) {
		return least
	}
	for _, u := range a.users {
		largest = max(largest, u.account)
	}
	return largest
}

// moved notes progress of a burst. Working says that it was at it since the last.
func (a *Arbiter) moved(b *burst, n int64, working bool) {
	p := b.conn.app
	b.moved = min(b.moved+n, maxBytes)
	p.served = min(p.served+n, maxBytes)
	p.status.Bytes = min(p.status.Bytes+n, maxBytes)
	a.status.Bytes = min(a.status.Bytes+n, maxBytes)
	if working {
		p.gap = max(p.gap, a.now-p.last)
	}
	p.last, p.progressed = a.now, true
	if b.granted {
		p.user.account += float64(n) / p.user.share
	}
	a.rate.moved(p, n, a.solo())
}

// eligible reports whether a burst waits whose connection gives signs of life.
func (a *Arbiter) eligible(p *applicant) bool {
	for i, b := range p.bursts {
		if a.ready(b) && !a.behind(p.bursts[:i], b) {
			return true
		}
	}
	return false
}

func (a *Arbiter) ready(b *burst) bool {
	return !b.granted && !b.straggler && !a.silent(b.conn)
}

// silent reports whether a connection has given no sign of life for a lease.
func (a *Arbiter) silent(c *conn) bool { return a.now-c.heard >= a.o.Lease }

// remaining estimates the bytes that an application has left to move. The ranks of a job
// ask one after the other: without the whole that it said, each would seem to make the job
// larger than one that waits.
func (a *Arbiter) remaining(p *applicant) float64 {
	sum := 0.0
	for _, b := range p.bursts {
		sum += a.left1(b)
	}
	return max(sum, float64(p.whole-p.served))
}

// left1 estimates the bytes that a burst has left. A burst that did not say is expected to
// end at the next of its stages; one that has moved more than it said, to move as much again
// as that was more, in powers of two.
func (a *Arbiter) left1(b *burst) float64 {
	if b.bytes >= 0 && b.moved <= b.bytes {
		if b.conn.app.progressed {
			return float64(b.bytes - b.moved)
		}
		return max(0, float64(b.bytes)-a.unseen(b.conn.app))
	}
	done := float64(b.moved - max(0, b.bytes))
	if !b.conn.app.progressed {
		done = a.unseen(b.conn.app)
	}
	if b.bytes < 0 {
		return a.stage(done) - done
	}
	return math.Exp2(math.Ceil(math.Log2(max(done, minEstimate))))
}

// stage is the end of the stage that a burst of unknown size is in: the first takes
// firstStage at the rate of the unit, and each ends at stageFactor times the end of the one
// before. Bursts of one stage go in the order in which they asked, one after the other:
// changing between them makes no burst end sooner. One that has passed a stage waits for those that
// have not, so that it does not hold up short ones for long.
func (a *Arbiter) stage(done float64) float64 {
	end := max(minStage, firstStage.Seconds()*a.rate.perSecond)
	for done >= end {
		end *= stageFactor
	}
	return end
}

// unseen estimates what each burst of an application that reports no progress
// has moved.
func (a *Arbiter) unseen(p *applicant) float64 {
	return p.held.Seconds() * a.rate.perSecond / float64(max(1, len(p.bursts)))
}

// A Conn is the number that the owner of an Arbiter gives to a connection.
type Conn uint64

// An Event is something that a connection said, that happened to it, or a Tick.
type Event interface{ event() }

type (
	// Join is the first event of a connection.
	Join struct {
		Conn Conn
		// App is the application: all connections of a user with this name
		// have their turns together.
		App  string
		User string
		Rank int
		// Weight compares applications of one user; 0 is 1. The shares of
		// users come from Options, not from what a client says.
		Weight float64
	}

	// Ask wants a turn for a burst.
	Ask struct {
		Conn Conn
		// Burst is a number that the connection has not used before.
		Burst uint64
		// Kind says what the bytes are for; it is only shown.
		Kind   string
		File   string
		Offset int64
		// Bytes is how much the burst has left to move; below 0: unknown.
		Bytes int64
		// Whole, if positive, is how much the application is about to move with
		// all its bursts together, of which others may ask later.
		Whole int64
	}

	// Progress says that a burst has moved so many bytes more.
	Progress struct {
		Conn  Conn
		Burst uint64
		Bytes int64
	}

	// Idle says that a burst has the turn and nothing under way on the unit, until its
	// next Progress. A client may leave it out.
	Idle struct {
		Conn  Conn
		Burst uint64
	}

	// Release answers a revocation: nothing of the burst is under way, and it
	// waits for its next turn. Turn is the number of the revoked turn.
	Release struct {
		Conn  Conn
		Burst uint64
		Turn  uint64
	}

	// End says that a burst is over, complete or not.
	End struct {
		Conn  Conn
		Burst uint64
	}

	// Alive is a sign of life. All events of a connection are, too.
	Alive struct{ Conn Conn }

	// Leave says that a connection has closed or died.
	Leave struct{ Conn Conn }

	// Tick says that time has passed.
	Tick struct{}
)

func (Join) event()     {}
func (Ask) event()      {}
func (Progress) event() {}
func (Idle) event()     {}
func (Release) event()  {}
func (End) event()      {}
func (Alive) event()    {}
func (Leave) event()    {}
func (Tick) event()     {}

// A Verb is what an Action tells a connection.
type Verb uint8

const (
	// GrantTurn lets a burst use the unit.
	GrantTurn Verb = iota + 1
	// RevokeTurn asks a burst to finish its current operation, and no more, and
	// to answer with Release.
	RevokeTurn
	// EvictTurn says that a burst has lost its turn already.
	EvictTurn
)

// An Action is a message to a connection about one of its bursts.
type Action struct {
	Verb  Verb
	Conn  Conn
	Burst uint64
	Turn  uint64
	// Window and Lease are set for Grant: how long the turn lasts before the
	// others are looked at, and how long the connection may be silent.
	Window, Lease time.Duration
}
