package traces

import "testing"

// TestOverheadText: the cost is a range, or a bound where it cannot be told from nothing, and
// never more than the run.
func TestOverheadText(t *testing.T) {
	const us = 1e-6
	for _, c := range []struct {
		more []float64
		wall float64
		want string
	}{
		{[]float64{30 * us, 40 * us, 50 * us}, 0.16, "30 to 50 µs each: 30 ms to 50 ms of 160 ms (19 to 31 %)"},
		{[]float64{-8 * us, 0.2 * us, 0.4 * us}, 0.16, "not measurable: less than 0.4 µs each, 0.40 ms of 160 ms (0 %)"},
		{[]float64{-3 * us, -2 * us, -1 * us}, 0.16, "too little to be measured"},
		{[]float64{30 * us, 40 * us, 500 * us}, 0.1, "30 to 500 µs each: 30 ms to 100 ms of 100 ms (30 to 100 %)"},
		{[]float64{200 * us, 300 * us, 400 * us}, 0.1, "200 to 400 µs each: up to all of 100 ms"},
	} {
		o := overhead{Calls: 1000, Wall: c.wall}
		o.estimate(c.more)
		if got := o.cost(); got != c.want {
			t.Errorf("%v: %s, want %s", c.more, got, c.want)
		}
	}
}

// TestMedianOf: a few wild values, of a busy machine, change nothing.
func TestMedianOf(t *testing.T) {
	values := []float64{1000, -1000}
	for i := range 40 {
		values = append(values, 8+float64(i%5)/10)
	}
	if median, low, high := medianOf(values); median < 8.1 || median > 8.3 || low < 8 || high > 8.4 {
		t.Errorf("%g, between %g and %g", median, low, high)
	}
}
