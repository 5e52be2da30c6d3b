package plan

import (
	"math"
	"testing"
	"time"

	"ckpt/interval"
)

// TestPlannedCount: simulated with failures, a run with the interval that a plan uses
// takes at most 2 % longer than with the best number of checkpoints that the overhead
// pays for, found by brute force.
func TestPlannedCount(t *testing.T) {
	const app = 40000.0
	for _, c := range []struct{ cost, restart, mtbf, overhead float64 }{
		{300, 600, 20000, 0}, {300, 600, 20000, 0.03}, {300, 600, 500000, 0}, {2000, 2000, 30000, 0}, {50, 20, 4000, 0.1}, {300, 600, 30000, 0.001},
	} {
		p := Planning{MTBFS: c.mtbf, Overhead: c.overhead}
		tau, _, _, err := p.expected(failing{appS: app, costS: c.cost, restartS: c.restart})
		if err != nil {
			t.Fatal(err)
		}
		simulate := func(seconds float64) float64 {
			s := interval.Simulation{Model: interval.Model{Cost: interval.Lasting(c.cost), MTBF: interval.Lasting(c.mtbf), Restart: interval.Lasting(c.restart)},
				Work: interval.Lasting(app), Interval: time.Duration(math.Round(seconds * 1e9)), Shape: 1, Runs: 4000, Seed: 5}
			e, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return e.Mean.Seconds()
		}
		best := math.Inf(1)
		for n := range min(80, affordable(app, c.cost, c.overhead)+1) {
			best = min(best, simulate(app/float64(n+1)))
		}
		if planned := simulate(tau); planned > 1.02*best {
			t.Errorf("%+v: an interval of %.0f s takes %.0f s, the best %.0f s", c, tau, planned, best)
		}
	}
}
