package interval

import (
	"math"
	"testing"
)

// TestGoldenSection finds minima within the range, at its ends, and beside losses that are
// infinite.
func TestGoldenSection(t *testing.T) {
	for _, c := range []struct {
		low, high, want float64
		loss            func(float64) float64
	}{
		{-3, 5, 1.25, func(x float64) float64 { return (x - 1.25) * (x - 1.25) }},
		{2, 5, 2, func(x float64) float64 { return x }},
		{2, 5, 5, func(x float64) float64 { return -x }},
		{-10, 10, -7, func(x float64) float64 {
			if x > -5 {
				return math.Inf(1)
			}
			return math.Abs(x + 7)
		}},
	} {
		if got := Golden(c.low, c.high, 1e-6, c.loss); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("from %v to %v: %v, want %v", c.low, c.high, got, c.want)
		}
	}
}
