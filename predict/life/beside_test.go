package life_test

import (
	"math"
	"testing"

	"ckpt/predict/life"
)

// TestBesideExactly: two transfers that overlap halve each other's speed for as long as both are
// under way.
func TestBesideExactly(t *testing.T) {
	never := life.Machine{NodeMTBF: 1e14, Spares: -1}
	for _, c := range []struct{ start, write, want float64 }{
		{2000, 100, 100}, // over before the checkpoint at 3600 s
		{3600, 50, 150},  // all of the other's is shared
		{3550, 100, 150}, // half of it is left
		{3650, 500, 150}, // half of the job's own is shared
		{3600, 500, 200}, // all of it
		{3620, 30, 130},
	} {
		j := life.Job{Work: 7000, Interval: 3600, Nodes: 4, Levels: []life.Level{{Name: "store", Cost: 100, Restart: 300}},
			Beside: &life.Beside{Bursts: []life.Burst{{Interval: 1e6, Write: c.write, Start: c.start}}, Speeds: life.Share(1, []float64{4, 4}, []float64{1, 1})}}
		l := &simulate(t, never, 2, j).Lives[0]
		if got := l.End.Mean - 7000; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v: the checkpoint takes %g s", c, got)
		}
		if got := l.By[life.Contention] * l.End.Mean; math.Abs(got-(c.want-100)) > 1e-6 {
			t.Errorf("%+v: %g s are contention", c, got)
		}
	}
}

// TestBesideOnAverage: what the others add to many checkpoints at any of their times is what Slower
// says that groups take longer, and drains take longer as well.
func TestBesideOnAverage(t *testing.T) {
	never := life.Machine{NodeMTBF: 1e14, Spares: -1}
	for _, c := range []struct{ write, every, nodes float64 }{{100, 900, 4}, {600, 3000, 8}, {30, 100, 2}} {
		b := &life.Beside{Bursts: []life.Burst{{Interval: c.every, Write: c.write, Start: math.NaN()}}, Speeds: life.Share(1, []float64{4, c.nodes}, []float64{1, 1})}
		// Checkpoints far longer than the others' intervals, and far shorter than their checkpoints.
		for _, cost := range []float64{30 * (c.every + c.write), c.write / 10} {
			j := life.Job{Work: 4e6, Interval: 11213.1, Nodes: 4, Levels: []life.Level{{Name: "store", Cost: cost}}, Beside: b}
			l := &simulate(t, never, 20, j).Lives[0]
			if got, want := (l.End.Mean-j.Work)/l.Checkpoints/cost, b.Slower(cost); math.Abs(got/want-1) > 0.03 {
				t.Errorf("%+v: checkpoints of %g s take %.4f times as long, and %.4f on average", c, cost, got, want)
			}
		}
	}
	j, m := cluster()
	m.NodeMTBF, j.Levels[1].Slow = 1e14, 0.1
	with := j
	with.Beside = &life.Beside{Bursts: []life.Burst{{Interval: 600, Write: 600, Start: math.NaN()}}, Speeds: life.Share(1, []float64{1, 3}, []float64{1, 1})}
	s := simulate(t, m, 4, j, with)
	slower := s.Lives[1].By[life.Drain] / s.Lives[0].By[life.Drain]
	if want := with.Beside.Slower(j.Levels[1].Drain); math.Abs(slower/want-1) > 0.1 {
		t.Errorf("drains cost %.3f times as much, want about %.3f", slower, want)
	}
}

// TestShare: transfers share a rate by their nodes, and leave what they cannot move to others.
func TestShare(t *testing.T) {
	table := life.Share(10, []float64{1, 1, 2}, []float64{10, 1, 8})
	for set, want := range map[int][]float64{0b001: {1, 1, 1}, 0b011: {0.9, 1, 1}, 0b101: {1. / 3, 1, 20. / 3 / 8}, 0b111: {0.3, 1, 0.75}} {
		for i, s := range table[set] {
			if math.Abs(s-want[i]) > 1e-9 {
				t.Errorf("of the set %03b transfer %d has %.4f of its speed, want %.4f", set, i, s, want[i])
			}
		}
	}
	if pair := life.Pair([2]float64{10, 4}, [2]float64{14, 8})[3]; math.Abs(pair[0]-0.5) > 1e-9 || math.Abs(pair[1]-0.5) > 1e-9 {
		t.Errorf("two that share by halves have %v of their speeds", pair)
	}
	j := life.Job{Work: 100, Interval: 10, Nodes: 1, Levels: []life.Level{{Cost: 1}}, Beside: &life.Beside{Bursts: []life.Burst{{Interval: 1, Write: 0}}, Speeds: life.Share(1, []float64{1, 1}, []float64{1, 1})}}
	if _, err := life.One(j, life.Machine{NodeMTBF: 1e9}, 1, 0, nil); err == nil {
		t.Error("a checkpoint of no time is not refused")
	}
}
