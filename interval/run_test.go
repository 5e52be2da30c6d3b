package interval_test

import (
	"fmt"
	"math"
	"testing"
	"time"

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

// TestPlanIsBest: simulated with failures, a run at the planned interval takes at most
// 2 % longer than at the best interval that brute force finds.
func TestPlanIsBest(t *testing.T) {
	for _, m := range plannedModels() {
		for _, length := range []float64{0.3, 1.5, 8} { // of the MTBF
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
