package analyze

import (
	"math"

	"ckpt/iotrace"
)

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
