package descent

import (
	"errors"
	"math"
	"testing"
)

// TestFindsLine fits a line to points of which one is wild.
func TestFindsLine(t *testing.T) {
	at := []float64{0, 0}
	_, err := Search(at, func(p []float64) (float64, error) {
		sum := 0.0
		for i := range 20 {
			y := 3 - 0.5*float64(i)
			if i == 7 {
				y = 100
			}
			sum += Robust(p[0] + p[1]*float64(i) - y)
		}
		return sum, nil
	})
	if err != nil || math.Abs(at[0]-3) > 0.15 || math.Abs(at[1]+0.5) > 0.02 {
		t.Errorf("found %v, %v", at, err)
	}
}

func TestErrorEndsSearch(t *testing.T) {
	calls, wrong := 0, errors.New("wrong")
	_, err := Search([]float64{0}, func([]float64) (float64, error) {
		if calls++; calls == 3 {
			return 0, wrong
		}
		return float64(calls), nil
	})
	if !errors.Is(err, wrong) || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestGolden finds minima within the range, at its ends, and beside losses that are
// infinite.
func TestGolden(t *testing.T) {
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
