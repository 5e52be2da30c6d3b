package iosched

import (
	"math"
	"time"
)

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
