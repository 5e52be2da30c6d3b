package predict

import (
	"errors"
	"math"

	"ckpt/dataset"
)

// A repeats has how runs of the same configuration differ, pooled over configurations: a
// fit sees their means only, and a prediction is of a single run.
type repeats struct {
	// SD is the standard deviation of a run, as a share of the size.
	SD float64 `json:"sd"`
	// Dof is the number of runs beyond the first of each configuration.
	Dof float64 `json:"dof"`
}

// addRuns adds the runs behind a row, of which the mean and the scatter are of one zone.
func addRuns(r *repeats, m dataset.Measurement, mean, scatter float64) *repeats {
	if m.Runs < 2 || mean <= 0 {
		return r
	}
	if r == nil {
		r = new(repeats)
	}
	dof := float64(m.Runs - 1)
	r.SD = math.Sqrt((r.SD*r.SD*r.Dof + scatter/mean*scatter/mean*dof) / (r.Dof + dof))
	r.Dof += dof
	return r
}

// widen adds what a single run differs from the mean to an interval.
func (r *repeats) widen(e estimated) estimated {
	if r == nil {
		return e
	}
	extra := student(math.Round(r.Dof)) * r.SD * e.Value
	e.Low, e.High = max(0, e.Value-math.Hypot(e.Value-e.Low, extra)), e.Value+math.Hypot(e.High-e.Value, extra)
	return e
}

func (r *repeats) check() error {
	if r != nil && !(r.SD >= 0 && r.SD < 1e3 && r.Dof >= 1 && r.Dof < 1e6) {
		return errors.New("the scatter of repeated runs is impossible")
	}
	return nil
}

// data predicts the data zone of a process in one run. Only the thesis has different laws
// for one node and for several.
func (m *Model) data(a App, mpi string, law Law, nodes int) (zoneEstimate, error) {
	e, err := m.meanData(a, mpi, law, nodes)
	if err != nil {
		return e, err
	}
	if f, _ := m.variedOf(a, mpi); f != nil && (law == "" || law == Auto) {
		return e, nil // its laws know the runs of all problem sizes
	}
	if s := m.series(a.Name, a.Class, mpi); s != nil {
		e.estimated = s.Repeats.widen(e.estimated)
	}
	return e, nil
}
