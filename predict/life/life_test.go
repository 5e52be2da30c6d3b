package life_test

import (
	"errors"
	"math"
	"reflect"
	"runtime"
	"testing"

	"ckpt/interval"
	"ckpt/predict/life"
)

const day = 86400.

// cluster is a job of thirty days on a machine whose nodes fail every year.
func cluster() (life.Job, life.Machine) {
	return life.Job{Work: 30 * day, Interval: 3600, Nodes: 200, Levels: []life.Level{
			{Name: "nodes", Cost: 20, Restart: 60, OnNodes: true, Strength: 1, Rebuild: 30, Restored: 600}, {Name: "store", Restart: 600, Every: 4, Drain: 1200, Slow: 0.02}}},
		life.Machine{NodeMTBF: 365 * day, Shape: 0.7, Lost: 0.5, Detect: 30, Repair: day, Spares: 2}
}

func simulate(t *testing.T, m life.Machine, count int, jobs ...life.Job) *life.Simulation {
	t.Helper()
	s, err := life.Simulate(t.Context(), jobs, m, life.Runs{Count: count, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFailuresByNode: nodes in use for long fail as often as their MTBF says, whatever the shape,
// and so does a log from which a job has its share of the nodes.
func TestFailuresByNode(t *testing.T) {
	log := &interval.FailureLog{To: 1000 * day}
	for i := range 1000 {
		log.Failures = append(log.Failures, interval.Failure{Node: string(rune('A' + i%60)), Start: float64(i) * day})
	}
	j := life.Job{Work: 100 * day, Interval: 3600, Nodes: 50, Levels: []life.Level{{Name: "store", Cost: 1e-3}}}
	for name, m := range map[string]life.Machine{
		"exponential": {NodeMTBF: 100 * day, Spares: -1}, "clustered": {NodeMTBF: 100 * day, Shape: 0.6, Spares: -1},
		"regular": {NodeMTBF: 100 * day, Shape: 3, Spares: -1}, "log": {Log: log, LogShare: 0.5, Spares: -1},
	} {
		s := simulate(t, m, 200, j)
		life := &s.Lives[0]
		// 50 in 100 days, of which the end is a little more; the log's rate depends on the nodes drawn.
		if want := 50 * life.End.Mean / (100 * day); math.Abs(life.Failures/want-1) > 0.05 {
			t.Errorf("%s: %.2f failures in %.1f days", name, life.Failures, life.End.Mean/day)
		}
	}
}

// TestProtection: copies on other nodes save a job that nodes without copies lose; a longer time
// until they are restored lets more pairs of failures through.
func TestProtection(t *testing.T) {
	with, m := cluster()
	m.Spares, m.NodeMTBF = -1, 30*day
	without, slow := with, with
	for j, of := range map[*life.Job]func(*life.Level){
		&without: func(l *life.Level) { l.Strength = 0 }, &slow: func(l *life.Level) { l.Restored = day }} {
		j.Levels = append([]life.Level{}, with.Levels...)
		of(&j.Levels[0])
	}
	s := simulate(t, m, 20, with, slow, without)
	for i := range 2 {
		if a, b := s.Lives[i].FromLast, s.Lives[i+1].FromLast; !(a < b) {
			t.Errorf("restarts from the store: job %d %g, job %d %g", i, a, i+1, b)
		}
	}
	if !s.Lives[0].Best || s.Lives[2].More.Low <= 0 {
		t.Errorf("protection does not pay: %+v", s.Lives[2].More)
	}
	// Half of the failures lose a node. Each of these restarts from the store, and so does what
	// fails before the next checkpoint.
	if l := &s.Lives[2]; l.FromLast < 0.9*l.LostNodes || l.FromLast > 1.25*l.LostNodes {
		t.Errorf("%g nodes lost, %g restarts from the store", l.LostNodes, l.FromLast)
	}
}

// TestSpares: without spares a job waits for each repair, and with enough of them for none.
func TestSpares(t *testing.T) {
	j, m := cluster()
	m.Spares = 0
	none := simulate(t, m, 30, j)
	if l := &none.Lives[0]; l.By[life.NoNode]*l.End.Mean < 0.8*m.Repair*l.LostNodes*0.8 {
		t.Errorf("%g nodes lost, and %g s of waiting for their repair of %g s", l.LostNodes, l.By[life.NoNode]*l.End.Mean, m.Repair)
	}
	m.Spares = 1000
	if l := &simulate(t, m, 30, j).Lives[0]; l.By[life.NoNode] != 0 {
		t.Errorf("with 1000 spares the job waits for %g of its time", l.By[life.NoNode])
	}
}

// TestRoom: a checkpoint waits while both slots hold versions that are not in the store.
func TestRoom(t *testing.T) {
	j, m := cluster()
	j.Levels[1].Every, j.Levels[1].Drain = 1, 3*j.Interval
	m.NodeMTBF = 1e12
	l := &simulate(t, m, 2, j).Lives[0]
	if want := 3 * j.Work; math.Abs(l.End.Mean/want-1) > 0.02 || l.By[life.Room] < 0.6 {
		t.Errorf("drains of three intervals: the job ends after %g s, want %g; it waits for room for %g of it", l.End.Mean, want, l.By[life.Room])
	}
}

// TestSameLives: a seed gives the same lives on any number of processors, and equal jobs meet equal
// failures.
func TestSameLives(t *testing.T) {
	j, m := cluster()
	a := simulate(t, m, 20, j, j)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if b := simulate(t, m, 20, j, j); !reflect.DeepEqual(a, b) {
		t.Error("one processor has other lives")
	}
	if more := a.Lives[1].More; more.P5 != 0 || more.P95 != 0 {
		t.Errorf("equal jobs differ: %+v", more)
	}
}

// TestStuck: a job whose checkpoints take longer than it lives between failures is an error.
func TestStuck(t *testing.T) {
	j, m := cluster()
	m.NodeMTBF = 1000
	_, err := life.Simulate(t.Context(), []life.Job{j}, m, life.Runs{Count: 2, Seed: 1})
	if stuck := new(life.StuckError); !errors.As(err, &stuck) {
		t.Errorf("five seconds between failures: %v", err)
	}
}

// TestRefused: each number outside of its range is named.
func TestRefused(t *testing.T) {
	for _, change := range []func(*life.Job, *life.Machine){
		func(j *life.Job, _ *life.Machine) { j.Work = 0 }, func(j *life.Job, _ *life.Machine) { j.Interval = math.NaN() },
		func(j *life.Job, _ *life.Machine) { j.Levels = nil }, func(j *life.Job, _ *life.Machine) { j.Levels[0].Cost = -1 },
		func(j *life.Job, _ *life.Machine) { j.Levels[0].Drain = 1 }, func(j *life.Job, _ *life.Machine) { j.Levels[1].OnNodes = true },
		func(j *life.Job, _ *life.Machine) { j.Levels[0].OnNodes = false }, func(j *life.Job, _ *life.Machine) { j.Interval = 1e-9 },
		func(_ *life.Job, m *life.Machine) { m.NodeMTBF = 0 }, func(_ *life.Job, m *life.Machine) { m.Shape = 0.1 },
		func(_ *life.Job, m *life.Machine) { m.Lost = 1.5 }, func(_ *life.Job, m *life.Machine) { m.Log = &interval.FailureLog{} },
		func(j *life.Job, _ *life.Machine) { j.Slowdown = 1 }, func(j *life.Job, _ *life.Machine) { j.Nodes = 0 },
	} {
		j, m := cluster()
		change(&j, &m)
		if _, err := life.Simulate(t.Context(), []life.Job{j}, m, life.Runs{Count: 2}); err == nil {
			t.Errorf("%+v, %+v is simulated", j, m)
		}
	}
}

// A life costs what its checkpoints and failures cost, and its nodes once: 10,000 nodes for 30 days.
func BenchmarkLife(b *testing.B) {
	j, m := cluster()
	j.Nodes, m.NodeMTBF = 10_000, 5*365*day
	for b.Loop() {
		if _, err := life.Simulate(b.Context(), []life.Job{j}, m, life.Runs{Count: 100, Seed: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
