package predict

import (
	"ckpt/dataset"
	"ckpt/predict/fit"
	"fmt"
	"math"
	"slices"
)

// A Quantity is the quantity that a figure shows.
type Quantity string

// The quantities.
const (
	DataQuantity   Quantity = "data"   // data zone of a process by processes
	SharedQuantity Quantity = "shared" // shared zone of a process by processes per node
	TotalQuantity  Quantity = "total"  // a whole checkpoint by processes
)

// A Figure has measured points, the law fitted to some of them, its 95 % interval, and
// the law of the thesis for comparison. It is not drawn yet.
type Figure struct {
	Title, X, Y string
	// Fitted are the points behind the law, Held the others.
	Fitted, Held []XY
	Curve        []Band
	CurveName    string
	// Residuals compare the points with the law.
	Residuals  []Residual
	Thesis     []XY
	ThesisName string
	// Low and High are the range of the fitted points; the law is extrapolated beyond.
	Low, High float64
	// Asked is the point that was asked for, with its interval; nil without one.
	Asked *Band
}

// An XY is a point of a figure.
type XY struct{ X, Y float64 }

// A Band is a point of a curve with its interval.
type Band struct{ X, Y, Low, High float64 }

// NewFigure fits the rows of one application, class and MPI library whose process
// counts are in only (processes per node for the shared zone; all rows if only is
// empty), and evaluates the law over all rows.
func NewFigure(q Quantity, rows []dataset.Measurement, only []int, law fit.Law) (*Figure, error) {
	if len(rows) == 0 {
		return nil, fit.RefuseFor(fit.ChooseSeries, "there are no rows to draw")
	}
	for _, r := range rows {
		if r.Series() != rows[0].Series() && q != SharedQuantity {
			return nil, fit.RefuseFor(fit.ChooseSeries, "the table has several series, %s and %s among them", rows[0].Series(), r.Series())
		}
	}
	switch q {
	case DataQuantity:
		if wholeRows(rows) {
			return wholeFigure(rows)
		}
		return dataFigure(rows, only, law, nil)
	case SharedQuantity:
		return sharedFigure(rows, only)
	case TotalQuantity:
		return totalFigure(rows, only, law)
	}
	return nil, fit.Refuse("write data, shared or total", "quantity %q is unknown", q)
}

// Figure evaluates the model's data zone of a job's application.
func (m *Model) Figure(r Request) (*Figure, error) {
	r, err := r.Normal()
	if err != nil {
		return nil, err
	}
	if f := m.whole(r.App.Name, r.App.Class, r.MPI); f != nil {
		e := f.Predict(float64(r.App.NP))
		return fileFigure(f, &Band{float64(r.App.NP), e.Value, e.Low, e.High})
	}
	e, err := m.DataZone(r.App, r.MPI, r.Law, len(r.Mapping))
	if err != nil {
		return nil, err
	}
	asked := &Band{float64(r.App.NP), e.Value, e.Low, e.High}
	if f, n := m.variedOf(r.App, r.MPI); f != nil && (r.Law == fit.Auto || r.Law == "") {
		return variedFigure(f, n, asked), nil
	}
	s := m.SeriesOf(r.App.Name, r.App.Class, r.MPI)
	if s == nil {
		return m.unmeasured(r, asked)
	}
	var rows []dataset.Measurement
	for _, pt := range s.Points {
		rows = append(rows, dataset.Measurement{Table: s.Table(), App: s.App, Class: s.Class, MPI: s.MPI, NP: int(pt.P), PPN: int(pt.P), Data: pt.MiB})
	}
	return dataFigure(rows, nil, r.Law, asked)
}

// separate splits rows into those behind the law and the others.
func separate(rows []dataset.Measurement, only []int, x func(dataset.Measurement) int, y func(dataset.Measurement) float64, trusted func(dataset.Measurement) bool) (used []dataset.Measurement, fitted, held []XY) {
	for _, r := range rows {
		if y(r) == 0 {
			continue
		}
		at := XY{float64(x(r)), y(r)}
		if trusted(r) && (len(only) == 0 || slices.Contains(only, x(r))) {
			used, fitted = append(used, r), append(fitted, at)
		} else if !slices.Contains(held, at) {
			held = append(held, at)
		}
	}
	return used, fitted, held
}

// grid returns the points at which curves are evaluated: logarithmic over the measured
// points and the one asked for, and a little beyond.
func grid(f *Figure) []float64 {
	low, high := math.Inf(1), 0.
	for _, p := range slices.Concat(f.Fitted, f.Held) {
		low, high = min(low, p.X), max(high, p.X)
	}
	if f.Asked != nil {
		low, high = min(low, f.Asked.X), max(high, f.Asked.X)
	}
	if f.Low > 0 {
		low, high = min(low, f.Low), max(high, f.High)
	}
	high *= 1.15
	const n = 120
	var out []float64
	for i := range n + 1 {
		out = append(out, low*math.Pow(high/low, float64(i)/n))
	}
	return out
}

func dataFigure(rows []dataset.Measurement, only []int, law fit.Law, asked *Band) (*Figure, error) {
	first := rows[0]
	f := &Figure{Asked: asked, X: "processes", Y: "data zone of a process [MiB]", Title: fmt.Sprintf("Data zone of %s.%s, %s", first.App, first.Class, first.MPI)}
	np := func(r dataset.Measurement) int { return r.NP }
	used, fitted, held := separate(rows, only, np, func(r dataset.Measurement) float64 { return r.Data },
		func(dataset.Measurement) bool { return true })
	f.Fitted, f.Held = fitted, held
	if len(used) == 0 {
		return nil, fit.Refuse("choose process counts of the table", "none of the points is in the table")
	}
	m, err := FitSizes(used)
	if err != nil {
		return nil, err
	}
	s := m.Series[0]
	f.Low, f.High = fit.Span(s.Points)
	// The thesis has one law for one node, another for several (Figures 4.3, 4.5).
	nodes := (first.NP + first.PPN - 1) / first.PPN
	if law = s.AutoLaw(law); law == fit.Structural {
		if err := f.structural(m, first); err != nil {
			return nil, err
		}
	} else {
		set, _, err := s.LawsFor(law, nodes)
		if err != nil {
			return nil, err
		}
		f.CurveName = set.String()
		if err := f.draw(func(x float64) fit.Estimate { return s.Repeats.Widen(set.Predict(x)) }); err != nil {
			return nil, err
		}
	}
	if t, _, err := fit.ThesisLaw(s, nodes); err == nil && law != fit.Thesis {
		f.ThesisName = fmt.Sprintf("thesis: %.5g·p^%.3f", t.Coef[0], t.Exponent)
		for _, x := range grid(f) {
			f.Thesis = append(f.Thesis, XY{x, t.At(x)})
		}
	}
	return f, nil
}

// structural evaluates the workload spec at the process counts that divide the problem
// well, that is where a process has less memory than with any fewer processes, and at the
// points.
func (f *Figure) structural(m *Model, first dataset.Measurement) error {
	w, err := dataset.LoadWorkload(first.App)
	if err != nil {
		return err
	}
	xs := grid(f)
	f.CurveName = string(fit.Structural)
	for np := int(xs[0]); float64(np) <= xs[len(xs)-1]; np++ {
		inst, err := w.VariedInstance(first.Class, np)
		if err != nil {
			continue // the application cannot run with this number
		}
		e, err := m.dataOf(inst, first.MPI)
		if err != nil {
			return err
		}
		if f.falls(np, e.Estimate); f.Asked != nil && np == near(f.Asked.X) {
			f.reaches(np, e.Estimate)
		}
	}
	return f.residuals(func(x float64) (fit.Estimate, error) {
		inst, err := w.VariedInstance(first.Class, near(x))
		if err != nil {
			return fit.Estimate{}, err
		}
		e, err := m.dataOf(inst, first.MPI)
		return e.Estimate, err
	})
}

func sharedFigure(rows []dataset.Measurement, only []int) (*Figure, error) {
	mpi := rows[0].MPI
	f := &Figure{X: "processes per node", Y: "shared zone of a process [MiB]", Title: "Shared zone under " + mpi}
	ppn := func(r dataset.Measurement) int { return r.PPN }
	used, fitted, held := separate(rows, only, ppn, func(r dataset.Measurement) float64 { return r.Shared },
		func(r dataset.Measurement) bool { return !r.SharedDoubtful })
	f.Fitted, f.Held = fitted, held
	if len(used) == 0 {
		return nil, fit.Refuse("choose counts of the table", "none of the points is in the table")
	}
	law, err := fit.FitShared(mpi, used)
	if err != nil {
		return nil, err
	}
	f.Low, f.High, f.CurveName = law.Low, law.High, law.Law
	for _, x := range grid(f) {
		pn := int(math.Round(x))
		e := law.Predict(rows[0].App, pn)
		if n := len(f.Curve); n > 0 && f.Curve[n-1].X == float64(pn) {
			continue
		}
		f.Curve = append(f.Curve, Band{float64(pn), e.Value, e.Low, e.High})
		if pn <= 64 { // Algorithm 2 ends there
			f.Thesis = append(f.Thesis, XY{float64(pn), fit.ThesisShared(mpi, pn)})
		}
	}
	if err := f.residuals(func(x float64) (fit.Estimate, error) { return law.Predict(rows[0].App, near(x)), nil }); err != nil {
		return nil, err
	}
	f.ThesisName = "thesis: Algorithm 2"
	if mpi != "mpich" {
		f.ThesisName = "thesis: constant"
	}
	return f, nil
}

// totalFigure predicts whole checkpoints under the mappings of the rows. Tables
// print one row for each kind of node: rows of one process count that add up to
// it are one job.
func totalFigure(rows []dataset.Measurement, only []int, law fit.Law) (*Figure, error) {
	first := rows[0]
	f := &Figure{X: "processes", Y: "one checkpoint [GiB]", Title: fmt.Sprintf("Checkpoint of %s.%s, %s", first.App, first.Class, first.MPI)}
	var jobs [][]dataset.Measurement
	for _, r := range rows {
		if n := len(jobs) - 1; n >= 0 && jobs[n][0].NP == r.NP && jobs[n][0].PPN+r.PPN == r.NP {
			jobs[n] = append(jobs[n], r)
			continue
		}
		jobs = append(jobs, []dataset.Measurement{r})
	}
	slices.SortStableFunc(jobs, func(a, b []dataset.Measurement) int { return a[0].NP - b[0].NP })
	base, err := BuiltIn()
	if err != nil {
		return nil, err
	}
	var used []dataset.Measurement
	for _, r := range rows {
		if len(only) == 0 || slices.Contains(only, r.NP) {
			used = append(used, r)
		}
	}
	if len(used) == 0 {
		return nil, fit.Refuse("choose process counts of the table", "none of the points is in the table")
	}
	m, err := FitSizes(used)
	if err != nil {
		return nil, err
	}
	m.Library, m.Shared = base.Library, base.Shared
	f.Low, f.High = fit.Span(m.Series[0].Points)
	for _, job := range jobs {
		measured, mapping := 0., Blocks(job[0].NP, job[0].PPN)
		if len(job) == 2 {
			mapping = []int{job[0].PPN, job[1].PPN}
			measured = float64(job[0].PPN)*job[0].File + float64(job[1].PPN)*job[1].File
		} else {
			measured = float64(job[0].NP) * job[0].File
		}
		at := XY{float64(job[0].NP), measured / 1024}
		if len(only) == 0 || slices.Contains(only, job[0].NP) {
			f.Fitted = append(f.Fitted, at)
		} else {
			f.Held = append(f.Held, at)
		}
		app, err := m.Application(fmt.Sprintf("%s.%s.%d", first.App, first.Class, job[0].NP), 0)
		if err != nil {
			return nil, err
		}
		s, err := m.Size(Request{App: app, Mapping: mapping, MPI: first.MPI, Law: law})
		if err != nil {
			return nil, err
		}
		total, low, high := float64(s.TotalMiB), float64(s.LowMiB), float64(s.HighMiB)
		f.Curve = append(f.Curve, Band{at.X, total / 1024, low / 1024, high / 1024})
		f.Residuals = append(f.Residuals, Residual{at.X, measured/total - 1, low/total - 1, high/total - 1,
			len(only) == 0 || slices.Contains(only, job[0].NP)})
		f.CurveName = s.Model
		t, err := base.Size(Request{App: app, Mapping: mapping, MPI: first.MPI, Law: fit.Thesis})
		if err == nil && law != fit.Thesis {
			f.Thesis, f.ThesisName = append(f.Thesis, XY{at.X, float64(t.TotalMiB) / 1024}), "thesis"
		}
	}
	return f, nil
}

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

// fileFigure draws the laws of whole files.
func fileFigure(s *fit.Series, asked *Band) (*Figure, error) {
	f := &Figure{Asked: asked, X: "processes", Y: "image file of a process [MiB]", CurveName: s.Laws.String(),
		Title: fmt.Sprintf("Files of %s.%s, %s", s.App, s.Class, s.MPI)}
	f.Low, f.High = fit.Span(s.Points)
	for _, pt := range s.Points {
		f.Fitted = append(f.Fitted, XY{pt.P, pt.MiB})
	}
	return f, f.draw(s.Predict)
}

// variedFigure draws the laws of a problem size n.
func variedFigure(f *fit.Varied, n float64, asked *Band) *Figure {
	out := &Figure{Asked: asked, X: "processes", Y: "data zone of a process [MiB]", CurveName: f.String(),
		Title: fmt.Sprintf("Data zone of %s.%s, %s", f.App, dataset.Varied{Param: f.Param, Value: n}.Class(), f.MPI)}
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
	return fileFigure(m.Whole[0], nil)
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

// reaches adds the point that was asked for, so that the curve does not end before it.
func (f *Figure) reaches(np int, e fit.Estimate) {
	if n := len(f.Curve); n == 0 || f.Curve[n-1].X < float64(np) {
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
