package interval

import (
	"math"
	"time"
)

// Optimum are the best intervals by several formulas.
type Optimum struct {
	Young time.Duration
	Daly  time.Duration // higher order
	Exact time.Duration // the minimiser of the expected time
	// FirstOrder minimises the first-order waste of coordinated checkpoints. It is 0
	// if D+R ≥ M, or if the period does not exceed the cost.
	FirstOrder time.Duration
}

// Optimum returns the best intervals. Only Exact considers logs; Young, Daly and
// FirstOrder hold for coordinated checkpoints of the same cost.
func (m *Model) Optimum() (Optimum, error) {
	if err := m.check(); err != nil {
		return Optimum{}, err
	}
	r := m.rates()
	young := math.Sqrt(2 * r.cost * r.mtbf)
	ratio := r.cost / (2 * r.mtbf)
	daly := young*(1+math.Sqrt(ratio)/3+ratio/9) - r.cost
	exact := r.exact()
	var o Optimum
	var err error
	for _, v := range []struct {
		to      *time.Duration
		seconds float64
	}{{&o.Young, young}, {&o.Daly, daly}, {&o.Exact, exact}} {
		if *v.to, err = duration("interval", v.seconds); err != nil {
			return Optimum{}, err
		}
		*v.to = max(*v.to, 1) // no interval is 0
	}
	if left := r.mtbf - r.down - r.restart; left > 0 {
		if w := math.Sqrt(2*left*r.cost) - r.cost; w > 0 {
			o.FirstOrder = time.Duration(math.Round(w * 1e9))
		}
	}
	return o, nil
}

// A RuleRow is the interval of a rule and its cost.
type RuleRow struct {
	Rule       string   `json:"rule"`
	Interval   float64  `json:"interval_s"`
	Waste      float64  `json:"waste"`
	FirstOrder *float64 `json:"waste_first_order"` // null where that order does not suffice
	Total      float64  `json:"total_s"`
}

// Rules compares the best intervals for a run of work, and given ones.
func (o *Optimum) Rules(m *Model, work time.Duration, given ...time.Duration) (rows []RuleRow, err error) {
	type rule struct {
		name string
		at   time.Duration
	}
	rules := []rule{{"Young", o.Young}, {"Daly", o.Daly}}
	if o.FirstOrder > 0 { // it has an optimum here
		rules = append(rules, rule{"first order", o.FirstOrder})
	}
	rules = append(rules, rule{"exact", o.Exact})
	for _, at := range given {
		rules = append(rules, rule{"given", at})
	}
	for _, rule := range rules {
		total, err := m.Total(work, rule.at)
		if err != nil {
			return nil, err
		}
		waste, err := m.Waste(rule.at)
		if err != nil {
			return nil, err
		}
		row := RuleRow{Rule: rule.name, Interval: rule.at.Seconds(), Waste: waste, Total: total.Seconds()}
		if first, err := m.FirstOrderWaste(rule.at); err == nil {
			row.FirstOrder = &first
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *rates) exact() float64 {
	if r.replay == 1 && r.growth == 0 {
		return r.mtbf * onePlusLambert(r.cost/r.mtbf)
	}
	return r.bisect()
}

// onePlusLambert returns u = 1 + W(−e^{−1−d}) on the principal branch, for
// 0 < d ≤ 2. Computing W and adding 1 would cancel near its branch point, so
// the equation is solved for u itself: (1−u)·e^u = e^{−d}, that is
// −log(1−u) − u = d, by Newton's iteration.
func onePlusLambert(d float64) float64 {
	// The start is Daly's formula: the expansion of u in √(d/2). For small d it is
	// more precise than the equation, which suffers from cancellation.
	s := math.Sqrt(d / 2)
	u := min(2*s*(1+s/3+s*s/9)-d, 1-1e-9)
	if d < 1e-8 {
		return u
	}
	for range 50 { // 6 suffice: the function is convex and the start close
		next := u - (-math.Log1p(-u)-u-d)*(1-u)/u
		done := math.Abs(next-u) <= 1e-15*u
		if u = next; done {
			break
		}
	}
	return u
}

// bisect finds the minimum of segment(w)/w where no closed form is known: the
// only zero of the growing function w·s′(w) − s(w), s being convex.
func (r *rates) bisect() float64 {
	slope := func(w float64) float64 {
		a := 1 / (r.replay * r.mtbf)
		b := a + r.growth/r.mtbf
		if b*w > maxExponent {
			return math.Inf(1)
		}
		derivative := (r.replay-1)*a*math.Exp(a*w) + b*math.Exp(b*w+r.cost/r.mtbf)
		return w*derivative - r.segment(w, r.cost+r.growth*w)
	}
	lo, hi := 0.0, math.Sqrt(2*r.cost*r.mtbf)
	for slope(hi) < 0 {
		lo, hi = hi, 2*hi
	}
	for range 200 {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if slope(mid) < 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// Run is the best division of a run of a given length by checkpoints.
type Run struct {
	Count    int           // checkpoints, none at the end
	Interval time.Duration // of running between two; the whole run without any
	Total    time.Duration // expected time of the run
	// Alone is the expected time without any checkpoint and any message log, 0 if that
	// is over 292 years.
	Alone time.Duration
}

// A RunRow is a [Run] in seconds.
type RunRow struct {
	Count    int      `json:"count"`
	Interval float64  `json:"interval_s"`
	Total    float64  `json:"total_s"`
	Alone    *float64 `json:"unprotected_s"` // expected without checkpoints; null over 292 years
}

// Row is the run in seconds.
func (r *Run) Row() *RunRow {
	row := &RunRow{Count: r.Count, Interval: r.Interval.Seconds(), Total: r.Total.Seconds()}
	if r.Alone > 0 {
		seconds := r.Alone.Seconds()
		row.Alone = &seconds
	}
	return row
}

// Best returns the number of checkpoints that divide a run of work with the least
// expected time. A run that is short against the MTBF is best without any: [Optimum] is
// for a run without end.
func (m *Model) Best(work time.Duration) (Run, error) { return m.BestUpTo(work, maxCount) }

// BestUpTo is Best with at most so many checkpoints.
func (m *Model) BestUpTo(work time.Duration, most int) (Run, error) {
	if err := m.checkRun(work, 1); err != nil {
		return Run{}, err
	}
	r := m.rates()
	run := work.Seconds() / r.speed
	n := r.bestCount(run, max(0, most))
	best := Run{Count: n}
	var err error
	if best.Interval, err = duration("interval", run/float64(n+1)); err != nil {
		return Run{}, err
	}
	if best.Total, err = duration("total time", r.divided(run, n)); err != nil {
		return Run{}, err
	}
	r.speed, r.replay, r.growth = 1, 1, 0
	if alone, err := duration("total time", r.divided(work.Seconds(), 0)); err == nil {
		best.Alone = alone
	}
	return best, nil
}

// divided is the expected time of a run that n checkpoints divide evenly.
func (r *rates) divided(run float64, n int) float64 {
	w := run / float64(n+1)
	sum := r.segment(w, 0)
	if n > 0 { // 0·∞ is not 0
		sum += float64(n) * r.segment(w, r.cost+r.growth*w)
	}
	return r.factor() * sum
}

// bestCount goes downhill from the number of intervals that would be best in a run
// without end.
func (r *rates) bestCount(run float64, most int) int {
	n := int(math.Min(float64(most), math.Max(0, math.Round(run/r.exact())-1)))
	for n > 0 && !(r.divided(run, n-1) > r.divided(run, n)) {
		n--
	}
	for n < most && r.divided(run, n+1) < r.divided(run, n) {
		n++
	}
	return n
}
