package pattern

import (
	"math"
	"strconv"
)

// An item of a sequence is a run of equal requests a fixed step apart, or a loop of
// items with a fixed shift per round.
type item struct {
	write       bool
	size, count int64
	start       int64 // of the first
	step        int64 // from start to start
	body        []item
	times       int64
	shift       int64
}

const (
	maxRuns  = 2048 // of a sequence; longer ones are not described run by run
	maxItems = 96   // in a description
	maxBody  = 32   // items of a loop
)

// A Sequence has the requests of one rank to one file, compressed: equal steps become
// one item, repetitions become loops, and loops may nest.
type Sequence struct {
	items []item
	long  bool // more than maxRuns
}

// Reset empties the sequence.
func (s *Sequence) Reset() { s.items, s.long = s.items[:0], false }

// Add adds a request.
func (s *Sequence) Add(write bool, off, size int64) {
	if s.long {
		return
	}
	if n := len(s.items); n > 0 {
		last := &s.items[n-1]
		switch {
		case last.write != write || last.size != size:
		case last.count == 1:
			last.step, last.count = off-last.start, 2
			return
		case off == last.start+last.count*last.step:
			last.count++
			return
		}
		if n == maxRuns {
			s.long = true
			return
		}
	}
	s.items = append(s.items, item{write: write, size: size, count: 1, start: off})
}

// folded returns the items with repetitions as loops, or nil if there are still too
// many.
func (s *Sequence) folded() []item {
	if s.long {
		return nil
	}
	items := fold(s.items)
	if leaves(items) > maxItems {
		return nil
	}
	return items
}

// fold replaces repetitions by loops as long as there are any.
func fold(items []item) []item {
	for {
		next := foldOnce(items)
		if len(next) == len(items) {
			return next
		}
		items = next
	}
}

func foldOnce(items []item) []item {
	var out []item
	for i := 0; i < len(items); {
		length, times := 0, 1
		for l := 1; l <= maxBody && i+2*l <= len(items); l++ {
			if t := repeats(items[i:], l); t > 1 && t*l > times*length {
				length, times = l, t
			}
		}
		// Two equal neighbours are shorter than their loop.
		if length == 0 || length == 1 && times == 2 {
			out = append(out, items[i])
			i++
			continue
		}
		body := fold(items[i : i+length])
		out = append(out, item{start: body[0].start, body: body, times: int64(times), shift: items[i+length].start - items[i].start})
		i += length * times
	}
	return out
}

// repeats returns how often the first l items occur one after the other with a
// constant shift.
func repeats(items []item, l int) int {
	shift := items[l].start - items[0].start
	times := 1
	for at := l; at+l <= len(items); at += l {
		for j := range l {
			a, b := &items[at-l+j], &items[at+j]
			if b.start-a.start != shift || !alike(a, b) {
				return times
			}
		}
		times++
	}
	return times
}

// alike reports whether b is a at another offset.
func alike(a, b *item) bool {
	if a.write != b.write || a.size != b.size || a.count != b.count || a.step != b.step ||
		a.times != b.times || a.shift != b.shift || len(a.body) != len(b.body) {
		return false
	}
	for i := range a.body {
		if a.body[i].start-a.start != b.body[i].start-b.start || !alike(&a.body[i], &b.body[i]) {
			return false
		}
	}
	return true
}

func leaves(items []item) int {
	n := 0
	for i := range items {
		n += max(1, leaves(items[i].body))
	}
	return n
}

// shape is the common description of sequences that differ only in where their runs
// begin.
func shape(b []byte, items []item) []byte {
	num := func(n int64) { b = strconv.AppendInt(append(b, ' '), n, 36) }
	for i := range items {
		it := &items[i]
		if it.body != nil {
			b = append(b, '(')
			b = append(shape(b, it.body), ')')
			num(it.times)
			num(it.shift)
			continue
		}
		op := byte('r')
		if it.write {
			op = 'w'
		}
		b = append(b, op)
		num(it.size)
		num(it.count)
		num(it.step)
	}
	return b
}

// starts appends the start offsets of the runs.
func starts(to []int64, items []item) []int64 {
	for i := range items {
		if it := &items[i]; it.body != nil {
			to = starts(to, it.body)
		} else {
			to = append(to, it.start)
		}
	}
	return to
}

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
