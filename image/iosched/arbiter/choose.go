package arbiter

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
func (a *Arbiter) window(p *app) time.Duration {
	if a.o.Policy == "mlf" {
		return max(1, a.o.Window>>max(0, mlfLevels-p.level))
	}
	return a.o.Window
}

// overdue reports whether an application has waited too long.
func (a *Arbiter) overdue(p *app) bool {
	return p.waiting && a.now-p.waitFrom >= a.o.MaxWait
}

// choose returns the application that goes first, or nil. Preempting says that somebody
// asks within a window: then those that are overdue have no privilege.
func (a *Arbiter) choose(preempting bool) *app {
	hold := a.turn.app
	var list []*app
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

func (a *Arbiter) longestOverdue(list []*app) (best *app) {
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
func (a *Arbiter) best(list []*app, hold *app) (best *app) {
	if a.o.Policy == "wsjf" {
		list = a.firstOfUsers(list)
	}
	var least float64
	for _, p := range list {
		c := a.cost(p)
		if p == hold {
			c *= a.advantage()
		}
		if best == nil || c < least || c == least && p.order() < best.order() {
			best, least = p, c
		}
	}
	return best
}

// advantage is the factor for the cost of the holder.
func (a *Arbiter) advantage() float64 {
	if a.preempts() {
		return holderFactor
	}
	return 1
}

// cost is what a policy has the least of first.
func (a *Arbiter) cost(p *app) float64 {
	switch a.o.Policy {
	case "rr":
		if !p.waiting { // It goes to the end of the line.
			return math.Inf(1)
		}
		return float64(p.waitFrom)
	case "srpt":
		return a.remaining(p)
	case "mlf":
		return float64(min(p.level, mlfLevels))
	case "wsjf":
		return a.remaining(p)/p.user.share + p.user.account - a.leastAccount()
	}
	return float64(p.order())
}

// order is the place in line of an application: its first burst has it.
func (p *app) order() uint64 {
	least := uint64(math.MaxUint64)
	for _, b := range p.bursts {
		least = min(least, b.order)
	}
	return least
}

// firstOfUsers leaves one application of each user: the one with the least left
// to move over its weight.
func (a *Arbiter) firstOfUsers(list []*app) (firsts []*app) {
	index := map[*user]int{}
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

func (a *Arbiter) weighted(p *app) float64 {
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
