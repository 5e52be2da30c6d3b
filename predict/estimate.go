package predict

import "math"

// An estimated value is a number with an interval that contains the true value in 95
// of 100 cases. The field that holds it determines the unit.
type estimated struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Extrapolation is the factor by which the prediction lies outside the range of
	// the fitted points, or 1 inside it.
	Extrapolation float64 `json:"extrapolation"`
}

// estimate makes an interval of half a width. Nonnegative quantities stay nonnegative.
func estimate(value, half, extrapolation float64) estimated {
	return estimated{value, max(0, value-half), value + half, max(1, extrapolation)}
}

// half is the half width of the interval.
func (e estimated) half() float64 { return max(e.High-e.Value, e.Value-e.Low) }

// scale multiplies an estimate by a number known exactly.
func (e estimated) scale(f float64) estimated {
	return estimated{e.Value * f, e.Low * f, e.High * f, e.Extrapolation}
}

// independent adds estimates with independent errors: the squares of the widths add, on
// each side.
func independent(list ...estimated) estimated {
	sum := estimated{Extrapolation: 1}
	below, above := 0.0, 0.0
	for _, e := range list {
		sum.Value += e.Value
		below += (e.Value - e.Low) * (e.Value - e.Low)
		above += (e.High - e.Value) * (e.High - e.Value)
		sum.Extrapolation = max(sum.Extrapolation, e.Extrapolation)
	}
	sum.Low, sum.High = max(0, sum.Value-math.Sqrt(below)), sum.Value+math.Sqrt(above)
	return sum
}

// contains reports whether v lies in the interval.
func (e estimated) contains(v float64) bool { return e.Low <= v && v <= e.High }

// beyond returns the factor by which x lies outside [low, high].
func beyond(x, low, high float64) float64 {
	switch {
	case x <= 0 || low <= 0 || high <= 0:
		return 1
	case x < low:
		return low / x
	case x > high:
		return x / high
	}
	return 1
}
