package interval

import (
	"math"
	"time"
)

// Run is the best division of a run of a given length by checkpoints.
type Run struct {
	Count    int           // checkpoints, none at the end
	Interval time.Duration // of running between two; that of the whole run without any
	Total    time.Duration // expected time of the run
	// Alone is the expected time without any checkpoint and any message log, 0 if that
	// is over 292 years.
	Alone time.Duration
}

// Best returns the number of checkpoints that divide a run of work with the least
// expected time. A run that is short against the MTBF is best without any: [Optimum] is
// that of a run without end.
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
