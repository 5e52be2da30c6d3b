package fit

import (
	"fmt"
	"math"
	"slices"
)

// fit chooses among the laws by the error of points left out. Those within a factor of
// the best cannot be told apart: they share the weight.
func (f *Varied) Fit() error {
	if len(f.Points) > MaxPoints {
		return Refuse("give means of repeated runs, and fewer process counts", "%s: %d points are more than the %d that can be fitted", f.Name(), len(f.Points), MaxPoints)
	}
	best := math.Inf(1)
	var laws []*variedLaw
	for _, terms := range f.candidates() {
		l, err := fitTerms(terms, f.Points)
		if err != nil || slices.ContainsFunc(laws, func(o *variedLaw) bool { return o.String() == l.String() }) {
			continue // without a term it equals a law before it
		}
		if l.LOO, err = leftOut(terms, f.Points); err != nil {
			continue
		}
		laws, best = append(laws, l), min(best, l.LOO)
	}
	f.Laws = slices.DeleteFunc(laws, func(l *variedLaw) bool { return l.LOO > indistinct*best })
	if len(f.Laws) == 0 {
		return Refuse("check the measurements", "%s: no law fits the points", f.Name())
	}
	for _, l := range f.Laws {
		l.Weight = 1 / float64(len(f.Laws))
	}
	return nil
}

func fitTerms(terms []monomial, points []VariedPoint) (*variedLaw, error) {
	l := &variedLaw{Terms: terms}
	var rows [][]float64
	var values []float64
	for _, pt := range points {
		rows, values = append(rows, l.row(pt.N, pt.P)), append(values, pt.MiB)
	}
	lin, err := LeastSquares(rows, values, values, nil)
	if err != nil {
		return nil, err
	}
	l.Linear = *lin
	return l, nil
}

// leftOut returns the root mean square of the relative errors when each point is
// predicted from the others.
func leftOut(terms []monomial, points []VariedPoint) (float64, error) {
	sum := 0.0
	for i, pt := range points {
		l, err := fitTerms(terms, slices.Delete(slices.Clone(points), i, i+1))
		if err != nil {
			return 0, err
		}
		e := l.at(pt.N, pt.P)/pt.MiB - 1
		sum += e * e
	}
	return max(math.Sqrt(sum/float64(len(points))), exactLaw), nil
}

// check verifies a fit from a file.
func (f *Varied) Check() error {
	if f == nil || f.App == "" || len(f.Points) == 0 || len(f.Points) > MaxPoints || len(f.Laws) == 0 {
		return fmt.Errorf("laws of a problem size have no name, no points or too many")
	}
	for _, pt := range f.Points {
		if !(pt.N > 0 && pt.N <= 1e9 && pt.P >= 1 && pt.P <= 1<<20 && pt.MiB > 0 && pt.MiB < 1<<40) {
			return fmt.Errorf("%s: point (%g, %g, %g MiB) is impossible", f.Name(), pt.N, pt.P, pt.MiB)
		}
	}
	if err := f.Repeats.Check(); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	weight := 0.0
	for _, l := range f.Laws {
		if l == nil || len(l.Terms) == 0 || len(l.Terms) > maxParams || !(l.Weight >= 0 && l.Weight <= 1) || !(l.LOO >= 0 && l.LOO < 1e6) {
			return fmt.Errorf("%s: a law is not known", f.Name())
		}
		for i, t := range l.Terms {
			if !(t.N >= 0 && t.N <= 3 && t.P <= 0 && t.P >= -1) || i < len(l.Coef) && l.Coef[i] < 0 {
				return fmt.Errorf("%s: a law is not known", f.Name())
			}
		}
		if err := l.Valid(len(l.Terms), len(l.Terms)); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		weight += l.Weight
	}
	if math.Abs(weight-1) > 1e-6 {
		return fmt.Errorf("%s: weights of the laws do not add up to 1", f.Name())
	}
	return nil
}

// data predicts the data zone of one process.
func (f *Varied) Data(n float64, np int) Zone {
	e := Zone{Estimate: f.Predict(n, float64(np)), Law: f.String(), Basis: f.Basis(), N: len(f.Points)}
	if worst := f.misses(); worst > farLaw {
		e.Warning = fmt.Sprintf("no law fits the measurements: the best is off by up to %.0f %%", 100*worst)
	}
	return e
}

// misses returns the largest relative error of the laws among the points.
func (f *Varied) misses() (worst float64) {
	for _, pt := range f.Points {
		mean := 0.0
		for _, l := range f.Laws {
			mean += l.Weight * l.at(pt.N, pt.P)
		}
		worst = max(worst, math.Abs(mean/pt.MiB-1))
	}
	return worst
}
