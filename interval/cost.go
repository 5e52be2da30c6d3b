package interval

import (
	"math"
	"time"
)

// segment returns the expected time of w seconds of running followed by a checkpoint
// of c seconds, in units of (M+D)·e^{R/M}: the bracket in the package comment. It
// returns +Inf if the job would never finish.
func (r *rates) segment(w, c float64) float64 {
	a := w / (r.replay * r.mtbf)
	b := a + c/r.mtbf
	if b > maxExponent {
		return math.Inf(1)
	}
	return (r.replay-1)*math.Expm1(a) + math.Expm1(b)
}

// factor is the unit of segment.
func (r *rates) factor() float64 { return (r.mtbf + r.down) * math.Exp(r.restart/r.mtbf) }

// Total returns the expected time of a run of work at an interval with Daly's cost:
// every interval, even a broken last one, pays its share of a checkpoint. Failures are
// exponential.
func (m *Model) Total(work, interval time.Duration) (time.Duration, error) {
	if err := m.checkRun(work, interval); err != nil {
		return 0, err
	}
	r := m.rates()
	return duration("total time", r.total(work.Seconds(), interval.Seconds()))
}

func (r *rates) total(work, w float64) float64 {
	return r.factor() * r.segment(w, r.cost+r.growth*w) * work / (r.speed * w)
}

// Expected returns the expected time of a run of work of whole intervals and a
// last, shorter one, without a checkpoint at its end: the run that [Simulation]
// replays. Failures are exponential.
func (m *Model) Expected(work, interval time.Duration) (time.Duration, error) {
	if err := m.checkRun(work, interval); err != nil {
		return 0, err
	}
	r := m.rates()
	full, w, rest := r.divide(work.Seconds(), interval.Seconds())
	sum := r.segment(rest, 0)
	if full > 0 { // 0·∞ is not 0
		sum += full * r.segment(w, r.cost+r.growth*w)
	}
	return duration("total time", r.factor()*sum)
}

// divide divides work into full segments of w seconds of running, which end
// with a checkpoint, and the rest, which is not 0.
func (r *rates) divide(work, w float64) (full, length, rest float64) {
	run := work / r.speed
	// A remainder of rounding errors is 0.
	full = math.Max(0, math.Ceil(run/w-1e-9)-1)
	return full, w, run - full*w
}

// Waste returns the expected share of the time that is not work, in [0, 1), by
// Daly's cost.
func (m *Model) Waste(interval time.Duration) (float64, error) {
	if err := m.checkRun(1, interval); err != nil {
		return 0, err
	}
	r := m.rates()
	total := r.total(1, interval.Seconds())
	return math.Max(0, 1-1/total), nil // rounding may leave −1e−16
}

// FirstOrderWaste returns the waste to first order in 1/M (Hérault, Robert 2015). It
// returns a [*RangeError] if that order is not sufficient, because a failure costs
// more than the time to the next one.
func (m *Model) FirstOrderWaste(interval time.Duration) (float64, error) {
	if err := m.checkRun(1, interval); err != nil {
		return 0, err
	}
	r := m.rates()
	w := interval.Seconds()
	c := r.cost + r.growth*w
	period := w + c
	// On average half the period is lost. Of a checkpoint in progress and the work
	// before it, only the work is computed again ρ times faster.
	lost := (w*w/2/r.replay + c*w/r.replay + c*c/2) / period
	perFailure := r.down + r.restart + lost
	if perFailure >= r.mtbf {
		return 0, outOfRange("loss per failure", time.Duration(perFailure*1e9), "is not below the MTBF, so the first-order waste means nothing",
			"use the exact waste, or a shorter interval")
	}
	return 1 - r.speed*(1-c/period)*(1-perFailure/r.mtbf), nil
}

func (m *Model) checkRun(work, interval time.Duration) error {
	if err := m.check(); err != nil {
		return err
	}
	if err := positive("application time", work); err != nil {
		return err
	}
	return positive("interval", interval)
}
