package timing

import (
	"context"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"

	"ckpt/internal/race"
)

func mustLoad(t testing.TB, name string) *Machine {
	t.Helper()
	m, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type workload interface {
	Run(ctx context.Context, s Setup) (*Result, error)
}

func mustRun(t testing.TB, w workload, s Setup) *Result {
	t.Helper()
	if s.Machine == nil {
		s.Machine = mustLoad(t, "lap06")
	}
	r, err := w.Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// slow marks a test that takes long under the race detector. A cluster is for one
// goroutine, so that nothing can race.
func slow(t *testing.T) {
	t.Helper()
	if race.Enabled {
		t.Skip("the race detector makes it slow, and other tests run the same code")
	}
	t.Parallel()
}

// less checks an order.
func less(t *testing.T, what string, small, factor, large float64) {
	t.Helper()
	t.Logf("%s: %.4g, %.4g", what, small, large)
	if !(small*factor <= large) {
		t.Errorf("%s: %.4g, want at most 1/%g of %.4g", what, small, factor, large)
	}
}

// same checks that figures differ by a share of the least at most.
func same(t *testing.T, what string, share float64, figures ...float64) {
	t.Helper()
	low, high := math.Inf(1), math.Inf(-1)
	for _, f := range figures {
		low, high = min(low, f), max(high, f)
	}
	t.Logf("%s: %.4g", what, figures)
	if !(high <= low*(1+share)) {
		t.Errorf("%s: %.4g to %.4g, want a difference of at most %.0f %%", what, low, high, share*100)
	}
}

// line fits y = base + slope x, and checks how well it does.
func fitLine(t *testing.T, what string, x, y []float64, least float64) (base, slope float64) {
	t.Helper()
	base, slope = stat.LinearRegression(x, y, nil, false)
	r2 := stat.RSquared(x, y, nil, base, slope)
	t.Logf("%s: %.4g + %.4g x, R² %.5f, of %.4g", what, base, slope, r2, y)
	if !(r2 >= least) {
		t.Errorf("%s: R² of %.5f for %.4g, want %g", what, r2, y, least)
	}
	return base, slope
}
