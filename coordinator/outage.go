package coordinator

import (
	"slices"
	"time"
)

// An outage is one failure, from the death of ranks until all that have to be
// restarted for it compute again. Ranks of one node that die while none of them
// has come back count as one failure of that node.
type outage struct {
	since  time.Duration
	until  time.Duration // 0: it lasts
	node   int           // -1 if no node is behind it
	iter   int           // about where the ranks were
	groups []int         // that died
	down   []int         // groups that do not compute yet
	back   []int         // groups that were begun again since
	ranks  int           // restarted, however often
	lost   int           // iterations that these repeat, together
	lostBy map[int]int   // by group, those that each of its ranks repeats
}

// outages are the failures of a run, in order.
type outages []*outage

// died notes that a rank of a group died, and all ranks of the group with it.
func (all *outages) died(group, node, iter int, now time.Duration) {
	for _, o := range *all {
		if o.until == 0 && o.node == node && node >= 0 && !slices.Contains(o.groups, group) && !slices.Contains(o.back, group) {
			o.groups, o.down = append(o.groups, group), append(o.down, group)
			return
		}
	}
	*all = append(*all, &outage{since: now, node: node, iter: iter, groups: []int{group}, down: []int{group}, lostBy: map[int]int{}})
}

// of returns the last outage that still keeps one of the groups down, nil if there
// is none.
func (all outages) of(groups ...int) *outage {
	for _, o := range slices.Backward(all) {
		if slices.ContainsFunc(groups, func(g int) bool { return slices.Contains(o.down, g) }) {
			return o
		}
	}
	return nil
}

// lost returns how many iterations further behind its failure a group begins at
// iter: than where it was, or than where it could not be begun before.
func (all outages) lost(group, iter int) int {
	if o := all.of(group); o != nil {
		return max(0, o.iter-o.lostBy[group]-iter)
	}
	return 0
}

// restarts notes that the ranks of a group begin again, lost iterations behind
// where they were: for it failed, or, on account of the failure of others, goes
// back with them. Where a checkpoint turns out to be unusable, they are restarted
// once, and what they lose adds up.
func (all outages) restarts(group int, failed []int, ranks, lost int) {
	o := all.of(group)
	if o == nil {
		if o = all.of(failed...); o == nil {
			return
		}
		o.down = append(o.down, group)
	}
	for _, o := range all {
		if o.until == 0 {
			o.back = append(o.back, group)
		}
	}
	if _, before := o.lostBy[group]; !before {
		o.ranks += ranks
	}
	o.lostBy[group] += lost
	o.lost += ranks * lost
}

// computes notes that all ranks of a group compute.
func (all outages) computes(group int, now time.Duration) {
	for _, o := range all {
		o.down = slices.DeleteFunc(o.down, func(g int) bool { return g == group })
		if len(o.down) == 0 && o.until == 0 {
			o.until = now
		}
	}
}

// sum puts the failures into the result of the run.
func (all outages) sum(r *Result, now time.Duration) {
	r.Failures = len(all)
	r.Restarts, r.WorkLost, r.Recovery = []int{}, []int{}, []float64{}
	for _, o := range all {
		if o.ranks == 0 {
			continue
		}
		if o.until == 0 {
			o.until = now
		}
		r.Restarts, r.WorkLost = append(r.Restarts, o.ranks), append(r.WorkLost, o.lost)
		r.Recovery = append(r.Recovery, (o.until - o.since).Seconds())
	}
}
