package life

import (
	"math"
	"math/rand/v2"
)

// A pace is how fast a job of groups gets on while nothing fails: one interval of running after
// the other, each with the pauses of its checkpoints.
type pace struct {
	interval float64
	write    float64 // a group's checkpoint, among all that write at the same time
	writers  int     // groups that write at the same time
	spread   bool
	slack    float64

	// The pauses of an interval, in seconds: a checkpoint of a group that has the storage alone,
	// what others on the storage add to it, waiting for a slot, waiting for other groups, and what
	// a drain slows the groups down by.
	own, contention, room, held, drain float64
}

// pace is the job's. Groups that store together write all at once. Spread ones write one after the
// other, each at its part of the interval, and others get on by the slack meanwhile:
//
//   - A write that is shorter than the slack holds no other group up.
//   - With less slack than the time between two writes, each write stops the job for the rest.
//   - Else writes within the slack overlap: the job gets on by the slack for each write.
func (j *Job) pace() pace {
	groups := float64(j.Groups)
	stretch := func(n float64) float64 {
		if j.Levels[0].OnNodes {
			return 1
		}
		return j.stretch(int(math.Ceil(n)))
	}
	// Groups agree each by itself; what they store shares the storage.
	agree := j.Levels[0].Agree
	stored := j.Levels[0].Cost - agree + j.Growth*j.Interval/stretch(groups)
	write := func(n float64) float64 { return agree + stored*stretch(n) }
	p := pace{interval: j.Interval, spread: j.Spread, slack: j.Slack, own: write(1)}
	if !j.Spread {
		p.writers, p.write = j.Groups, write(groups)
	} else {
		at, between := j.overlap(write), j.Interval/groups
		if within := max(1, math.Ceil(j.Slack/between)); within < at && write(at) > j.Slack {
			at = within
		}
		p.writers, p.write = int(at), write(at)
		switch {
		case p.write <= j.Slack:
		case between >= j.Slack:
			p.held = (groups - 1) * (p.write - j.Slack)
		default:
			p.held = max(0, j.Interval*(p.write/j.Slack-1)-p.write)
		}
	}
	p.contention = p.write - p.own
	if j.Beside != nil && !j.Spread {
		p.meet(j)
		return p
	}
	if last := &j.Levels[len(j.Levels)-1]; last.Drain > 0 { // a slot is free once the store has a version
		each := last.Drain / float64(max(1, last.Every))
		p.drain = last.Slow * min(each, p.interval/(1-last.Slow))
		p.room = max(0, each-p.per())
	}
	return p
}

// meet finds what other jobs on the storage add, to groups that store at the same time: such a job
// lives as one group while nothing fails, and falls in with the others, or not.
func (p *pace) meet(j *Job) {
	const places, rounds = 16, 200
	one := j.asOne(p.write)
	one.Beside, one.Growth, one.Slowdown, one.Walltime = j.Beside, 0, 0, 0
	one.Work = min(j.Work, rounds*j.Interval)
	var met Life
	for k := range places {
		r := newRun(one, &Machine{Spares: -1}, never{}, rand.New(rand.NewPCG(uint64(k), 1)))
		l, err := r.run()
		if err != nil {
			return // a job that no failure strikes ends
		}
		met.Checkpoints += l.Checkpoints
		for c := range met.By {
			met.By[c] += l.By[c]
		}
	}
	if n := float64(met.Checkpoints); n > 0 {
		p.write += met.By[Contention] / n
		p.contention += met.By[Contention] / n
		p.room, p.drain = met.By[Room]/n, met.By[Drain]/n
	}
}

// never has no failure.
type never struct{}

func (never) next() failure { return failure{at: math.Inf(1)} }

// Pause is how long the job stands still for the checkpoints of an interval, while nothing fails.
func (j *Job) Pause() float64 {
	one := *j
	one.Groups = max(1, j.Groups)
	p := one.pace()
	return p.pause() - p.drain
}

// overlap is how many of the groups write at the same time if nobody holds them up: the least
// number that the storage serves as fast as they come.
func (j *Job) overlap(write func(groups float64) float64) float64 {
	groups := float64(j.Groups)
	comes := func(n float64) float64 { // groups in their pause, if each takes as long as among n
		w := write(n)
		return max(1, groups*w/(j.Interval+w))
	}
	low, high := 1.0, groups
	for high-low > 0.5 {
		if mid := math.Floor((low + high) / 2); comes(mid) <= mid {
			high = mid
		} else if low = mid + 1; low >= high {
			break
		}
	}
	if comes(low) <= low {
		return low
	}
	return high
}

// stretch is how many times longer a transfer takes while so many groups move theirs.
func (j *Job) stretch(groups int) float64 {
	if j.Stretch == nil || groups <= 1 {
		return 1
	}
	return max(1, j.Stretch(groups))
}

func (p *pace) pause() float64 { return p.own + p.contention + p.room + p.held + p.drain }

// per is the time of an interval.
func (p *pace) per() float64 { return p.interval + p.pause() }

// when is the time at which a position is reached, before the checkpoint there.
func (p *pace) when(pos float64) float64 {
	if p.spread {
		return pos * p.per() / p.interval
	}
	return pos + max(0, math.Ceil(pos/p.interval-1e-9)-1)*p.pause()
}

// where is the position at a time.
func (p *pace) where(t float64) float64 {
	if p.spread {
		return max(0, t) * p.interval / p.per()
	}
	k := math.Floor(max(0, t) / p.per())
	return k*p.interval + min(max(0, t)-k*p.per(), p.interval)
}

// saved is the position of the newest checkpoint, of those of every so many intervals, that a
// group has finished some seconds before a time. Part is the group's part of the interval.
func (p *pace) saved(t, part, ago float64, every int) float64 {
	span := p.interval * float64(every)
	if p.spread {
		first := part * p.interval
		k := math.Floor((p.where(t-ago-p.write)-first)/span + 1e-9)
		return max(0, first+k*span)
	}
	return max(0, math.Floor((t-ago)/(p.per()*float64(every))+1e-9)) * span
}

// ahead is how much less time a group needs that is ahead by the slack, at least.
func (p *pace) ahead() float64 {
	if p.spread {
		return p.slack * p.per() / p.interval
	}
	return p.slack + math.Floor(p.slack/p.interval)*p.pause()
}

// Promising is an interval near the best one, if the job fails every mtbf seconds: what the pauses
// of an interval and the repeated work of an average failure cost together is least there.
func (j *Job) Promising(mtbf float64) float64 {
	if j.Bare {
		return j.promisingBare(mtbf)
	}
	try := *j
	last := j.Levels[len(j.Levels)-1]
	cost := func(interval float64) float64 {
		try.Interval = interval
		p := try.pace()
		delay := interval/2/max(1, j.Replay) + last.Restart
		// A failure in a job whose groups hardly wait for each other delays one of them.
		shared := max(delay-p.ahead(), delay/float64(max(1, j.Groups)))
		return p.pause()/interval + shared/mtbf
	}
	best := j.Work
	for interval := j.Work; interval > j.Work*1e-5; interval /= 1.1 {
		if cost(interval) < cost(best) {
			best = interval
		}
	}
	return best
}
