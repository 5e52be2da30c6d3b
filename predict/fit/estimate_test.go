package fit

import (
	"math"
	"testing"
)

// A time has an interval of a factor, so that no doubt reaches 0.
func TestPositive(t *testing.T) {
	for _, sd := range []float64{0, 0.1, 1, 10, math.MaxFloat64} {
		e := Positive(41, sd, 3, 1)
		if !(e.Low > 0 && e.Low <= 41 && e.High >= 41) || math.IsInf(e.High, 0) || math.Abs(e.Low*e.High/(41*41)-1) > 1e-6 {
			t.Errorf("sd %g: %+v", sd, e)
		}
	}
}

// TestDriftFinite: a calibration by sizes and arrays that are empty, or far apart, is a number.
func TestDriftFinite(t *testing.T) {
	sizes := []float64{0, 1e-6, 1, 1e6, 1e12}
	for _, mib := range sizes {
		for _, arrays := range sizes {
			for points := 1; points <= 4; points++ {
				d := &Drift{}
				for i := range points {
					p := math.Pow(4, float64(i+1))
					d.Add(p, Arrays{arrays / p, arrays / p / 2}, mib/p*(1+0.01*float64(i%2)))
				}
				b, err := d.Predict(1024, Arrays{arrays / 1024, arrays / 2048})
				if err != nil {
					t.Fatal(err)
				}
				e := b.Estimate(1)
				if sum := e.Value + e.Low + e.High + d.Missed(); math.IsNaN(sum) || math.IsInf(sum, 0) || e.Low > e.High {
					t.Errorf("%d points of %g MiB with arrays of %g: %+v, left out %g", points, mib, arrays, e, d.Missed())
				}
			}
		}
	}
}

// TestFar: no note says that a number is extrapolated by a factor of 1.
func TestFar(t *testing.T) {
	for f := 1.0; f < 1.2; f += 0.0007 {
		if Far(f) != (Factor(f) != "1") {
			t.Errorf("a factor of %g is written %s, far %v", f, Factor(f), Far(f))
		}
	}
}
