package life

import (
	"math"
	"math/rand/v2"
)

// outages are times at which the storage that all share is away.
type outages struct {
	m          *Machine
	rng        *rand.Rand
	start, end float64 // of the present one or the next; +Inf without any
}

func (m *Machine) outages(rng *rand.Rand) outages {
	o := outages{m: m, rng: rng, start: math.Inf(1), end: math.Inf(1)}
	if m.StoreMTBF > 0 {
		o.end = 0
		o.after(0)
	}
	return o
}

// after goes on to the outage that ends after a time.
func (o *outages) after(now float64) {
	for o.end <= now {
		o.start = o.end + o.rng.ExpFloat64()*o.m.StoreMTBF
		o.end = o.start + o.m.StoreRepair
	}
}

// inStore lets time pass that needs the storage, and waits while it is away.
func (r *run) inStore(seconds float64, cause Cause) bool {
	for {
		if r.outages.after(r.now); r.now >= r.outages.start {
			if !r.spend(r.outages.end-r.now, Outage) {
				return false
			}
			continue
		}
		speed := 1.0
		if r.moving {
			speed = r.beside.speed()
		}
		step := min(seconds/speed, r.outages.start-r.now)
		if r.moving {
			step = min(step, r.beside.until(true))
		}
		from := r.now
		ok := r.spend(step, cause)
		slowed := (r.now - from) * (1 - speed)
		r.life.By[cause] -= slowed
		r.life.By[Contention] += slowed
		if !ok {
			return false
		}
		if seconds -= step * speed; seconds <= 1e-12*step {
			return true
		}
	}
}

// move is inStore of bytes that share the storage with other jobs.
func (r *run) move(seconds float64, cause Cause) bool {
	r.moving = true
	defer func() { r.moving = false }()
	return r.inStore(seconds, cause)
}

// read is a restart from the last level, of which Read shares the storage with other jobs.
func (r *run) read(seconds float64, cause Cause) bool {
	read := min(seconds, r.Levels[len(r.Levels)-1].Read)
	return r.inStore(seconds-read, cause) && r.move(read, cause)
}

// requeue stops a job at the end of its allocation: it stores a checkpoint, and resumes in the next
// allocation. Failures meanwhile strike others.
func (r *run) requeue() bool {
	stop := r.stopTime()
	if !r.move(stop, Checkpoints) {
		return false
	}
	r.taken()
	if r.tier != nil {
		r.life.Drained++
		r.stopDrain()
		r.leaveAll()
	}
	for l := range r.at {
		r.at[l] = r.pos
	}
	r.pass(r.Queue, Queue)
	for r.upcoming.at < r.now {
		r.upcoming = r.spares.next(r.src)
	}
	r.stopAt = r.now + r.Walltime - stop
	return r.read(r.Levels[len(r.Levels)-1].Restart, Restart)
}

// requeue is the same of groups, which all stop and resume.
func (c *crowd) requeue() {
	stop := c.stopTime()
	restart := c.resumeTime()
	c.shift(stop, Checkpoints, math.Inf(1))
	c.shift(c.Queue, Queue, math.Inf(1))
	c.shift(restart, Restart, math.Inf(1))
	resumes := c.stopAt + stop + c.Queue
	for c.upcoming.at < resumes {
		c.upcoming = c.spares.next(c.src)
	}
	c.resumed = resumes + restart
	c.stopAt = resumes + c.Walltime - stop
	c.stops++
}

// shift delays all groups but those that went back and are not where they were until a time: what
// these wait for, they wait for meanwhile.
func (c *crowd) shift(seconds float64, cause Cause, but float64) {
	if seconds <= 0 {
		return
	}
	worst := c.worst.sum
	c.others.add(seconds, cause)
	c.worst.add(seconds, cause)
	stays := map[int]bool{}
	for i := range c.back {
		r := &c.back[i]
		if r.until >= but {
			stays[r.group] = true
			continue
		}
		r.until += seconds
		r.since += seconds
		r.late.add(seconds, cause)
	}
	next := c.others
	for g, l := range c.lags {
		if !stays[g] {
			l.add(seconds, cause)
			c.lags[g] = l
		}
		if l.sum > next.sum {
			next = l
		}
	}
	if len(stays) > 0 && next.sum < worst+seconds {
		c.worst = next
	}
	for i := range c.holds {
		if h := &c.holds[i]; h.until < but {
			h.until += seconds
			h.lag.add(seconds, cause)
		}
	}
}

// due is when an outage of the storage begins to delay the groups. Groups that store together wait
// when it is time to store; of spread ones some do soon, and the others when they are ahead by the
// slack. Simulate refuses groups whose checkpoints go to nodes first.
func (c *crowd) due(start float64) float64 {
	if c.Spread {
		return start + c.Slack + c.Interval/float64(c.Groups)
	}
	own := start - c.others.sum
	if in := own - math.Floor(own/c.pace.per())*c.pace.per(); in < c.Interval {
		return start + c.Interval - in
	}
	return start
}
