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
