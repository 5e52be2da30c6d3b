package arbiter

import "time"

// Status is what an Arbiter knows at one time, as `ckpt storage status` shows
// it. Times are in seconds.
type Status struct {
	Unit     string  `json:"unit"`
	Policy   string  `json:"policy"`
	UptimeS  float64 `json:"uptime_s"`
	WindowS  float64 `json:"window_s"`
	LeaseS   float64 `json:"lease_s"`
	MaxWaitS float64 `json:"max_wait_s"`
	// Holder is the name of the application with the turn, as in Apps.
	Holder string `json:"holder,omitempty"`
	// HeldS is how long the turn has lasted.
	HeldS float64 `json:"held_s,omitempty"`
	// Revoking: the turn was revoked, and bursts of it are not released yet.
	Revoking bool `json:"revoking,omitempty"`
	// Windows counts the windows given, Turns the changes to another
	// application, Revokes and Evictions the bursts concerned.
	Windows   int64 `json:"windows"`
	Turns     int64 `json:"turns"`
	Revokes   int64 `json:"revokes"`
	Evictions int64 `json:"evictions"`
	// Stragglers counts evicted bursts that may still use the unit.
	Stragglers int   `json:"stragglers"`
	Bytes      int64 `json:"bytes"`
	// BusyS is how long somebody had a turn.
	BusyS float64 `json:"busy_s"`
	// Apps has those that are connected, in the order of their coming, then those that
	// have left, the newest first.
	Apps []AppStatus `json:"apps"`
}

// AppStatus is what an Arbiter knows of one application.
type AppStatus struct {
	App  string `json:"app"`
	User string `json:"user"`
	// State is "holds", "waits", "idle" (no burst) or "left".
	State       string `json:"state"`
	Kind        string `json:"kind,omitempty"`
	Connections int    `json:"connections"`
	// Waiting and Granted count bursts.
	Waiting int `json:"waiting"`
	Granted int `json:"granted"`
	// Remaining is the number of bytes that its bursts have left; -1 if a
	// burst did not say.
	Remaining int64 `json:"remaining_bytes"`
	// Requests counts the bursts asked for.
	Requests int64 `json:"requests"`
	// Aggregates counts the times that several bursts were granted together,
	// Aggregated the bursts in them; Largest and Last are numbers of bursts.
	Aggregates int64 `json:"aggregates"`
	Aggregated int64 `json:"aggregated"`
	Largest    int   `json:"largest_aggregate"`
	Last       int   `json:"last_aggregate"`
	Windows    int64 `json:"windows"`
	Revokes    int64 `json:"revokes"`
	Evictions  int64 `json:"evictions"`
	Bytes      int64 `json:"bytes"`
	// Served counts the times from a first Ask to the end of all bursts.
	Served int64 `json:"served"`
	// WaitS is how long the application waited without a turn in all,
	// LongestWaitS the longest time at once, HeldS how long it had turns.
	WaitS        float64 `json:"wait_s"`
	LongestWaitS float64 `json:"longest_wait_s"`
	HeldS        float64 `json:"held_s"`
	// FlowS is the sum of the flow times of what was served, MaxFlowS the
	// longest. Stretch is flow time over the time that the same bytes take
	// alone; 0 if that is not known.
	FlowS    float64 `json:"flow_s"`
	MaxFlowS float64 `json:"max_flow_s"`
	Stretch  float64 `json:"stretch"`
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
func (a *Arbiter) waited(p *app) {
	a.waits(p, &p.status)
	p.waiting = false
}

// waits counts the wait of an application so far.
func (a *Arbiter) waits(p *app, s *AppStatus) {
	if p.waiting {
		wait := (a.now - p.waitFrom).Seconds()
		s.WaitS += wait
		s.LongestWaitS = max(s.LongestWaitS, wait)
	}
}

// alone estimates how many seconds the bursts of an application, now over, take alone:
// at the rate of the unit, or as long as they had turns.
func (a *Arbiter) alone(p *app) float64 {
	if p.served == 0 || a.rate.time == 0 {
		return p.held.Seconds()
	}
	return min(p.held.Seconds(), float64(p.served)/a.rate.perSecond)
}

// Status tells what the Arbiter knows.
func (a *Arbiter) Status(now time.Duration) Status {
	a.advance(now)
	s := a.status
	s.Unit, s.Policy, s.UptimeS = a.unit, a.o.Policy, (a.now - a.began).Seconds()
	s.WindowS, s.LeaseS, s.MaxWaitS = a.o.Window.Seconds(), a.o.Lease.Seconds(), a.o.MaxWait.Seconds()
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
	s := p.status
	s.App, s.User, s.State, s.Connections = p.name, p.user.name, state, p.conns
	s.Granted, s.Waiting = p.grants, len(p.bursts)-p.grants
	a.waits(p, &s)
	if p.alone > 0 {
		s.Stretch = s.FlowS / p.alone
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
