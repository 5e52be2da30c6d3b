package iosched

import (
	"math"
	"time"
)

// Status is what an Arbiter knows at one time, as `ckpt storage status` shows it. Times are in
// seconds.
type Status struct {
	Unit    string  `json:"dir"`
	Policy  string  `json:"policy"`
	Uptime  float64 `json:"uptime_s"`
	Window  float64 `json:"window_s"`
	Lease   float64 `json:"lease_s"`
	MaxWait float64 `json:"max_wait_s"`
	// Holder is the application with the turn, as in Apps; it has lasted for Held. Revoked: it
	// is wanted back, and some of its bursts are still granted.
	Holder  string  `json:"turn_holder"`
	Held    float64 `json:"turn_held_s"`
	Revoked bool    `json:"turn_revoked"`
	// Windows counts the windows given, Turns the changes to another application, Revocations and
	// Evictions the bursts concerned, Stragglers the evicted bursts that may still use the unit.
	Windows     int64 `json:"windows"`
	Turns       int64 `json:"turns"`
	Revocations int64 `json:"revocations"`
	Evictions   int64 `json:"evictions"`
	Stragglers  int   `json:"evicted_bursts"`
	Bytes       int64 `json:"bytes"`
	// Busy is how long applications had turns.
	Busy float64 `json:"turn_busy_s"`
	// Apps has those that are connected, in the order of their coming, then those that have left,
	// the newest first.
	Apps []AppStatus `json:"application_list"`
}

// AppStatus is what an Arbiter knows of one application.
type AppStatus struct {
	App  string `json:"name"`
	User string `json:"user"`
	// State is "holds", "waits", "idle" (no burst) or "left".
	State       string `json:"turn_state"`
	Kind        string `json:"burst_kind"`
	Connections int    `json:"connections"`
	Waiting     int    `json:"waiting_bursts"`
	Granted     int    `json:"granted_bursts"`
	// Remaining is how many bytes its bursts have left; nil if a burst did not say.
	Remaining *int64 `json:"remaining_bytes"`
	// Requests counts the bursts asked for, Aggregates the times that several of them were granted
	// together, Aggregated the bursts in these, Largest and Last the bursts of one such time.
	Requests    int64 `json:"turn_requests"`
	Aggregates  int64 `json:"aggregates"`
	Aggregated  int64 `json:"aggregated_requests"`
	Largest     int   `json:"largest_aggregate"`
	Last        int   `json:"last_aggregate"`
	Windows     int64 `json:"windows"`
	Revocations int64 `json:"revocations"`
	Evictions   int64 `json:"evictions"`
	Bytes       int64 `json:"bytes"`
	// Waited is how long the application waited without a turn in all, LongestWait the longest
	// time at once, Held how long it had turns.
	Waited      float64 `json:"turn_wait_s"`
	LongestWait float64 `json:"longest_wait_s"`
	Held        float64 `json:"turn_held_s"`
	// Flows counts the times from a first Ask to the end of all bursts. FlowTime is the mean of
	// these times, and Stretch their sum over the time that the same bytes take alone; nil if
	// unknown.
	Flows       int64    `json:"flows"`
	FlowTime    *float64 `json:"flow_time_s"`
	LongestFlow *float64 `json:"longest_flow_time_s"`
	Stretch     *float64 `json:"stretch"`
}

// granted notes that n bursts were granted together.
func (s *AppStatus) granted(n int) {
	s.Last = n
	if n > 1 {
		s.Aggregates++
		s.Aggregated += int64(n)
		s.Largest = max(s.Largest, n)
	}
}

// waited notes that the wait of an application is over.
func (a *Arbiter) waited(p *applicant) {
	a.waits(p, &p.status)
	p.waiting = false
}

// waits counts the wait of an application so far.
func (a *Arbiter) waits(p *applicant, s *AppStatus) {
	if p.waiting {
		wait := (a.now - p.waitFrom).Seconds()
		s.Waited += wait
		s.LongestWait = max(s.LongestWait, wait)
	}
}

// alone estimates how many seconds the bursts of an application, now over, take alone:
// at the rate of the unit, or as long as they had turns.
func (a *Arbiter) alone(p *applicant) float64 {
	if p.served == 0 || a.rate.time == 0 {
		return p.held.Seconds()
	}
	return min(p.held.Seconds(), float64(p.served)/a.rate.perSecond)
}

// Status tells what the Arbiter knows.
func (a *Arbiter) Status(now time.Duration) Status {
	a.advance(now)
	s := a.status
	s.Unit, s.Policy, s.Uptime, s.Apps = a.unit, a.o.Policy, (a.now - a.began).Seconds(), []AppStatus{}
	s.Window, s.Lease, s.MaxWait = a.o.Window.Seconds(), a.o.Lease.Seconds(), a.o.MaxWait.Seconds()
	if p := a.turn.app; p != nil {
		s.Holder, s.Held, s.Revoked = p.name, (a.now - a.turn.since).Seconds(), a.turn.revoked
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

func (p *applicant) state() string {
	switch {
	case p.grants > 0:
		return "holds"
	case len(p.bursts) > 0:
		return "waits"
	}
	return "idle"
}

func (a *Arbiter) statusOf(p *applicant, state string) AppStatus {
	s := p.status
	s.App, s.User, s.State, s.Connections = p.name, p.user.name, state, p.conns
	s.Granted, s.Waiting = p.grants, len(p.bursts)-p.grants
	a.waits(p, &s)
	if s.Flows > 0 {
		mean, longest := p.flow/float64(s.Flows), p.longestFlow
		s.FlowTime, s.LongestFlow = &mean, &longest
	}
	if p.alone > 0 {
		stretch := p.flow / p.alone
		s.Stretch = &stretch
	}
	left := int64(0)
	for _, b := range p.bursts {
		s.Kind = b.kind
		if b.bytes < 0 {
			return s
		}
		left = min(left+max(0, b.bytes-b.moved), maxBytes)
	}
	s.Remaining = &left
	return s
}

// A rate is the rate of the unit, as seen while one application had it.
type rate struct {
	perSecond float64
	bytes     float64
	time      time.Duration
	app       *applicant
	from      time.Duration // how long app had been served at its last progress
}

// A unit that moves less than a disk of long ago, or more than any, is one whose clients
// do not say what they move.
const (
	minRate = 1e3
	maxRate = 1e12
)

// moved notes that an application has moved n bytes.
func (r *rate) moved(p *applicant, n int64, solo bool) {
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

// holderFactor is the factor for what the holder has left, where the least goes first. The
// estimates are no better, and each change costs what is under way.
const holderFactor = 0.75

// mlfLevels is how often policy mlf doubles a window.
const mlfLevels = 4

// window returns how long the next window of an application lasts.
func (a *Arbiter) window(p *applicant) time.Duration {
	return max(1, a.o.Window>>max(0, a.policy.levels-p.level))
}

// overdue reports whether an application has waited too long.
func (a *Arbiter) overdue(p *applicant) bool {
	return p.waiting && a.now-p.waitFrom >= a.o.MaxWait
}

// choose returns the application that goes first, or nil. Preempting says that somebody
// asks within a window: then those that are overdue have no privilege.
func (a *Arbiter) choose(preempting bool) *applicant {
	hold := a.turn.app
	var list []*applicant
	for _, p := range a.apps {
		if p == hold && (p.grants > 0 || a.eligible(p)) || p != hold && p != a.skip && a.eligible(p) {
			list = append(list, p)
		}
	}
	if len(list) == 0 && a.skip != nil && a.eligible(a.skip) {
		return a.skip
	}
	if p := a.longestOverdue(list); p != nil && !preempting {
		return p
	}
	return a.best(list, hold)
}

func (a *Arbiter) longestOverdue(list []*applicant) (best *applicant) {
	for _, p := range list {
		if a.overdue(p) && (best == nil || p.waitFrom < best.waitFrom) {
			best = p
		}
	}
	return best
}

// best compares applications by cost; those that are equal go in the order in
// which they asked. The holder has an advantage, so that small differences do
// not cost a change.
func (a *Arbiter) best(list []*applicant, hold *applicant) (best *applicant) {
	if a.policy.users {
		list = a.firstOfUsers(list)
	}
	var least float64
	for _, p := range list {
		c := a.policy.cost(a, p)
		if p == hold && a.policy.preempts {
			c *= holderFactor
		}
		if best == nil || c < least || c == least && p.order() < best.order() {
			best, least = p, c
		}
	}
	return best
}

// A turnPolicy is a policy of turns: the application of the least cost goes first.
type turnPolicy struct {
	cost     func(*Arbiter, *applicant) float64 // nil: all have turns at once
	preempts bool                               // it looks at the others when somebody asks
	users    bool                               // one application of each user is compared
	levels   int                                // how often a window doubles
}

// place is the cost under fifo.
func (a *Arbiter) place(p *applicant) float64 { return float64(p.order()) }

// waitsSince is the cost under rr: who has had its turn goes to the end of the line.
func (a *Arbiter) waitsSince(p *applicant) float64 {
	if !p.waiting {
		return math.Inf(1)
	}
	return float64(p.waitFrom)
}

// windowsUsed is the cost under mlf.
func (a *Arbiter) windowsUsed(p *applicant) float64 { return float64(min(p.level, mlfLevels)) }

// account is the cost under wsjf: what is left, and what the user was given before others.
func (a *Arbiter) account(p *applicant) float64 {
	return a.remaining(p)/p.user.share + p.user.account - a.leastAccount()
}

// order is the place in line of an application: its first burst has it.
func (p *applicant) order() uint64 {
	least := uint64(math.MaxUint64)
	for _, b := range p.bursts {
		least = min(least, b.order)
	}
	return least
}

// firstOfUsers leaves one application of each user: the one with the least left
// to move over its weight.
func (a *Arbiter) firstOfUsers(list []*applicant) (firsts []*applicant) {
	index := map[*account]int{}
	for _, p := range list {
		i, ok := index[p.user]
		if !ok {
			index[p.user] = len(firsts)
			firsts = append(firsts, p)
			continue
		}
		q := firsts[i]
		x, y := a.weighted(p), a.weighted(q)
		if x < y || x == y && p.order() < q.order() {
			firsts[i] = p
		}
	}
	return firsts
}

func (a *Arbiter) weighted(p *applicant) float64 {
	x := a.remaining(p) / p.weight
	if p == a.turn.app {
		x *= holderFactor
	}
	return x
}

// Wake returns when the next Tick is due, if no event comes before.
func (a *Arbiter) Wake() (at time.Duration, ok bool) {
	t, p := &a.turn, a.turn.app
	if p == nil {
		return 0, false
	}
	at = math.MaxInt64
	if t.revoked {
		at = t.revokeEnd
	}
	if p.grants == 0 {
		return t.lingerEnd, t.lingerEnd > 0
	}
	rivals := a.rivals(p)
	if t.revoked || rivals {
		for _, b := range p.bursts {
			if b.granted {
				at = min(at, b.conn.heard+a.o.Lease)
			}
		}
	}
	if rivals && !t.revoked {
		at = min(at, t.windowEnd)
		if p.progressed {
			at = min(at, p.last+a.stall(p))
		}
		if p.idle() {
			at = min(at, p.ended+idlePatience)
		}
	}
	return at, at < math.MaxInt64
}
