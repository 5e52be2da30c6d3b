package life

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Groups without message logs go back together, to checkpoints that no message crosses. Groups that
// store at the same positions have such a line in each round, and live as one group that stands
// still for the round. Groups that store apart have none: each restored group asks for messages that
// the others sent before their checkpoints, or has received messages that they are yet to send, and
// so on to the beginning, the domino effect.

// bare lives without message logs.
func (j *Job) bare(m *Machine, src source, rng *rand.Rand, watch func(Moment)) (*Life, error) {
	p := j.pace()
	if !j.Spread {
		one := j.asOne(p.own + p.contention)
		return one.live(m, src, rng, watch)
	}
	last := j.Levels[len(j.Levels)-1]
	all := p.when(j.Work)
	// The pauses of a run count as logs in one, since they slow it down as evenly. The job is its only
	// interval.
	one := Job{Work: j.Work, Slowdown: 1 - j.Work/all, Interval: all, Nodes: j.Nodes, Levels: []Level{{Name: last.Name, Restart: last.Restart - last.Read, Share: 1}}}
	pauses := func(by *[causes]float64) { by[Checkpoints], by[Logs] = by[Logs], 0 }
	heard := watch
	if watch != nil {
		heard = func(m Moment) {
			pauses(&m.By)
			watch(m)
		}
	}
	l, err := one.live(m, src, rng, heard)
	if err != nil {
		return nil, err
	}
	pauses(&l.By)
	l.FromLast = 0
	l.Deepest *= j.Work / all
	l.Lost *= j.Work / all
	l.Checkpoints = int((l.Lost + j.Work) / j.Interval)
	if last.Drain > 0 {
		l.Drained = l.Checkpoints / max(1, last.Every)
	}
	return l, nil
}

// asOne is a job whose groups do all at the same time, with a checkpoint of some seconds.
func (j *Job) asOne(cost float64) *Job {
	one := *j
	one.Groups, one.Bare, one.Slack, one.Stretch, one.Beside = 0, false, 0, nil, nil
	one.Levels = slices.Clone(j.Levels)
	one.Levels[0].Cost = cost
	last := &one.Levels[len(one.Levels)-1]
	last.Restart += last.Read * (j.stretch(j.Groups) - 1)
	last.Read, last.ReadLost = 0, 0
	if len(one.Levels) == 1 {
		last.Rebuild = 0
	}
	return &one
}

// promisingBare is near the best interval of a job without logs: the longest there is where no
// checkpoint is of use.
func (j *Job) promisingBare(mtbf float64) float64 {
	if j.Spread {
		return j.Work
	}
	p := j.pace()
	return min(j.Work, math.Sqrt(2*(p.own+p.contention)*mtbf))
}
