package arbiter

import (
	"time"
)

// A rate is the rate of the unit, as seen while one application had it.
type rate struct {
	perSecond float64
	bytes     float64
	time      time.Duration
	app       *app
	from      time.Duration // how long app had been served at its last progress
}

// A unit that moves less than a disk of long ago, or more than any, is one whose clients
// do not say what they move.
const (
	minRate = 1e3
	maxRate = 1e12
)

// moved notes that an application has moved n bytes.
func (r *rate) moved(p *app, n int64, solo bool) {
	if r.app == p && solo {
		r.bytes += float64(n)
		r.time += p.held - r.from
		if r.time >= time.Millisecond && r.bytes > 0 {
			r.perSecond = min(max(r.bytes/r.time.Seconds(), minRate), maxRate)
		}
		if r.time > time.Minute { // The newest minute counts most.
			r.bytes, r.time = r.bytes/2, r.time/2
		}
	}
	r.app, r.from = p, p.held
	if !solo {
		r.app = nil
	}
}

type totals struct {
	windows, turns, revokes, evictions int64
	bytes                              int64
	busy                               time.Duration
}

type appStats struct {
	requests, windows, revokes, evictions int64
	aggregates, aggregated                int64
	largest, last                         int
	bytes                                 int64
	flows                                 int64
	wait, longestWait, held               time.Duration
	flow, maxFlow, alone                  time.Duration
}

// granted notes that n bursts were granted together.
func (s *appStats) granted(n int) {
	s.last = n
	if n > 1 {
		s.aggregates++
		s.aggregated += int64(n)
		s.largest = max(s.largest, n)
	}
}

// waited notes that the wait of an application is over.
func (s *appStats) waited(p *app, now time.Duration) {
	if !p.waiting {
		return
	}
	p.waiting = false
	s.wait += now - p.waitFrom
	s.longestWait = max(s.longestWait, now-p.waitFrom)
}

func (s *appStats) flowed(flow, alone time.Duration) {
	s.flows++
	s.flow += flow
	s.maxFlow = max(s.maxFlow, flow)
	s.alone += alone
}

// alone estimates how long the bursts of an application, now over, take alone:
// at the rate of the unit, or as long as they had turns.
func (a *Arbiter) alone(p *app) time.Duration {
	if p.served == 0 || a.rate.time == 0 {
		return p.held
	}
	return time.Duration(min(float64(p.held), float64(p.served)/a.rate.perSecond*float64(time.Second)))
}

// Status tells what the Arbiter knows.
func (a *Arbiter) Status(now time.Duration) Status {
	a.advance(now)
	s := Status{
		Unit: a.unit, Policy: a.o.Policy, UptimeS: (a.now - a.began).Seconds(),
		WindowS: a.o.Window.Seconds(), LeaseS: a.o.Lease.Seconds(), MaxWaitS: a.o.MaxWait.Seconds(),
		Windows: a.totals.windows, Turns: a.totals.turns, Revokes: a.totals.revokes, Evictions: a.totals.evictions,
		Bytes: a.totals.bytes, BusyS: a.totals.busy.Seconds(),
	}
	if p := a.turn.app; p != nil {
		s.Holder, s.HeldS, s.Revoking = p.name, (a.now - a.turn.since).Seconds(), a.turn.revoked
	}
	for _, p := range a.apps {
		s.Stragglers += p.stragglers
		s.Apps = append(s.Apps, a.statusOf(p, p.state()))
	}
	for i := len(a.left) - 1; i >= 0; i-- {
		s.Apps = append(s.Apps, a.left[i])
	}
	return s
}

func (p *app) state() string {
	switch {
	case p.grants > 0:
		return "holds"
	case len(p.bursts) > 0:
		return "waits"
	}
	return "idle"
}

func (a *Arbiter) statusOf(p *app, state string) AppStatus {
	t := p.stats
	s := AppStatus{
		App: p.name, User: p.user.name, State: state, Connections: p.conns,
		Granted: p.grants, Waiting: len(p.bursts) - p.grants,
		Requests: t.requests, Aggregates: t.aggregates, Aggregated: t.aggregated, Largest: t.largest, Last: t.last,
		Windows: t.windows, Revokes: t.revokes, Evictions: t.evictions, Bytes: t.bytes, Served: t.flows,
		WaitS: t.wait.Seconds(), LongestWaitS: t.longestWait.Seconds(), HeldS: t.held.Seconds(),
		FlowS: t.flow.Seconds(), MaxFlowS: t.maxFlow.Seconds(),
	}
	if p.waiting {
		s.WaitS += (a.now - p.waitFrom).Seconds()
		s.LongestWaitS = max(s.LongestWaitS, (a.now - p.waitFrom).Seconds())
	}
	if t.alone > 0 {
		s.Stretch = t.flow.Seconds() / t.alone.Seconds()
	}
	for _, b := range p.bursts {
		s.Kind = b.kind
		if b.bytes < 0 {
			s.Remaining = -1
			break
		}
		s.Remaining = min(s.Remaining+max(0, b.bytes-b.moved), maxBytes)
	}
	return s
}
