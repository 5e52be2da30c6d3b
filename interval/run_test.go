package interval_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ckpt/internal/testkit"
	"ckpt/interval"
)

// simulated is the mean time of simulated runs at an interval; the same seed gives the
// same failures at every interval.
func simulated(t *testing.T, m *interval.Model, work, at time.Duration) float64 {
	t.Helper()
	s := interval.Simulation{Model: *m, Work: work, Interval: at, Shape: 1, Runs: 4000, Seed: 11}
	e, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e.Mean.Seconds()
}

// bruteForce simulates a run at every interval of a fine grid, and with every small
// number of checkpoints, and returns the shortest mean time.
func bruteForce(t *testing.T, m *interval.Model, work, around time.Duration) float64 {
	t.Helper()
	best := math.Inf(1)
	for k := -16; k <= 16; k++ {
		at := time.Duration(float64(around) * math.Pow(2, float64(k)/5)) // a ninth to nine times
		if _, err := m.Expected(work, at); err == nil && at < work {
			best = min(best, simulated(t, m, work, at))
		}
	}
	for n := range 10 {
		at := work / time.Duration(n+1)
		if expected, err := m.Expected(work, at); err == nil && expected < 50*work {
			best = min(best, simulated(t, m, work, at))
		}
	}
	return best
}

// plannedModels are machines and jobs of several ratios of MTBF, cost and restart.
func plannedModels() []interval.Model {
	var list []interval.Model
	for _, mtbf := range []time.Duration{24 * time.Hour, 6 * time.Hour, 40 * time.Minute} {
		for _, cost := range []time.Duration{mtbf / 1000, mtbf / 100, mtbf / 8} {
			list = append(list, interval.Model{Cost: cost, MTBF: mtbf, Restart: cost})
		}
		list = append(list, interval.Model{Cost: mtbf / 50, MTBF: mtbf, Restart: mtbf / 5, Downtime: mtbf / 10})
	}
	return append(list, withLogs(model(6*time.Hour)), withLogs(model(time.Hour)))
}

// checkBudget checks a plan with a budget against the best of all that the budget pays
// for. A large budget must come to the best plan without one.
func checkBudget(t *testing.T, m *interval.Model, work time.Duration, best float64) {
	t.Helper()
	for _, overhead := range []float64{0.03, 0.2, 10} {
		b := interval.Budget{Overhead: overhead, App: work, Checkpoint: m.Cost}
		if m.Mode != interval.Coordinated || float64(m.Cost) > 0.1*float64(m.MTBF) && overhead == 10 {
			continue
		}
		affordable, err := b.Schedule()
		if err != nil {
			t.Fatal(err)
		}
		s, run, err := b.ScheduleFor(*m)
		if err != nil {
			t.Fatal(err)
		}
		if s.Count > affordable.Count || s.Count != run.Count {
			t.Errorf("an overhead of %v pays for %d checkpoints, the plan has %d and %d", overhead, affordable.Count, s.Count, run.Count)
		}
		reference := best
		if affordable.Count < 60 && overhead < 10 {
			reference = math.Inf(1)
			for n := range affordable.Count + 1 {
				if expected, err := m.Expected(work, work/time.Duration(n+1)); err == nil && expected < 50*work {
					reference = min(reference, simulated(t, m, work, work/time.Duration(n+1)))
				}
			}
		}
		if planned := simulated(t, m, work, s.Work); planned > 1.02*reference {
			t.Errorf("overhead %v, %d checkpoints: %.2f %% over the best", overhead, s.Count, 100*(planned/reference-1))
		}
	}
}

// TestPlanIsBest: simulated with failures, a run at the planned interval takes at most
// 2 % longer than at the best interval that brute force finds.
func TestPlanIsBest(t *testing.T) {
	for i, m := range plannedModels() {
		lengths := []float64{0.3, 1.5, 8} // of the MTBF
		if !testkit.Nightly() {
			lengths = lengths[i%3:][:1] // every cost has each at one MTBF
		}
		for _, length := range lengths {
			work := time.Duration(length * float64(m.MTBF))
			t.Run(fmt.Sprintf("%v of %v, cost %v, restart %v", work, m.MTBF, m.Cost, m.Restart), func(t *testing.T) {
				o, err := m.Optimum()
				if err != nil {
					t.Fatal(err)
				}
				best := bruteForce(t, &m, work, o.Exact)
				run, err := m.Best(work)
				if err != nil {
					t.Fatal(err)
				}
				if planned := simulated(t, &m, work, run.Interval); planned > 1.02*best {
					t.Errorf("%d checkpoints, one every %v: %.2f %% over the best", run.Count, run.Interval, 100*(planned/best-1))
				}
				checkBudget(t, &m, work, best)
				if length < 8 {
					return // Optimum is that of a long run
				}
				if planned := simulated(t, &m, work, o.Exact); planned > 1.02*best {
					t.Errorf("the interval of %v: %.2f %% over the best", o.Exact, 100*(planned/best-1))
				}
			})
		}
	}
}

// TestBestOfAll: no other number of checkpoints has a shorter expected time.
func TestBestOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := interval.Model{MTBF: time.Hour, Cost: seconds(rapid.Float64Range(0.1, 3600).Draw(t, "cost")),
			Restart: seconds(rapid.Float64Range(0, 1800).Draw(t, "restart"))}
		if rapid.Bool().Draw(t, "logs") {
			m = withLogs(m)
		}
		work := seconds(rapid.Float64Range(10, 20*3600).Draw(t, "work"))
		most := rapid.IntRange(0, 200).Draw(t, "most")
		run, err := m.BestUpTo(work, most)
		if err != nil {
			return // it would never end
		}
		if run.Count > most || run.Total <= 0 || m.Mode == interval.Coordinated && run.Alone > 0 && run.Alone < run.Total {
			t.Fatalf("%+v", run)
		}
		ran := float64(run.Interval) * float64(run.Count+1) // without checkpoints
		for n := range most + 1 {
			if total, err := m.Expected(work, time.Duration(math.Round(ran/float64(n+1)))); err == nil && float64(total) < float64(run.Total)*(1-1e-6) {
				t.Fatalf("%d checkpoints take %v, the best %d take %v", n, total, run.Count, run.Total)
			}
		}
	})
}
