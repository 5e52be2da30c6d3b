package analyze

import (
	"cmp"
	"math"
	"slices"

	"ckpt/iotrace"
)

// A counter counts how often values occur, in bounded memory. After more than cap
// different values, or twice as many by merging, it keeps the common ones (Misra and
// Gries 1982). It never drops a value with more than 1/(cap+1) of all occurrences.
// Counts may then be too low, and lossy is set.
type counter struct {
	counts map[int64]int64
	cap    int
	lossy  bool
	// Values often come in runs.
	last, run int64
}

func newCounter(cap int) *counter { return &counter{counts: map[int64]int64{}, cap: cap} }

func (c *counter) reset() {
	clear(c.counts)
	c.lossy, c.run = false, 0
}

func (c *counter) add(value, n int64) {
	if value == c.last {
		c.run += n
		return
	}
	c.flush()
	c.last, c.run = value, n
}

func (c *counter) flush() {
	value, n := c.last, c.run
	c.run = 0
	if n == 0 {
		return
	}
	if _, ok := c.counts[value]; ok || len(c.counts) < c.cap {
		c.counts[value] += n
		return
	}
	c.lossy = true
	// Subtract the smallest count, or n, from all and from n.
	least := n
	for _, m := range c.counts {
		least = min(least, m)
	}
	for v, m := range c.counts {
		if m == least {
			delete(c.counts, v)
		} else {
			c.counts[v] = m - least
		}
	}
	if n > least {
		c.counts[value] = n - least
	}
}

// A counted is a value with its count.
type counted struct{ value, count int64 }

// most returns the n commonest values, the smallest of equally common ones first.
func (c *counter) most(n int) []counted {
	c.flush()
	out := make([]counted, 0, n+1)
	for v, count := range c.counts {
		x := counted{v, count}
		at, _ := slices.BinarySearchFunc(out, x, func(a, b counted) int {
			return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.value, b.value))
		})
		if at == n {
			continue
		}
		out = slices.Insert(out, at, x)
		out = out[:min(n, len(out))]
	}
	return out
}

func (c *counter) top() counted {
	if m := c.most(1); len(m) > 0 {
		return m[0]
	}
	return counted{}
}

// merge adds the counts of another counter. The order of merges does not matter
// (Agarwal et al., Mergeable Summaries, PODS 2012).
func (c *counter) merge(o *counter) {
	c.flush()
	o.flush()
	for v, n := range o.counts {
		c.counts[v] += n
	}
	c.lossy = c.lossy || o.lossy
	if len(c.counts) <= 2*c.cap {
		return
	}
	c.lossy = true
	counts := make([]int64, 0, len(c.counts))
	for _, n := range c.counts {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	less := counts[len(counts)-1-c.cap] // the largest count to drop
	for v, n := range c.counts {
		if n <= less {
			delete(c.counts, v)
		} else {
			c.counts[v] = n - less
		}
	}
}

// Traces may have any numbers. The functions below do not overflow and return no NaN.

// end returns the end of a request at off, if off is not negative.
func end(off, size int64) int64 { return iotrace.Sum(off, max(size, 0)) }

// seconds returns the time from start to end in ns as seconds, or 0 if the clock ran
// backwards.
func seconds(start, end int64) float64 {
	if end <= start {
		return 0
	}
	return float64(uint64(end)-uint64(start)) / 1e9
}

// after reports whether end comes more than gap after start.
func after(start, end, gap int64) bool {
	return end > start && uint64(end)-uint64(start) > uint64(gap)
}

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b float64) float64 {
	if q := a / b; !math.IsNaN(q) && !math.IsInf(q, 0) {
		return q
	}
	return 0
}

// share returns a/b of counts.
func share(a, b int64) float64 { return ratio(float64(a), float64(b)) }

// moments of pairs of numbers, by Welford's recurrence, which loses no digits if the
// numbers are large and differ little.
type moments struct {
	n                      float64
	meanX, meanY           float64
	varX, varY, covariance float64 // times n
}

func (m *moments) add(x, y float64) {
	m.n++
	dx := x - m.meanX
	m.meanX += dx / m.n
	dy := y - m.meanY
	m.meanY += dy / m.n
	m.varX += dx * (x - m.meanX)
	m.varY += dy * (y - m.meanY)
	m.covariance += dx * (y - m.meanY)
}

// merge adds the pairs of o (Chan, Golub, LeVeque 1979).
func (m *moments) merge(o *moments) {
	if o.n == 0 {
		return
	}
	n := m.n + o.n
	dx, dy, f := o.meanX-m.meanX, o.meanY-m.meanY, m.n*o.n/n
	m.varX += o.varX + dx*dx*f
	m.varY += o.varY + dy*dy*f
	m.covariance += o.covariance + dx*dy*f
	m.meanX += dx * o.n / n
	m.meanY += dy * o.n / n
	m.n = n
}

// pearson returns the correlation of León's Equation 3.7, r = Σ Zx·Zy / N, or nil if
// it is undefined: fewer than two pairs, or one side constant.
func (m *moments) pearson() *float64 {
	// Two roots, because the product may overflow.
	r := m.covariance / (math.Sqrt(m.varX) * math.Sqrt(m.varY))
	if m.n < 2 || math.IsNaN(r) || math.IsInf(r, 0) {
		return nil
	}
	r = max(-1, min(1, r))
	return &r
}
