package fit

import (
	"errors"
	"math"
)

// A repeats has how runs of the same configuration differ, pooled over configurations: a
// fit sees their means only, and a prediction is of a single run.
type repeats struct {
	// SD is the standard deviation of a run, as a share of the size.
	SD float64 `json:"sd"`
	// Dof is the number of runs beyond the first of each configuration.
	Dof float64 `json:"dof"`
}

// addRuns adds runs of one configuration, with their mean and scatter.
func AddRuns(r *repeats, runs int, mean, scatter float64) *repeats {
	if runs < 2 || mean <= 0 {
		return r
	}
	if r == nil {
		r = new(repeats)
	}
	dof := float64(runs - 1)
	r.SD = math.Sqrt((r.SD*r.SD*r.Dof + scatter/mean*scatter/mean*dof) / (r.Dof + dof))
	r.Dof += dof
	return r
}

// widen adds what a single run differs from the mean to an interval.
func (r *repeats) Widen(e Estimate) Estimate {
	if r == nil {
		return e
	}
	extra := Student(math.Round(r.Dof)) * r.SD * e.Value
	e.Low, e.High = max(0, e.Value-math.Hypot(e.Value-e.Low, extra)), e.Value+math.Hypot(e.High-e.Value, extra)
	return e
}

func (r *repeats) Check() error {
	if r != nil && !(r.SD >= 0 && r.SD < 1e3 && r.Dof >= 1 && r.Dof < 1e6) {
		return errors.New("the scatter of repeated runs is impossible")
	}
	return nil
}
