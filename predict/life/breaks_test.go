package life_test

import (
	"math"
	"testing"

	"ckpt/predict/life"
)

// TestBreaks: a job that never fails is late by exactly what breaks cost it: allocations by their
// stops, queues and restarts, outages by those times that fall on checkpoints; a job that goes on
// with fewer nodes is faster than one that waits for their repair.
func TestBreaks(t *testing.T) {
	j := life.Job{Work: 10 * day, Interval: 3600, Nodes: 16, Levels: []life.Level{{Name: "store", Cost: 100, Restart: 300}}}
	never := life.Machine{NodeMTBF: 1e14, Spares: -1}
	plain := simulate(t, never, 2, j).Lives[0].End.Mean
	groups := j
	groups.Groups, groups.Slack = 16, 10
	for _, x := range []life.Job{j, groups} {
		x.Walltime, x.Queue = day, 7200
		l := &simulate(t, never, 2, x).Lives[0]
		// Each allocation has a day less the stop and the restart, and a stop replaces no checkpoint.
		stops := math.Floor(plain / (day - 600))
		if got, want := l.End.Mean-plain, stops*(7200+300+300); math.Abs(got-want) > 0.06*want {
			t.Errorf("%d groups: %g allocations of a day cost %.0f s, want about %.0f", x.Groups, stops, got, want)
		}
		if want := stops * 7200 / l.End.Mean; math.Abs(l.By[life.Queue]-want) > 0.1*want {
			t.Errorf("%d groups: %.4f of the time in the queue, want %.4f", x.Groups, l.By[life.Queue], want)
		}
	}

	away := never
	away.StoreMTBF, away.StoreRepair = 2*day, 7200
	for _, x := range []life.Job{j, groups} {
		l := &simulate(t, away, 200, x).Lives[0]
		// An outage of two hours begins at any time of an interval of 3700 s: the job computes to
		// its next checkpoint, on average 1750 s, and waits for the rest.
		outages := l.End.Mean / (2*day + 7200)
		if want := outages * (7200 - 1750) / l.End.Mean; math.Abs(l.By[life.Outage]-want) > 0.1*want {
			t.Errorf("%d groups: %.4f of the time waiting for storage, want %.4f", x.Groups, l.By[life.Outage], want)
		}
	}

	few := life.Machine{NodeMTBF: 30 * day, Lost: 1, Repair: day}
	shrinks := j
	shrinks.Shrink = true
	s := simulate(t, few, 20, j, shrinks)
	if a, b := &s.Lives[0], &s.Lives[1]; a.By[life.NoNode] == 0 || b.By[life.NoNode] > 0.05 || b.By[life.Fewer] == 0 || b.End.Mean >= a.End.Mean {
		t.Errorf("waiting takes %.0f s, of it %.2f for nodes; shrinking %.0f s, of it %.2f on fewer", a.End.Mean, a.By[life.NoNode], b.End.Mean, b.By[life.Fewer])
	}

	// Domains of four nodes fail as often as all nodes: a failure loses one node or four.
	racks := life.Machine{NodeMTBF: 30 * day, Lost: 1, Spares: -1, Domains: 4, DomainMTBF: 30 * day / 4}
	l := &simulate(t, racks, 100, j).Lives[0]
	if got, want := l.LostNodes/l.Failures, 2.5; math.Abs(got-want) > 0.2 {
		t.Errorf("%.2f nodes lost in a failure, want %.2f", got, want)
	}
}

// TestOneGroupAndMany: groups that have no slack, store together and repeat work as fast as the first
// time end nearly when one group of all ends, in the same failures: two simulations that share
// little agree. Failures during a restart send many groups back one by one, and one group as a
// whole, so that they differ a little.
func TestOneGroupAndMany(t *testing.T) {
	direct := []life.Level{{Name: "store", Cost: 40, Restart: 120}}
	tier := func(strength, every int) []life.Level {
		return []life.Level{{Name: "nodes", Cost: 16, Restart: 76, OnNodes: true, Strength: strength, Rebuild: 16, Restored: 16}, {Name: "store", Restart: 76, Every: every, Drain: 410}}
	}
	nodes := life.Machine{NodeMTBF: 60 * day, Lost: 0.5, Spares: -1, Detect: 30}
	racks, spares := nodes, nodes
	racks.Domains, racks.DomainMTBF = 8, 60*day
	spares.Spares, spares.Repair = 2, 2*day
	for name, x := range map[string]struct {
		levels   []life.Level
		m        life.Machine
		walltime float64
	}{"store": {direct, nodes, 0}, "racks": {direct, racks, 0}, "spares": {direct, spares, 0}, "allocations": {direct, nodes, day},
		"nodes": {tier(0, 1), nodes, 0}, "every fourth": {tier(0, 4), nodes, 0}, "partner": {tier(1, 1), racks, 0}} {
		one := life.Job{Work: 10 * day, Interval: 1800, Nodes: 64, Levels: x.levels, Walltime: x.walltime, Queue: 3600 * math.Min(1, x.walltime)}
		many := one
		many.Groups = 64
		s := simulate(t, x.m, 60, one, many)
		a, b := s.Lives[0].End.Mean, s.Lives[1].End.Mean
		if math.Abs(b/a-1) > 0.01 {
			t.Errorf("%s: one group %.0f s, many %.0f s: %+.2f %%", name, a, b, 100*(b/a-1))
		}
	}
}
