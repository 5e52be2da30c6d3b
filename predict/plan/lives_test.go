package plan

import (
	"math"
	"testing"

	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

// TestLivesInFlight: the lives of groups that store together are those of one group, whose
// checkpoints in flight have a closed form.
func TestLivesInFlight(t *testing.T) {
	for _, c := range []struct{ cost, lag, restart, mtbf, interval float64 }{
		{5, 60, 30, 20000, 0}, {20, 900, 300, 40000, 0}, {2, 300, 60, 30000, 100}, {30, 40, 100, 8000, 700},
	} {
		lag := fit.Exactly(c.lag)
		f := failing{appS: 86400, costS: c.cost, restartS: c.restart, lag: &lag, inFlight: 2, intervalS: c.interval}
		p := Planning{MTBFS: c.mtbf}
		tau, closed, _, err := p.expected(f)
		if err != nil {
			t.Fatal(err)
		}
		f.groups, f.batches, f.intervalS = true, 1, tau
		_, total, lived, err := p.expected(f)
		if err != nil {
			t.Fatal(err)
		}
		if half := (lived.High - lived.Low) / 2; math.Abs(total-closed) > 2*half+0.005*closed {
			t.Errorf("%+v every %g s: lives end after %.0f ± %.0f s, the closed form says %.0f s", c, tau, total, half, closed)
		}
	}
}

// TestPlanBehindGroups: every mode has an answer with checkpoints behind the job, and the groups'
// says how far single runs lie apart.
func TestPlanBehindGroups(t *testing.T) {
	m, p := modePlanning(t)
	p.Engine, p.Storing.Async, p.Storing.InFlight = dataset.Ckpt, true, 2
	waiting := p
	waiting.Storing.Async = false
	all, err := Compare(m, p)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Compare(m, waiting)
	if err != nil || len(all) != len(plain) {
		t.Fatal(len(all), len(plain), err)
	}
	for i := range all {
		o, s := &all[i], all[i].Simulated
		if simulated := o.GroupCount > 1 && !o.Domino; simulated != (s != nil) {
			t.Errorf("%s %s: simulated is %v", o.Mode, o.Log, s)
		} else if s != nil && !(s.Runs == lives && s.P5 < s.Mean && s.Mean < s.P95 && float64(o.Expected) == s.Mean && o.LagS > o.CheckpointS) {
			t.Errorf("%s %s: %+v, lag %g s", o.Mode, o.Log, *s, o.LagS)
		}
		if !(o.Failing.Low <= o.Expected && o.Expected <= o.Failing.High && float64(o.Failing.Low) > p.AppSeconds) {
			t.Errorf("%s %s: %+v", o.Mode, o.Log, *o.Failing)
		}
		for k := range plain {
			w := &plain[k]
			if w.Mode == o.Mode && w.Log == o.Log && !o.Domino && o.Expected >= w.Expected {
				t.Errorf("%s %s: a run that computes meanwhile ends after %g s, one that waits after %g s", o.Mode, o.Log, o.Expected, w.Expected)
			}
		}
	}
}

// TestLivesOnLevels: without logs and with groups that store together, the lives of a pattern are
// those of its closed form.
func TestLivesOnLevels(t *testing.T) {
	p := Planning{AppSeconds: 86400, MTBFS: 20000, Together: []float64{1}, Levels: &Levels{Share: 0.8, Slots: 2}}
	groups := &service.ModeCost{GroupCount: 4, ReplaySpeed: fit.Exactly(1)}
	c := &LevelCosts{LocalS: fit.Exactly(10), StoreS: fit.Exactly(200), DrainS: fit.Exactly(180), LocalRestartS: fit.Exactly(20), StoreRestartS: fit.Exactly(220), Local: groups, Store: groups}
	for _, h := range []*interval.Hierarchy{p.nodesFirst(c, middle), p.storeAlone(c, middle)} {
		best, err := h.Best(interval.Pattern{})
		if err != nil {
			t.Fatal(err)
		}
		row, err := h.Row(interval.Lasting(p.AppSeconds), best)
		if err != nil {
			t.Fatal(err)
		}
		lived, err := p.livesOnLevels(c, best, middle, middle)
		if err != nil {
			t.Fatal(err)
		}
		if half := (lived.High - lived.Low) / 2; math.Abs(lived.Mean-row.Total) > 2*half+0.005*row.Total {
			t.Errorf("%d levels: lives end after %.0f ± %.0f s, the closed form says %.0f s", len(h.Levels), lived.Mean, half, row.Total)
		}
	}
}
