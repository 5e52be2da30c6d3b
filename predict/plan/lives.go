package plan

import (
	"context"
	"errors"
	"math"

	"ckpt/interval"
	"ckpt/predict/fit"
	"ckpt/predict/life"
	"ckpt/predict/service"
)

// Lives are simulated where closed forms end: groups of ranks whose checkpoints are written behind
// the job, or go to the nodes first. LivesAssume says what they take for granted.
const (
	LivesAssume = "simulated: groups wait for messages of a group that stands still, and a checkpoint is safe once those of all groups are"
	lives       = 200
	livesSeed   = 1
)

// around are the intervals that are tried beside the promising one, as factors of it.
var around = []float64{1, 0.5, 0.7, 1.4, 2}

// job is a failing job of groups as package life has it. Groups that store at the same time are
// one group there: without slack they stand still together. Levels have the costs of all groups.
func (f *failing) job(levels ...life.Level) life.Job {
	batches := float64(max(1, f.batches))
	levels[0].Cost /= batches
	// Of one batch life keeps two groups that store together, whose lives cost as little.
	return life.Job{Work: f.appS, Interval: f.intervalS, Nodes: max(2, f.batches), Groups: max(2, f.batches), Spread: f.batches > 1,
		Slowdown: f.slowdown, Growth: f.growth / batches, Replay: max(1, f.replay), Levels: levels}
}

// behind are the levels of checkpoints that are written behind the job: a failure destroys what is
// in memory.
func (f *failing) behind() []life.Level {
	return []life.Level{{Name: "memory", OnNodes: true, Cost: f.costS}, {Name: "store", Restart: f.restartS, Drain: f.lag.Value, Share: 1}}
}

// live simulates lives of a job. Of its failures the share lost needs the last level. The time is
// +Inf if the job makes no progress.
func (p *Planning) live(j life.Job, lost float64) (tau, total float64, sim *interval.Simulated, err error) {
	jobs := []life.Job{j}
	if j.Interval == 0 {
		jobs = nil
		best := max(j.Promising(p.MTBFS), p.least(&j))
		for _, factor := range around {
			try := j
			try.Interval = min(j.Work, max(best*factor, p.least(&j)))
			jobs = append(jobs, try)
		}
	}
	m := life.Machine{NodeMTBF: p.MTBFS * float64(j.Nodes), Lost: lost, Spares: -1}
	s, err := life.Simulate(context.Background(), jobs, m, life.Runs{Count: lives, Seed: livesSeed})
	if errors.As(err, new(*life.StuckError)) {
		return jobs[0].Interval, math.Inf(1), nil, nil
	}
	if err != nil {
		return 0, 0, nil, fit.Refuse("plan a shorter run, or a longer interval", "%v", err)
	}
	for i := range s.Lives {
		if l := &s.Lives[i]; l.Best {
			return jobs[i].Interval, l.End.Mean, &interval.Simulated{Runs: lives, Seed: livesSeed, Shape: 1, Steady: true, Mean: l.End.Mean, Low: l.End.Low, High: l.End.High,
				StdDev: l.End.Deviation, Min: l.End.Min, Max: l.End.Max, P5: l.End.P5, P95: l.End.P95, Failures: l.Failures, Waste: 1 - j.Work/l.End.Mean}, nil
		}
	}
	panic("unreachable: one of the lives is the best")
}

// least is the shortest interval that the overhead pays for.
func (p *Planning) least(j *life.Job) float64 {
	if p.Overhead == 0 {
		return 0
	}
	stores := 1
	if j.Spread {
		stores = j.Groups
	}
	return j.Levels[0].Cost * float64(stores) / p.Overhead
}

// livesOnLevels simulates a job of groups with a pattern over the nodes and the store, or over the
// store alone, with the costs at one end of their ranges, and the speed of replay at the other.
func (p *Planning) livesOnLevels(c *LevelCosts, of interval.Pattern, end, other func(fit.Range) float64) (*interval.Simulated, error) {
	groups := c.Local
	local, store := life.Level{Name: "nodes", OnNodes: true, Cost: end(c.LocalS), Restart: end(c.LocalRestartS)}, life.Level{Name: "store", Cost: end(c.StoreS), Restart: end(c.StoreRestartS), Share: 1}
	if len(of.Every) == 0 {
		groups = c.Store
	}
	f := failing{appS: p.AppSeconds, intervalS: of.Interval.Seconds(), slowdown: end(groups.Slowdown), growth: end(groups.KeptS), replay: other(groups.ReplaySpeed), batches: batches(groups, p.Together[0])}
	logs := end(groups.LogReadS) * f.intervalS / 2
	local.Restart, store.Restart = local.Restart+logs, store.Restart+logs
	levels := []life.Level{store}
	if len(of.Every) > 0 {
		store.Cost, store.Drain, store.Slow, store.Every = 0, end(c.DrainS), p.Levels.Slowdown, of.Every[0]
		levels = []life.Level{local, store}
	}
	_, _, sim, err := p.live(f.job(levels...), 1-p.Levels.Share)
	return sim, err
}

// batches is how many times groups store until each has.
func batches(c *service.ModeCost, together float64) int {
	size := max(1, int(math.Ceil(together*float64(c.GroupCount))))
	return (c.GroupCount + size - 1) / size
}
