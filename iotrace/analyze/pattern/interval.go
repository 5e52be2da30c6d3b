package pattern

import "math"

const (
	leastStarts = 4    // of phases, for the intervals to show a period
	enough      = 9    // phases, for the bounds to hold in full
	spread      = 0.25 // standard deviation of the intervals, in means
	offGrid     = 0.22 // the same of the starts from an even grid
	widest      = 0.36 // spread of the intervals of phases on a grid
	steady      = 0.1  // spread within which the intervals may drift
	drift       = 0.4  // correlation of an interval with the next
	sloped      = 4    // t of the correlation of intervals with their places
)

// starts returns the starts of the phases that count.
func (v *Visits) starts() []float64 {
	var largest float64
	for _, x := range v.list {
		largest = max(largest, x.bytes)
	}
	var out []float64
	for _, x := range v.list {
		if x.bytes >= weighty*largest {
			out = append(out, x.start)
		}
	}
	return out
}

// intervals describes the times from start to start: their mean, their standard
// deviation in means, and the confidence that they are one time with jitter, at least
// one half if so and 0 if not.
//
// Jitter spoils the spectrum: the phase of a program that sleeps between its writes
// walks away, and short phases have many harmonics as strong as the base. The spread of
// the intervals is then the better witness. It is 1 for starts at random, and 0.35 to
// 0.6 for two unrelated periods or starts at random with a least distance. Starts that
// are early or late on an even grid have intervals that vary √2 times as much as the
// starts, and are measured by their distance from the grid. A few intervals may be alike
// by chance, so the bounds are narrower for fewer. Intervals that grow, shrink or wander
// are no period: each is like the one before.
func (v *Visits) intervals() (mean, deviation, confidence float64) {
	s := v.starts()
	n := len(s)
	if n < 2 {
		return 0, 0, 0
	}
	mean = (s[n-1] - s[0]) / float64(n-1)
	if !(mean > 0) || math.IsInf(mean, 0) {
		return 0, 0, 0
	}
	var squares, products, before, trend, places float64
	for i := 1; i < n; i++ {
		x := (s[i]-s[i-1])/mean - 1
		squares += x * x
		products += x * before
		before = x
		place := float64(i) - float64(n)/2
		trend += x * place
		places += place * place
	}
	deviation = math.Sqrt(squares / float64(n-1))
	if n < leastStarts {
		return mean, deviation, 0
	}
	if deviation > steady && (ratio(products, squares) > max(drift, 2/math.Sqrt(float64(n))) || grows(ratio(trend, math.Sqrt(squares*places)), n-1)) {
		return mean, deviation, 0
	}
	scale := min(1, float64(n-leastStarts+1)/float64(enough-leastStarts+1))
	doubt := deviation / (spread * scale)
	if deviation < widest*scale {
		doubt = min(doubt, residue(s, mean)/(offGrid*scale))
	}
	if !(doubt <= 1) {
		return mean, deviation, 0
	}
	return mean, deviation, 1 - doubt/2
}

// grows reports whether so many intervals, with this correlation of each with its
// place, grow or shrink: Student's t of the correlation is as large by chance for one in a
// hundred traces with seven intervals, and for fewer with more of them.
func grows(correlation float64, intervals int) bool {
	r := correlation * correlation
	return intervals > 2 && r*float64(intervals-2) > sloped*sloped*(1-r)
}

// residue returns the standard deviation of the starts from the even grid that fits
// them best, in means of the intervals.
func residue(s []float64, mean float64) float64 {
	n := float64(len(s))
	var center float64
	for _, x := range s {
		center += x / n
	}
	var slope, kk float64
	for i, x := range s {
		k := float64(i) - (n-1)/2
		slope += k * (x - center)
		kk += k * k
	}
	slope /= kk
	var squares float64
	for i, x := range s {
		y := (x - center - slope*(float64(i)-(n-1)/2)) / mean
		squares += y * y
	}
	return math.Sqrt(squares / n)
}
