package life_test

import (
	"math"
	"testing"

	"ckpt/interval"
	"ckpt/predict/life"
)

// TestSharedPause: what the logs of all groups add to a checkpoint does not depend on how many groups
// there are, and groups agree each by itself, at the same time.
func TestSharedPause(t *testing.T) {
	for _, groups := range []int{2, 8, 64} {
		g := float64(groups)
		j := life.Job{Work: day, Interval: 3600, Nodes: groups, Groups: groups, Growth: 0.01, Stretch: func(n int) float64 { return float64(n) },
			Levels: []life.Level{{Name: "store", Cost: 5 + 64/g, Agree: 5, Share: 1}}}
		if want := 5 + 64 + 36.; math.Abs(j.Pause()-want) > 1e-9 {
			t.Errorf("%d groups: a pause of %g s, want %g", groups, j.Pause(), want)
		}
		j.Levels = []life.Level{{Name: "nodes", OnNodes: true, Cost: 7, Agree: 5}, {Name: "store", Drain: 100}}
		if want := 7 + 36.; math.Abs(j.Pause()-want) > 1e-9 {
			t.Errorf("%d groups on nodes: a pause of %g s, want %g", groups, j.Pause(), want)
		}
	}
}

// TestEmptyPlaces: a node that is out for repair does not fail. One node that waits for its repair, and
// two that run alone meanwhile, are renewal processes.
func TestEmptyPlaces(t *testing.T) {
	m := life.Machine{NodeMTBF: 5 * day, Lost: 1, Spares: 0, Repair: 5 * day}
	one := life.Job{Work: 60 * day, Interval: 3600, Nodes: 1, Levels: []life.Level{{Name: "store", Cost: 1e-3}}}
	few := one
	few.Nodes, few.Groups, few.Slack = 2, 2, 0
	l := simulate(t, m, 400, one, few).Lives
	// A failure every 5 days of running; half an interval of work is lost.
	if want := 60 * day * (1 + (m.Repair+1800)/m.NodeMTBF); math.Abs(l[0].End.Mean/want-1) > 0.04 {
		t.Errorf("one node: %g s, want %g", l[0].End.Mean, want)
	}
	// Of two groups the other one goes on failing meanwhile, the one that waits does not.
	if rate := l[1].LostNodes / l[1].End.Mean * m.NodeMTBF; !(rate > 1 && rate < 1.8) {
		t.Errorf("two groups lose %.2f nodes in the MTBF of one", rate)
	}
	m.NodeMTBF, m.Repair = 20*day, 10*day
	two := one
	two.Nodes, two.Shrink = 2, true
	// Each node is there for two thirds of the time.
	if got, want := simulate(t, m, 400, two).Lives[0].End.Mean, 90*day; math.Abs(got/want-1) > 0.04 {
		t.Errorf("two nodes that need not wait: %g s, want %g", got, want)
	}
}

// TestStopsAtEnds: the stop at the end of an allocation takes as long as its checkpoint, however long a
// restart is, and puts a checkpoint into the store.
func TestStopsAtEnds(t *testing.T) {
	m := life.Machine{NodeMTBF: 1e12, Spares: -1}
	store := life.Level{Name: "store", Cost: 200, Restart: 7200}
	j := life.Job{Work: 30 * day, Interval: 40 * day, Nodes: 4, Walltime: day, Levels: []life.Level{store}}
	groups := j
	groups.Groups = 4
	tiers := j
	tiers.Levels = []life.Level{{Name: "nodes", OnNodes: true, Cost: 1}, {Name: "store", Restart: 7200, Drain: 200, Every: 1000}}
	tiered := tiers
	tiered.Groups = 4
	for i, l := range simulate(t, m, 2, j, groups, tiers, tiered).Lives {
		stops := math.Floor(l.End.Mean / day)
		if got := l.By[life.Checkpoints] * l.End.Mean; math.Abs(got/stops-200) > 1 {
			t.Errorf("job %d: %g s of checkpoints in %g stops", i, got, stops)
		}
		if i > 1 && l.Drains != stops {
			t.Errorf("job %d: %g checkpoints in the store after %g stops", i, l.Drains, stops)
		}
	}
}

// TestTogether: records of a log that begin together are one failure, and the last does not meet the
// first where the log begins again.
func TestTogether(t *testing.T) {
	log := &interval.FailureLog{From: 0, To: 55 * day}
	for i := range 12 {
		for n := range 16 {
			log.Failures = append(log.Failures, interval.Failure{Node: string(rune('A' + n)), Start: float64(i) * 5 * day})
		}
	}
	j := life.Job{Work: 100 * day, Interval: 3600, Nodes: 16, Levels: []life.Level{{Name: "store", Cost: 1e-3}}}
	l := &simulate(t, life.Machine{Log: log, LogShare: 1, Spares: -1}, 20, j).Lives[0]
	if want := l.End.Mean / (5 * day); math.Abs(l.Failures-want) > 1 || l.LostNodes != 0 {
		t.Errorf("%g failures in %g days, want one in 5", l.Failures, l.End.Mean/day)
	}
}

// TestOutagesOfGroups: groups that store together and cannot get on without each other live as one,
// also where they fail while the storage is away.
func TestOutagesOfGroups(t *testing.T) {
	for _, mtbf := range []float64{2 * 3600, 6 * 3600} {
		m := life.Machine{NodeMTBF: 8 * mtbf, Spares: -1, StoreMTBF: day, StoreRepair: day / 4}
		one := life.Job{Work: 20 * day, Interval: 3600, Nodes: 8, Levels: []life.Level{{Name: "store", Cost: 20, Restart: 60, Share: 1}}}
		groups := one
		groups.Groups, groups.Levels = 8, []life.Level{{Name: "store", Cost: 2.5, Restart: 60, Share: 1}}
		groups.Stretch = func(n int) float64 { return float64(n) }
		l := simulate(t, m, 200, one, groups).Lives
		if ratio := l[1].End.Mean / l[0].End.Mean; math.Abs(ratio-1) > 0.01 {
			t.Errorf("a failure every %g h: groups take %.4f of the time of one", mtbf/3600, ratio)
		}
		for i := range l {
			if l[i].By[life.Outage] > 0.2 {
				t.Errorf("a failure every %g h: job %d waits for the storage for %.4f of its time, of which it is away for 0.2", mtbf/3600, i, l[i].By[life.Outage])
			}
		}
	}
}
