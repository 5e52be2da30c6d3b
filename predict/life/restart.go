package life

import (
	"math"
	"slices"
)

// restart brings a job back that has failed: as often as failures strike meanwhile.
func (r *run) restart() {
	r.stopDrain()
	reached, level := r.pos, 0
	for again := true; again && !r.stuck(); {
		level = max(level, r.strike())
		r.wait(&level, r.now+r.m.Detect, Detection)
		for !r.stuck() {
			out, until := r.spares.missing(r.now)
			if out == 0 || r.Shrink && out <= r.Nodes/2 {
				break
			}
			r.wait(&level, until, NoNode)
		}
		level = r.survivor(level)
		l := &r.Levels[level]
		seconds := l.Restart
		if len(r.lost) > 0 {
			seconds += l.Rebuild
		}
		in := r.spend
		if level == len(r.Levels)-1 {
			in = r.read
		}
		again = !in(seconds, Restart)
	}
	r.goBack(level)
	r.life.Restarts++
	r.life.Deepest = max(r.life.Deepest, reached-r.pos)
	r.life.Lost += reached - r.pos
	if level == len(r.Levels)-1 {
		r.life.FromLast++
	}
	if r.restored = r.now; len(r.lost) > 0 {
		r.restored += r.Levels[0].Restored
	}
}

// stopDrain ends a drain whose ranks have died; the ledger has it begin again.
func (r *run) stopDrain() {
	if r.drains() {
		r.tier.ledger.DrainFailed(r.tier.draining, r.clock())
		r.tier.draining, r.tier.left = 0, 0
	}
}

// goBack resumes from the newest checkpoint of a level or further, which the nearer levels then
// have as well. Nodes that were restored from the store have none until the next checkpoint.
func (r *run) goBack(level int) {
	if r.tier == nil {
		r.pos = slices.Max(r.at[level:])
		for l := range level + 1 {
			r.at[l] = r.pos
		}
		return
	}
	if r.pos = r.at[level]; level > 0 {
		r.leaveAll()
	}
}

// leaveAll sets aside what the nodes have.
func (r *run) leaveAll() {
	for _, e := range r.tier.ledger.Entries() {
		r.tier.ledger.Leave(e.Number)
	}
	r.reclaim()
	r.tier.has = false
}

// strike takes in the failure that has come, and returns the level that it needs.
func (r *run) strike() int {
	f := r.upcoming
	if !f.together {
		r.life.Failures++
	}
	if r.now >= r.restored {
		r.forget()
	}
	if f.lost {
		lost, _ := r.spares.lose(f.at, f.node, f.count)
		r.life.LostNodes += lost
		place := r.m.place(f.node, r.Nodes)
		r.lost[place] = true
		if r.tier != nil {
			r.tier.ledger.NodeLost(place)
		}
	}
	r.upcoming = r.spares.next(r.src)
	r.restored = math.Inf(1) // until the ranks compute again
	for l := range r.Levels {
		if x := &r.Levels[l]; l == len(r.Levels)-1 || x.OnNodes || f.severity < x.Share {
			return l
		}
	}
	panic("unreachable: the last level survives")
}

// survivor is the nearest level from one on that has a checkpoint in spite of all lost nodes.
func (r *run) survivor(from int) int {
	for l := from; l < len(r.Levels)-1; l++ {
		if x := &r.Levels[l]; !x.OnNodes || len(r.lost) <= x.Strength && (r.tier == nil || r.tier.has) {
			return l
		}
	}
	return len(r.Levels) - 1
}

// wait lets time pass until a time. Failures that strike meanwhile are noticed with the first.
func (r *run) wait(level *int, until float64, cause Cause) {
	for r.upcoming.at < until {
		r.pass(max(0, r.upcoming.at-r.now), cause)
		if r.stuck() {
			return
		}
		*level = max(*level, r.strike())
	}
	r.pass(max(0, until-r.now), cause)
}

// forget says that what lost nodes had is whole again on others.
func (r *run) forget() {
	clear(r.lost)
	if r.tier != nil {
		for _, e := range r.tier.ledger.Entries() {
			r.tier.ledger.Restored(e.Number)
		}
	}
}

// stuck reports whether the job fails far more often than it gets further by an interval.
func (r *run) stuck() bool {
	return float64(r.life.Failures) > min(maxFailures, stuckFailures*(1+r.frontier/r.Interval))
}
