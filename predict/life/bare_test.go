package life

import (
	"math"
	"math/rand/v2"
	"testing"

	lines "ckpt/coordinator/recovery"
)

// TestBareLines: groups that exchange messages in each iteration and keep no logs go back to what
// bare takes for granted, by the recovery lines of jobs: all to the newest round if they store at the
// same positions, all to the beginning if they store apart.
func TestBareLines(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		groups, interval := 2+rng.IntN(6), 20+rng.IntN(50)
		reached := 3*interval + 1 + rng.IntN(interval-1)
		for _, spread := range []bool{false, true} {
			h := &lines.History{}
			for i := range groups {
				at := func(iteration int) lines.State {
					s := lines.State{Iteration: iteration, Sent: make([]uint64, groups), Received: make([]uint64, groups)}
					for k := range groups {
						if k != i {
							s.Sent[k], s.Received[k] = uint64(iteration), uint64(iteration)
						}
					}
					return s
				}
				first := interval
				if spread {
					first = interval * (i + 1) / groups
				}
				current := at(reached)
				r := lines.Rank{Checkpoints: []lines.State{at(0)}, Current: &current}
				for k := first; k < reached; k += interval {
					s := at(k)
					s.Number = len(r.Checkpoints)
					r.Checkpoints = append(r.Checkpoints, s)
				}
				h.Ranks = append(h.Ranks, r)
			}
			line, err := lines.Find(h, []int{rng.IntN(groups)}, lines.Options{InTransit: lines.Forbidden})
			if err != nil {
				t.Fatal(err)
			}
			want := reached / interval * interval
			if spread {
				want = 0
			}
			for _, p := range line.Places {
				if p.Current || p.State.Iteration != want {
					t.Errorf("seed %d, spread %v: group %d goes back to %d of %d, want %d", seed, spread, p.Rank, p.State.Iteration, reached, want)
				}
			}
		}
	}
}

// TestBareTogether: groups that store together without logs end as one group does whose checkpoints
// and restarts take as long, in the same failures.
func TestBareTogether(t *testing.T) {
	shared := func(n int) float64 { return float64(n) }
	bare := Job{Work: 1e6, Interval: 5000, Nodes: 16, Groups: 16, Bare: true, Slack: 30, Stretch: shared, Levels: []Level{{Name: "store", Cost: 10, Restart: 70, Read: 10, Share: 1}}}
	one := Job{Work: 1e6, Interval: 5000, Nodes: 16, Levels: []Level{{Name: "store", Cost: 160, Restart: 220, Share: 1}}}
	s, err := Simulate(t.Context(), []Job{bare, one}, Machine{NodeMTBF: 16 * 40_000, Spares: -1}, Runs{Count: 50, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := &s.Lives[0], &s.Lives[1]; a.End != b.End || a.By != b.By || a.Failures == 0 {
		t.Errorf("%+v, want %+v", a, b)
	}
}

// TestBareApart: a job that each failure takes to its beginning ends after M·e^(R/M)·(e^(T/M) − 1) in
// the mean, with restarts of R and a failure every M: Daly's cost of a single interval.
func TestBareApart(t *testing.T) {
	j := Job{Work: 9000, Interval: 600, Nodes: 8, Groups: 8, Spread: true, Bare: true, Levels: []Level{{Name: "store", Cost: 10, Restart: 70, Read: 10, Share: 1}}}
	const mtbf = 10_000.0
	s, err := Simulate(t.Context(), []Job{j}, Machine{NodeMTBF: mtbf * 8, Spares: -1}, Runs{Count: 4000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := j.pace()
	all := p.when(j.Work)
	want := (math.Exp(all/mtbf) - 1) * mtbf * math.Exp(60/mtbf)
	l := &s.Lives[0]
	if l.End.Mean < want-2*(l.End.High-l.End.Mean) || l.End.Mean > want+2*(l.End.High-l.End.Mean) {
		t.Errorf("ends after %.0f (%.0f to %.0f), want %.0f", l.End.Mean, l.End.Low, l.End.High, want)
	}
	if l.By[Logs] != 0 || l.By[Checkpoints] == 0 || l.FromLast != 0 {
		t.Errorf("%+v: it has no logs, takes checkpoints, and reads none", l)
	}
	if most := j.Work; l.Deepest.Max > most || l.Deepest.Max < most/2 {
		t.Errorf("the worst failure destroys %.0f of %.0f", l.Deepest.Max, most)
	}
}
