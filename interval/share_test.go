package interval_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"ckpt/interval"
)

// TestFitShare: for any share and number of failures, intervals hold the share with a
// probability of 95 % or more, and the value lies inside.
func TestFitShare(t *testing.T) {
	for _, n := range []int{1, 3, 10, 30, 100} {
		var fits []interval.ShareFit
		for x := range n + 1 {
			f, err := interval.FitShare(x, n)
			if err != nil || !(f.Low <= f.Value && f.Value <= f.High && f.Value > 0 && f.Value < 1) {
				t.Fatalf("%+v, %v", f, err)
			}
			if f.Few() != (n < 30) {
				t.Errorf("%d failures are few: %v", n, f.Few())
			}
			fits = append(fits, f)
		}
		for p := 0.005; p < 1; p += 0.01 {
			held := 0.0
			for x, f := range fits {
				if f.Low <= p && p <= f.High {
					held += distuv.Binomial{N: float64(n), P: p}.Prob(float64(x))
				}
			}
			if held < 0.95-1e-9 {
				t.Errorf("of %d failures, a share of %.3f is held with %.4f", n, p, held)
			}
		}
	}
	f, err := interval.FitShare(17, 20)
	// Clopper and Pearson for 17 of 20, as in tables: 62.1 to 96.8 %.
	if err != nil || math.Abs(f.Low-0.6211) > 1e-4 || math.Abs(f.High-0.9679) > 1e-4 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, c := range [][2]int{{0, 0}, {-1, 3}, {4, 3}} {
		_, err := interval.FitShare(c[0], c[1])
		refused(t, err, "number of failures")
	}
}
