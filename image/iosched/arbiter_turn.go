package iosched

import (
	"slices"
	"time"
)

// A turn is the right of one application to use the unit.
type turn struct {
	app       *applicant // nil: the unit is free
	number    uint64
	since     time.Duration
	windowEnd time.Duration
	// revoked: its bursts were asked to finish, until revokeEnd.
	revoked   bool
	revokeEnd time.Duration
	// overdue: the application waited too long, and keeps its window.
	overdue bool
	// renewed: a window of it has ended.
	renewed bool
	// lingerEnd is until when the unit waits for more bursts of the
	// application; 0 while it has some.
	lingerEnd time.Duration
}

// advance moves the clock, and counts the time that has passed.
func (a *Arbiter) advance(now time.Duration) {
	if !a.started {
		a.began, a.now, a.started = now, now, true
	}
	passed := max(0, now-a.now)
	busy := false
	for _, p := range a.apps {
		if p.grants == 0 {
			continue
		}
		busy = true
		p.held += passed
		p.status.Held += passed.Seconds()
		if !p.progressed {
			p.user.account += passed.Seconds() * a.rate.perSecond / p.user.share
		}
	}
	if busy {
		a.status.Busy += passed.Seconds()
	}
	a.now += passed
}

// settle takes all decisions that are due.
func (a *Arbiter) settle() {
	if a.policy.cost == nil {
		for _, p := range a.apps {
			a.admit(p)
		}
		return
	}
	a.evictLate()
	if a.turn.app != nil {
		a.review()
	}
	if a.turn.app == nil {
		a.next()
	}
}

// review decides whether the turn goes on.
func (a *Arbiter) review() {
	t, p := &a.turn, a.turn.app
	if t.revoked {
		if p.grants == 0 {
			a.endTurn()
		}
		return
	}
	rivals := a.rivals(p)
	if !rivals || a.now < t.windowEnd {
		a.admit(p)
	}
	if p.grants == 0 && !a.lingers() {
		a.endTurn()
		return
	}
	switch {
	case !rivals || p.grants == 0:
	case a.unused(p):
		a.skip = p
		a.revoke()
	case a.now >= t.windowEnd:
		p.level++
		if a.choose(false) == p {
			a.newWindow(false)
			t.renewed = true
			a.admit(p)
		} else {
			a.revoke()
		}
	case a.asked && !t.overdue && a.policy.preempts && a.choose(true) != p:
		a.revoke()
	}
}

// next gives the unit to the application that goes first.
func (a *Arbiter) next() {
	p := a.choose(false)
	if p == nil {
		// A silent client is better than an idle unit: it loses the turn as
		// soon as somebody else asks.
		i := slices.IndexFunc(a.apps, func(p *applicant) bool { return len(p.bursts) > 0 })
		if i < 0 {
			return
		}
		p = a.apps[i]
	}
	a.skip = nil
	a.turn = turn{app: p, number: a.turn.number + 1, since: a.now}
	a.status.Turns++
	a.newWindow(a.overdue(p))
	a.admit(p)
	if p.grants == 0 {
		for _, b := range p.bursts {
			a.grant(b)
		}
		p.status.granted(len(p.bursts))
	}
}

func (a *Arbiter) newWindow(overdue bool) {
	t := &a.turn
	t.windowEnd = a.now + a.window(t.app)
	t.overdue = overdue
	t.app.status.Windows++
	a.status.Windows++
}

// admit grants all bursts of an application that may start, in their order.
func (a *Arbiter) admit(p *applicant) {
	first := slices.IndexFunc(p.bursts, func(b *burst) bool { return b.granted })
	count := 0
	for i, b := range p.bursts {
		if !a.ready(b) || a.behind(p.bursts[:i], b) {
			continue
		}
		if first >= 0 && a.turn.app == p && !a.turn.renewed {
			// A burst that joins in the first window has the place in line
			// of those that it joins.
			b.order = min(b.order, p.bursts[first].order)
		}
		a.grant(b)
		count++
	}
	if count > 0 {
		a.turn.lingerEnd = 0
		p.status.granted(count)
	}
}

// behind reports whether an earlier burst on the same file was evicted and may
// still be under way, though its client lives: the later one does not overtake
// it. Earlier ones that wait are granted first.
func (a *Arbiter) behind(earlier []*burst, b *burst) bool {
	return b.file != "" && b.conn.app.stragglers > 0 && slices.ContainsFunc(earlier, func(e *burst) bool {
		return e.file == b.file && e.straggler && !a.silent(e.conn)
	})
}

func (a *Arbiter) grant(b *burst) {
	if a.policy.cost == nil {
		a.turn.number++
	}
	p := b.conn.app
	if p.grants == 0 {
		p.last = a.now
		a.waited(p)
	}
	p.grants++
	a.straggles(b, false)
	b.granted, b.idle, b.turn = true, false, a.turn.number
	window := a.o.Window
	if a.turn.app == p {
		window = max(0, a.turn.windowEnd-a.now)
	}
	a.out = append(a.out, Action{Verb: GrantTurn, Conn: b.conn.id, Burst: b.id, Turn: b.turn, Window: window, Lease: a.o.Lease})
}

// drop takes the turn from a burst, or notes that it has given it back.
func (a *Arbiter) drop(b *burst) {
	if !b.granted {
		return
	}
	p := b.conn.app
	b.granted, b.idle = false, false
	p.grants--
	if p.grants == 0 {
		p.waiting, p.waitFrom = true, a.now
	}
}

// straggles notes whether a burst was evicted and has not answered.
func (a *Arbiter) straggles(b *burst, yes bool) {
	if b.straggler != yes {
		b.straggler = yes
		b.conn.app.stragglers += map[bool]int{true: 1, false: -1}[yes]
	}
}

// revoke asks the bursts of the turn to finish.
func (a *Arbiter) revoke() {
	t := &a.turn
	t.revoked, t.revokeEnd = true, a.now+a.o.Grace
	for _, b := range t.app.bursts {
		if b.granted {
			t.app.status.Revocations++
			a.status.Revocations++
			a.out = append(a.out, Action{Verb: RevokeTurn, Conn: b.conn.id, Burst: b.id, Turn: b.turn})
		}
	}
}

// evictLate evicts bursts whose client is silent while others wait, or has not
// answered a revocation in time.
func (a *Arbiter) evictLate() {
	t, p := &a.turn, a.turn.app
	if p == nil || !t.revoked && !a.rivals(p) {
		return
	}
	for _, b := range p.bursts {
		if !b.granted || !a.silent(b.conn) && !(t.revoked && a.now >= t.revokeEnd) {
			continue
		}
		a.drop(b)
		a.straggles(b, true)
		p.status.Evictions++
		a.status.Evictions++
		a.out = append(a.out, Action{Verb: EvictTurn, Conn: b.conn.id, Burst: b.id, Turn: b.turn})
	}
}

// lingers reports whether the unit waits for connections of the application
// that are expected to ask within the window.
func (a *Arbiter) lingers() bool {
	t, p := &a.turn, a.turn.app
	if a.o.Linger == 0 || len(p.bursts) > 0 || len(p.seen) >= p.expects() {
		return false
	}
	if t.lingerEnd == 0 {
		t.lingerEnd = min(a.now+a.o.Linger, t.windowEnd)
	}
	return a.now < t.lingerEnd
}

func (p *applicant) expects() int {
	if p.expected == 0 {
		return p.conns
	}
	return min(p.expected, p.conns)
}

func (a *Arbiter) endTurn() {
	p := a.turn.app
	if len(p.bursts) == 0 {
		p.expected = max(len(p.seen), (p.expects()+len(p.seen))/2)
		clear(p.seen)
	}
	a.turn.app = nil
}

// unused reports whether nothing of an application is under way: its bursts
// said so, or nothing has come from it for longer than its operations take.
func (a *Arbiter) unused(p *applicant) bool {
	if p.idle() {
		return a.now-p.ended >= idlePatience
	}
	return p.progressed && a.now-p.last >= a.stall(p)
}

// idle reports whether all bursts of an application that are granted are idle.
func (p *applicant) idle() bool {
	return !slices.ContainsFunc(p.bursts, func(b *burst) bool { return b.granted && !b.idle })
}

func (a *Arbiter) stall(p *applicant) time.Duration { return max(a.o.Stall, 4*p.gap) }

// rivals reports whether another application waits for the unit.
func (a *Arbiter) rivals(p *applicant) bool {
	return slices.ContainsFunc(a.apps, func(q *applicant) bool { return q != p && a.eligible(q) })
}

// solo reports whether exactly one application has turns. Stragglers do not count.
func (a *Arbiter) solo() bool {
	n := 0
	for _, p := range a.apps {
		if p.grants > 0 {
			n++
		}
	}
	return n == 1
}
