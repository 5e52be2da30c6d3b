package predict

import (
	"fmt"
	"math"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// A Residual is a measured point beside the law: the difference as a share of what the
// law gives there, and the interval of the law as such shares.
type Residual struct {
	X, Share, Low, High float64
	// Fitted tells whether the law was fitted to the point.
	Fitted bool
}

// residuals compares the points of a figure with its law.
func (f *Figure) residuals(law func(x float64) (fit.Estimate, error)) error {
	for i, list := range [][]XY{f.Fitted, f.Held} {
		for _, pt := range list {
			e, err := law(pt.X)
			if err != nil {
				return err
			}
			if e.Value > 0 {
				f.Residuals = append(f.Residuals, Residual{pt.X, pt.Y/e.Value - 1, e.Low/e.Value - 1, e.High/e.Value - 1, i == 0})
			}
		}
	}
	return nil
}

// draw evaluates a law along the figure and at its points.
func (f *Figure) draw(law func(x float64) fit.Estimate) error {
	for _, x := range grid(f) {
		e := law(x)
		f.Curve = append(f.Curve, Band{x, e.Value, e.Low, e.High})
	}
	return f.residuals(func(x float64) (fit.Estimate, error) { return law(x), nil })
}

// variedFigure draws the laws of whole files, or of a problem size n.
func variedFigure(f *fit.Varied, n float64, asked *Band) *Figure {
	out := &Figure{Asked: asked, X: "processes", Y: "image file of a process [MiB]", CurveName: f.String(),
		Title: fmt.Sprintf("Files of %s.%s, %s", f.App, f.Class, f.MPI)}
	if f.Param != "" {
		out.Y = "data zone of a process [MiB]"
		out.Title = fmt.Sprintf("Data zone of %s.%s, %s", f.App, dataset.Varied{Param: f.Param, Value: n}.Class(), f.MPI)
	}
	sizes, p := f.Spans()
	out.Low, out.High = p[0], p[1]
	for _, pt := range f.Points {
		if pt.N == n {
			out.Fitted = append(out.Fitted, XY{pt.P, pt.MiB})
		}
	}
	for _, x := range grid(out) {
		e := f.Predict(n, x)
		out.Curve = append(out.Curve, Band{x, e.Value, e.Low, e.High})
	}
	for _, pt := range f.Points { // of all problem sizes: one law describes them
		e := f.Predict(pt.N, pt.P)
		out.Residuals = append(out.Residuals, Residual{pt.P, pt.MiB/e.Value - 1, e.Low/e.Value - 1, e.High/e.Value - 1, true})
	}
	if fit.Beyond(n, sizes[0], sizes[1]) > 1 {
		out.Low, out.High = math.Inf(1), 0 // all of the curve is extrapolated
	}
	return out
}

// wholeFigure draws the whole files of rows.
func wholeFigure(rows []dataset.Measurement) (*Figure, error) {
	m, err := FitSizes(rows)
	if err != nil {
		return nil, err
	}
	if len(m.Whole) == 0 {
		return nil, fit.Refuse("measure zones, or whole files", "no row has a data zone or a file")
	}
	return variedFigure(m.Whole[0], 1, nil), nil
}

// unmeasured draws the prediction of an application of which no run was measured, from a
// quarter to four times the processes that were asked for.
func (m *Model) unmeasured(r Request, asked *Band) (*Figure, error) {
	f := &Figure{Asked: asked, X: "processes", Y: "data zone of a process [MiB]", CurveName: string(fit.Structural),
		Title: fmt.Sprintf("Data zone of %s.%s, %s", r.App.Name, r.App.Class, r.MPI), Low: asked.X, High: asked.X}
	w := r.App.Inst.Workload
	for np := max(1, r.App.NP/4); np <= 4*r.App.NP; np++ {
		inst, err := w.VariedInstance(r.App.Class, np)
		if err != nil {
			continue // the application cannot run with this number
		}
		e, err := m.dataOf(inst, r.MPI)
		if err != nil {
			return nil, err
		}
		f.falls(np, e.Estimate)
	}
	return f, nil
}

// falls adds a point to the curve, unless a process has no less memory there than with
// fewer processes. LU on 37 processes is a row of 37 slabs with more memory than on 36.
func (f *Figure) falls(np int, e fit.Estimate) {
	if n := len(f.Curve); n == 0 || e.Value < f.Curve[n-1].Y {
		f.Curve = append(f.Curve, Band{float64(np), e.Value, e.Low, e.High})
	}
}

// wholeRows reports whether rows have files, but no data zones.
func wholeRows(rows []dataset.Measurement) bool {
	files := false
	for _, r := range rows {
		if r.Data > 0 {
			return false
		}
		files = files || r.File > 0
	}
	return files
}

// near returns the count at or next to x.
func near(x float64) int { return int(math.Round(x)) }
