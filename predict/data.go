package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// An App is the application of a prediction, at a number of processes.
type App struct {
	Name  string
	Class string
	NP    int
	// the evaluated workload spec, or nil if unknown
	Inst *dataset.Instance
}

// AppOf is the application of a workload.
func AppOf(inst *dataset.Instance) App { return App{inst.Name, inst.Class, inst.NP, withLaws(inst)} }

// Instance is the evaluated workload; nil if it is unknown.
func (a App) Instance() *dataset.Instance { return a.Inst }

func (a App) String() string {
	if a.Class == noClass {
		return fmt.Sprintf("%s.%d", a.Name, a.NP)
	}
	return fmt.Sprintf("%s.%s.%d", a.Name, a.Class, a.NP)
}

// noClass is the class of measurements of a program without classes.
const noClass = "-"

// sole returns the only application of which the model has measurements.
func (m *Model) sole(np int) (App, error) {
	var names []string
	for _, a := range m.measured() {
		if name := strings.TrimSuffix(a.Name+"."+a.Class, "."+noClass); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch {
	case len(names) > 1:
		return App{}, fit.RefuseFor(fit.NameApp, "the model has measurements of %s: name one", strings.Join(names, ", "))
	case len(names) == 0:
		return App{}, fit.RefuseFor(fit.NameApp, "the model has measurements of no application by itself")
	case np < 1:
		return App{}, fit.RefuseFor(fit.GiveProcs, "%s: the number of processes is missing", names[0])
	}
	return m.Application(names[0], np)
}

// MeasuredMPI returns the ones of the MPI libraries under which an application without a
// workload spec was measured: those asked for, else any of a program without classes. Of others
// nothing is known.
func (m *Model) MeasuredMPI(a App, asked ...string) []string {
	var all, both []string
	for _, mpi := range []string{"mpich", "openmpi"} {
		if a.Inst != nil || m.SeriesOf(a.Name, a.Class, mpi) == nil && m.whole(a.Name, a.Class, mpi) == nil {
			continue
		}
		all = append(all, mpi)
		if slices.Contains(asked, mpi) {
			both = append(both, mpi)
		}
	}
	switch {
	case len(both) > 0:
		return both
	case len(all) == 0 || a.Class != noClass:
		return asked
	}
	return all
}

// UsualMPI is MPICH, unless an application without a workload spec was measured under another
// library only.
func (m *Model) UsualMPI(a App) string { return m.MeasuredMPI(a, "mpich", "openmpi")[0] }

// Application parses an application: bt.B.4, bt.B with np, or a workload file. Names
// without a workload spec are accepted if the model has measurements of them. An empty
// name is the only application's which the model has measurements of.
func (m *Model) Application(s string, np int) (App, error) {
	if s == "" {
		return m.sole(np)
	}
	if a, ok, err := m.variedApp(s, np); ok {
		return a, err
	}
	inst, err := dataset.ParseApp(s, np)
	if err == nil {
		return AppOf(inst), nil
	}
	var spec *dataset.SpecError
	if !errors.As(err, &spec) || !slices.Contains([]dataset.Reason{dataset.UnknownApp, dataset.UnknownClass, dataset.NoClass}, spec.Reason) {
		return App{}, err // a measured application may have the name of a built-in one
	}
	if known := m.onlyClass(s); known != nil {
		if np < 1 {
			return App{}, fit.RefuseFor(fit.GiveProcs, "%s: the number of processes is missing", s)
		}
		return m.applied(known.Name, known.Class, np)
	}
	for _, known := range m.measured() {
		name := known.Name + "." + known.Class
		if known.Class == noClass {
			name = known.Name
			s = strings.Replace(s, "."+noClass, "", 1)
		}
		if s == name && np < 1 {
			return App{}, fit.RefuseFor(fit.GiveProcs, "%s: the number of processes is missing", s)
		}
		if s == name {
			return m.applied(known.Name, known.Class, np)
		}
		var n int
		if rest, ok := strings.CutPrefix(s, name+"."); ok {
			if _, serr := fmt.Sscanf(rest, "%d", &n); serr == nil && fmt.Sprint(n) == rest && n > 0 && (np == 0 || np == n) {
				return m.applied(known.Name, known.Class, n)
			}
		}
	}
	name, _, _ := strings.Cut(s, ".")
	if why := unstructured[name]; why != "" {
		return App{}, fit.RefuseFor(fit.FitPoints, "%s: its structure is not known, and %s", s, why)
	}
	return App{}, err
}

// unstructured are codes of the thesis that are no names here, and why.
var unstructured = map[string]string{
	"flash":  "its files on 4 and 8 processes are all that was measured (Table 5.15): no zone has a law",
	"lulesh": "its zones on 16 processes are all that was measured (Table 5.2): two numbers give a law",
}

// ApplicationOf is the application of a job. The class of a program is a part of its arguments,
// or any name: the only one of which the model has measurements is meant.
func (m *Model) ApplicationOf(run *dataset.JobRun) (App, error) {
	if run.Program && m.SeriesOf(run.App, run.Class, run.MPI) == nil {
		if known := m.onlyClass(run.App); known != nil {
			return m.applied(known.Name, known.Class, run.NP)
		}
	}
	return m.Application(run.App+"."+run.Class, run.NP)
}

// onlyClass is the application of a name of which the model has measurements in one class; nil
// if it has several or none.
func (m *Model) onlyClass(name string) (only *App) {
	for _, a := range m.measured() {
		if a.Name != name || only != nil && a.Class == only.Class {
			continue
		}
		if only != nil {
			return nil
		}
		only = &a
	}
	return only
}

// applied is an application of which the model has measurements. If they are of jobs,
// these brought its spec.
func (m *Model) applied(name, class string, np int) (App, error) {
	a := App{name, class, np, nil}
	w := m.Service.App(name, class).Spec()
	if w == nil {
		return a, nil
	}
	inst, err := w.Instance(class, np)
	if err == nil {
		a.Inst = withLaws(inst)
	}
	return a, err
}

// meanData predicts the mean of the data zone over runs.
func (m *Model) meanData(a App, mpi string, law fit.Law, nodes int) (fit.Zone, error) {
	free := law == "" || law == fit.Auto
	if f, n := m.variedOf(a, mpi); f != nil && free {
		return f.Data(n, a.NP), nil
	}
	if free {
		law = fit.Structural
		if a.Inst == nil {
			law = fit.Auto
		}
	}
	s := m.SeriesOf(a.Name, a.Class, mpi)
	variant := ""
	if law == fit.Structural {
		if a.Inst == nil {
			return fit.Zone{}, fit.RefuseFor(fit.UseAutoLaw, "%s: the structure of the application is not known", a)
		}
		if variant = s.Variant(); variant == "" || !free {
			return m.structural(a.Inst, mpi)
		}
		law = fit.Auto
	}
	if s == nil {
		return fit.Zone{}, fit.RefuseFor(fit.FitPoints, "%s.%s under %s was never measured, the law %s has no points", a.Name, a.Class, mpi, law)
	}
	set, points, err := s.LawsFor(law, nodes)
	if err != nil {
		return fit.Zone{}, fmt.Errorf("%s: %w", s.Name(), err)
	}
	e := fit.Zone{Estimate: set.Predict(float64(a.NP)), Law: set.String(), N: len(points)}
	e.Basis = fmt.Sprintf("%s, %d points from %g to %g processes (%s)", s.Name(), len(points), set.Low, set.High, fit.Tables(s.Tables))
	if set.Misses() > 0 {
		e.Warning = fmt.Sprintf("no law fits the measurements: the best is off by up to %.0f %%", 100*set.Misses())
	}
	e.Warning = fit.Join(variant, e.Warning)
	return e, nil
}

func (m *Model) dataOf(inst *dataset.Instance, mpi string) (fit.Zone, error) {
	return m.DataZone(AppOf(inst), mpi, fit.Structural, 1)
}

// structural evaluates the workload spec and adds the runtime constant. The constant
// comes from measurements of the same application, class and MPI library, or from the
// closest ones, with a wider interval.
func (m *Model) structural(inst *dataset.Instance, mpi string) (fit.Zone, error) {
	arrays, p := fit.Structure(inst), float64(inst.NP)
	if s := m.SeriesOf(inst.Name, inst.Class, mpi); s != nil && s.Drift != nil {
		b, err := s.Drift.Predict(p, arrays)
		if err != nil {
			return fit.Zone{}, fmt.Errorf("%s: %w", s.Name(), err)
		}
		low, high := fit.Span(s.Points)
		return zoneOf(b.Estimate(fit.Beyond(p, low, high)), len(s.Points), "workload spec of %s, %s of %s, %d points from %g to %g processes (%s)",
			inst.Name, s.Drift.Calibrated(), s.Name(), len(s.Points), low, high, fit.Tables(s.Tables)), nil
	}
	// Another class of the same application.
	var found []*fit.Series
	var sum, squares float64
	for _, s := range m.Series {
		if s.App == inst.Name && s.MPI == mpi && s.Drift != nil {
			found = append(found, s)
			r := fit.Mean(s.Drift.R)
			sum, squares = sum+r, squares+r*r
		}
	}
	if slices.ContainsFunc(found, func(s *fit.Series) bool { return s.Drift.Shares() }) {
		return structuralOf(found, inst, arrays)
	}
	if n := float64(len(found)); n > 0 {
		c := sum / n
		sd := math.Sqrt(max(0, squares/n-c*c) + fit.DriftDoubt*fit.DriftDoubt*c*c/4)
		return zoneOf(fit.Around(arrays.All+c, fit.Student(max(3, n))*sd*math.Sqrt(1+1/n), 1), len(found),
			"workload spec of %s, runtime constant of its other classes under %s", inst.Name, mpi), nil
	}
	runtime := float64(inst.Runtime) / (1 << 20)
	basis := fmt.Sprintf("workload spec of %s with its runtime constant, not calibrated", inst.Name)
	if mpi == "openmpi" {
		shift, sd, n := m.openMPIShift()
		if n > 0 {
			v := arrays.All + runtime + shift
			return zoneOf(fit.Around(v, fit.Student(float64(max(3, n)))*math.Hypot(sd, fit.DriftDoubt*runtime), 1), n,
				basis+", plus what Open MPI adds to others (%d pairs)", n), nil
		}
	}
	return zoneOf(fit.Around(arrays.All+runtime, fit.Student(fit.DriftDof)*fit.DriftDoubt*runtime, 1), 0, "%s", basis), nil
}

// classDoubt is the relative standard deviation of the share of the arrays between classes
// of an application, of which the checkpointer leaves out zeros.
const classDoubt = 0.03

// structuralOf predicts by other classes of which not all of the arrays is stored.
func structuralOf(found []*fit.Series, inst *dataset.Instance, arrays fit.Arrays) (fit.Zone, error) {
	d := fit.Pooled(found)
	b, err := d.Predict(float64(inst.NP), arrays)
	if err != nil {
		return fit.Zone{}, err
	}
	e := b.Estimate(1)
	doubt := 2 * classDoubt * e.Value
	return zoneOf(sides(e).with(side{doubt, doubt}).Around(e.Value, 1), len(d.X),
		"workload spec of %s, %s of its other classes", inst.Name, d.Calibrated()), nil
}

// zoneOf is a structural estimate from n points.
func zoneOf(e fit.Estimate, n int, basis string, args ...any) fit.Zone {
	return fit.Zone{Estimate: e, Law: string(fit.Structural), Basis: fmt.Sprintf(basis, args...), N: n}
}

// openMPIShift is the additional memory of a process under Open MPI compared with
// MPICH, in MiB, over all process counts measured with both: 1.1 to 2.2 for BT (Table
// 5.1).
func (m *Model) openMPIShift() (shift, sd float64, n int) {
	var d []float64
	for _, s := range m.Series {
		other := m.SeriesOf(s.App, s.Class, "mpich")
		if s.MPI != "openmpi" || other == nil {
			continue
		}
		for _, pt := range s.Points {
			for _, q := range other.Points {
				if q.P == pt.P {
					d = append(d, pt.MiB-q.MiB)
					break
				}
			}
		}
	}
	if len(d) == 0 {
		return 0, 0, 0
	}
	c := fit.FitConstant(d)
	return c.Mean, c.SD, c.N
}

// SharedZone predicts the shared zone of a process with pn of them on its node.
func (m *Model) SharedZone(mpi, app string, pn int) fit.Estimate {
	if f := m.Shared[mpi]; f != nil {
		return f.Predict(app, pn)
	}
	return fit.Estimate{Extrapolation: 1}
}

// DataZone predicts the data zone of a process in one run. Only the thesis has different laws
// for one node and for several.
func (m *Model) DataZone(a App, mpi string, law fit.Law, nodes int) (fit.Zone, error) {
	e, err := m.meanData(a, mpi, law, nodes)
	if err != nil {
		return e, err
	}
	if f, _ := m.variedOf(a, mpi); f != nil && (law == "" || law == fit.Auto) {
		return e, nil // its laws know the runs of all problem sizes
	}
	if s := m.SeriesOf(a.Name, a.Class, mpi); s != nil {
		e.Estimate = s.Repeats.Widen(e.Estimate)
	}
	return e, nil
}

// variedOf finds the laws for an application of a problem size that is given as a
// number, or nil.
func (m *Model) variedOf(a App, mpi string) (*fit.Varied, float64) {
	v, ok := dataset.ParseVaried(a.Class)
	if !ok || a.Inst != nil {
		return nil, 0
	}
	for _, f := range m.Varied {
		if f.App == a.Name && f.MPI == mpi && strings.EqualFold(f.Param, v.Param) {
			return f, v.Value
		}
	}
	return nil, 0
}

// variedApp parses NAME.PARAM=VALUE. Applications with a workload spec vary a parameter
// of the spec, others the one that the model was fitted to.
func (m *Model) variedApp(s string, np int) (a App, ok bool, err error) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return App{}, false, nil
	}
	name, class := s[:i], s[i+1:]
	v, ok := dataset.ParseVaried(class)
	if !ok {
		return App{}, false, nil
	}
	if np < 1 {
		return App{}, true, fit.RefuseFor(fit.GiveProcs, "%s: the number of processes is missing", s)
	}
	var params []string
	for _, f := range m.Varied {
		if f.App == name && strings.EqualFold(f.Param, v.Param) {
			return App{Name: name, Class: v.Class(), NP: np}, true, nil
		}
		if f.App == name {
			params = append(params, f.Param)
		}
	}
	w, err := dataset.LoadWorkload(name)
	if err != nil || len(params) > 0 && !w.Varies(v.Param) {
		problem := "the model has no measurements of " + name + " that vary " + v.Param
		if len(params) > 0 {
			problem += ", but " + strings.Join(params, ", ")
		}
		return App{}, true, fit.RefuseFor(fit.VaryParam, "%s", problem)
	}
	inst, err := w.VariedInstance(class, np)
	if err != nil {
		return App{}, true, err
	}
	return AppOf(inst), true, nil
}
