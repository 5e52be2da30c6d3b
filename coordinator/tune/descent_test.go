package tune

import (
	"errors"
	"math"
	"testing"
)

// TestSearchFindsLine fits a line to points of which one is wild.
func TestSearchFindsLine(t *testing.T) {
	at := []float64{0, 0}
	_, err := Descend(at, func(p []float64) (float64, error) {
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
	_, err := Descend([]float64{0}, func([]float64) (float64, error) {
		if calls++; calls == 3 {
			return 0, wrong
		}
		return float64(calls), nil
	})
	if !errors.Is(err, wrong) || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
}
