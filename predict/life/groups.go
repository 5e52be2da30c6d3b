package life

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// A crowd is the life of a job of groups. Groups that nothing happened to are all alike, and get
// on at one pace; those that failed are late by a lag. So a life costs what its failures cost,
// whatever the number of groups, ranks and checkpoints.
//
// A group that went back repeats its work from the messages that others have kept, while they get
// on by the slack: then they wait until it is where it was. So a failure delays its group by all
// that it takes, and the others by what that is more than the slack.
type crowd struct {
	*Job
	m        *Machine
	src      source
	upcoming failure
	life     Life
	pace     pace
	whole    float64
	others   lag // of all groups that have none of their own
	worst    lag
	lags     map[int]lag
	back     []recovery // of groups that went back, few at a time
	holds    []hold     // in the order of their positions
	losses   []loss
	reading  []float64 // until when groups read
	spares   spares
	outages  outages
	watch    func(Moment)
	stopAt   float64 // end of the allocation, less the checkpoint before
	resumed  float64 // when the allocation began, 0 for the first
	stops    int     // at the ends of allocations
	returns  float64 // end of the last outage of the storage
	waits    float64 // when groups began to wait for it
}

// A lag is how much later than at the pace a group is, and what for.
type lag struct {
	sum float64
	by  [causes]float64
}

func (l *lag) add(seconds float64, c Cause) {
	l.sum += seconds
	l.by[c] += seconds
}

// scaled is a lag of another length for the same reasons.
func (l lag) scaled(sum float64) lag {
	factor := sum / max(l.sum, 1e-300)
	l.sum = sum
	for c := range l.by {
		l.by[c] *= factor
	}
	return l
}

// A recovery takes a group from a position back to it.
type recovery struct {
	group        int
	pos, from    float64
	since, until float64
	late         lag // when it began
}

// A hold keeps others from getting further than a position until a time.
type hold struct {
	at, until float64
	lag       lag // that the others have at least afterwards
}

// A loss is of nodes whose directories are not whole elsewhere before some time.
type loss struct{ until float64 }

func newCrowd(j *Job, m *Machine, src source, rng *rand.Rand) *crowd {
	c := &crowd{outages: m.outages(rng), stopAt: math.Inf(1), Job: j, m: m, src: src, pace: j.pace(), whole: j.Work / (1 - j.Slowdown), lags: lagsOf.Get().(map[int]lag), spares: newSpares(m)}
	if j.Walltime > 0 {
		c.stopAt = j.Walltime - j.stopTime()
	}
	c.upcoming = src.next()
	return c
}

// lagsOf keeps the memory of one life for the next: maps that grew again in each took half the time
// of a simulation.
var lagsOf = sync.Pool{New: func() any { return map[int]lag{} }}

// run lives the life, once.
func (c *crowd) run() (*Life, error) {
	defer func() {
		clear(c.lags)
		lagsOf.Put(c.lags)
		c.lags = nil
	}()
	for {
		end := c.pace.when(c.whole) + c.worst.sum
		if next := min(c.upcoming.at, c.stopAt, end); c.outages.start < next {
			c.returns, c.waits = c.outages.end, math.Inf(1)
			c.retire(c.outages.start)
			if due := c.due(c.outages.start); min(due, c.returns) < next {
				c.shift(c.returns-due, Outage, c.returns)
				c.outages.after(c.returns)
				c.waits = due
				continue
			}
		}
		if c.stopAt < min(c.upcoming.at, end) {
			c.requeue()
			continue
		}
		if c.upcoming.at >= end {
			break
		}
		f := c.upcoming
		c.report(f.at)
		c.fail(f)
		c.upcoming = c.spares.next(c.src)
		done := c.pace.where(f.at - c.worst.sum)
		if float64(c.life.Failures) > min(maxFailures, stuckFailures*(1+done/c.Interval)) {
			return nil, &StuckError{Failures: c.life.Failures, Done: min(1, done/c.whole)}
		}
	}
	l, p := &c.life, &c.pace
	l.End = p.when(c.whole) + c.worst.sum
	l.By = c.spent(c.whole, &c.worst)
	rounds := int(max(0, math.Ceil(c.whole/c.Interval-1e-9)-1))
	l.Checkpoints = rounds + c.stops
	if c.tiered() {
		l.Drained = rounds/max(1, c.Levels[1].Every) + c.stops
	}
	return l, nil
}

// spent is what the time of a group went to until it was at a position.
func (c *crowd) spent(pos float64, late *lag) (by [causes]float64) {
	p := &c.pace
	by = late.by
	by[Work] += pos * (1 - c.Slowdown)
	by[Logs] += pos * c.Slowdown
	pauses := (p.when(pos) - pos) / max(p.pause(), 1e-300)
	for cause, seconds := range map[Cause]float64{Checkpoints: p.own, Contention: p.contention, Room: p.room, Held: p.held, Drain: p.drain} {
		by[cause] += pauses * seconds
	}
	return by
}

func (c *crowd) tiered() bool { return c.Levels[len(c.Levels)-1].Drain > 0 }

// members are the groups that a failure sends back: all of the nodes that it strikes, or the group
// of the process that it kills.
func (c *crowd) members(f *failure) (first, count int) {
	of := func(node int) int { return int(int64(node) * int64(c.Groups) / int64(c.Nodes)) }
	first = of(f.node)
	switch n := of(f.node+f.count) - first; {
	case n <= 1: // groups of nodes, or of several of them
		return first, 1
	case f.lost:
		return first, n
	default:
		return first + min(n-1, int(f.severity*float64(n))), 1
	}
}

// fail sends groups back.
func (c *crowd) fail(f failure) {
	if !f.together {
		c.life.Failures++
	}
	c.life.Restarts++
	first, count := c.members(&f)
	level := c.level(&f)
	start := f.at + c.m.Detect
	wait := 0.0
	if f.lost {
		lost, until := c.spares.lose(f.at, f.node, f.count)
		c.life.LostNodes += lost
		wait = max(0, until-start)
	}
	away := 0.0
	if level == len(c.Levels)-1 {
		c.life.FromLast++
		away = max(0, c.returns-start-wait)
	}
	c.reading = slices.DeleteFunc(c.reading, func(until float64) bool { return until <= start+wait+away })
	l := &c.Levels[level]
	alone := l.Restart
	if f.lost {
		alone += l.Rebuild
	}
	read := l.Read
	if f.lost && l.ReadLost > 0 {
		read = l.ReadLost
	}
	among := len(c.reading) + count
	if c.Spread && !c.Levels[0].OnNodes {
		among += c.pace.writers
	}
	contention := read * (c.stretch(among) - 1)
	for range count {
		c.reading = append(c.reading, start+wait+away+alone+contention)
	}
	h := hold{at: math.Inf(1)}
	for g := first; g < first+count; g++ {
		late := c.lagOf(g)
		r := c.recovery(g)
		if r.until > f.at { // what it had done is done again
			late = r.late
			late.add(f.at-r.since, Restart)
		} else {
			if c.waits <= f.at && f.at < c.returns { // it has waited until now only
				late.add(f.at-c.returns, Outage)
			}
			r.pos = c.position(&late, f.at)
			r.from = r.pos
		}
		r.since, r.late = f.at, late
		r.from = min(r.from, c.saved(level, g, f.at-late.sum))
		if c.resumed > 0 { // all have what was stored before the end of the last allocation
			r.from = max(r.from, min(r.pos, c.pace.where(c.resumed-late.sum)))
		}
		lost := r.pos - r.from
		late.add(c.m.Detect, Detection)
		late.add(wait, NoNode)
		late.add(away, Outage)
		late.add(alone, Restart)
		late.add(contention, Contention)
		late.add(lost/max(1, c.Replay), Rework)
		r.until = c.pace.when(r.pos) + late.sum
		c.lags[g] = late
		c.life.Deepest = max(c.life.Deepest, lost)
		c.life.Lost += lost
		if late.sum > c.worst.sum {
			c.worst = late
		}
		if h.at > r.pos+c.Slack {
			h.at = r.pos + c.Slack
		}
		if r.until > h.until {
			h.until, h.lag = r.until, late.scaled(max(0, late.sum-c.pace.ahead()))
		}
	}
	if f.lost && level < len(c.Levels)-1 {
		c.losses = append(c.losses, loss{h.until + c.Levels[0].Restored})
	}
	if h.at < c.whole {
		at, _ := slices.BinarySearchFunc(c.holds, h.at, func(h hold, at float64) int { return cmp.Compare(h.at, at) })
		c.holds = slices.Insert(c.holds, at, h)
	}
	c.retire(f.at)
}

// recovery is a group's, a new one if it has none. It is valid until the next call.
func (c *crowd) recovery(group int) *recovery {
	for i := range c.back {
		if r := &c.back[i]; r.group == group {
			return r
		}
	}
	c.back = append(c.back, recovery{group: group})
	return &c.back[len(c.back)-1]
}

// level is the nearest that has checkpoints after a failure.
func (c *crowd) level(f *failure) int {
	if !c.Levels[0].OnNodes {
		return len(c.Levels) - 1
	}
	if !f.lost {
		return 0
	}
	c.losses = slices.DeleteFunc(c.losses, func(l loss) bool { return l.until <= f.at })
	if len(c.losses)+1 > c.Levels[0].Strength {
		c.losses = nil
		return len(c.Levels) - 1
	}
	return 0
}

// saved is the position of the newest checkpoint of a level that a group has at a time of its own.
func (c *crowd) saved(level, group int, t float64) float64 {
	part := float64(group) / float64(c.Groups)
	if level == 0 {
		return c.pace.saved(t, part, 0, 1)
	}
	return c.pace.saved(t, part, c.Levels[level].Drain, max(1, c.Levels[level].Every))
}

// lagOf is a group's.
func (c *crowd) lagOf(g int) lag {
	if l, ok := c.lags[g]; ok && l.sum > c.others.sum {
		return l
	}
	delete(c.lags, g)
	return c.others
}

// position is that of a group at a time, if nothing keeps it back but holds. It brings its lag up to
// date.
func (c *crowd) position(late *lag, now float64) float64 {
	pos := min(c.whole, c.pace.where(now-late.sum))
	for i := range c.holds {
		h := &c.holds[i]
		if pos <= h.at {
			break
		}
		if now < h.until {
			late.add(now-c.pace.when(h.at)-late.sum, Held)
			return h.at
		}
		if h.lag.sum > late.sum {
			*late = h.lag
		}
		pos = max(h.at, min(c.whole, c.pace.where(now-late.sum)))
	}
	if early := now - late.sum - c.pace.when(pos); early > 0 && pos < c.whole { // in a checkpoint, which is begun again
		late.add(early, Rework)
	}
	return pos
}

// retire takes in what the holds that are over have done to the others.
func (c *crowd) retire(now float64) {
	c.holds = slices.DeleteFunc(c.holds, func(h hold) bool {
		if h.until <= c.pace.when(h.at)+c.others.sum && h.lag.sum <= c.others.sum {
			return true // it is over before anybody comes there
		}
		if h.until > now || c.pace.where(now-max(c.others.sum, h.lag.sum)) < h.at && h.at < c.whole {
			return false
		}
		if h.lag.sum > c.others.sum {
			c.others = h.lag
		}
		return true
	})
	c.back = slices.DeleteFunc(c.back, func(r recovery) bool { return r.until <= now })
	if c.others.sum > c.worst.sum {
		c.worst = c.others
	}
}
