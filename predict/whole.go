package predict

import (
	"fmt"
	"slices"

	"ckpt/dataset"
)

// minWhole is the number of process counts from which on whole files fix a law: a part
// that falls, a constant, and a point to check them.
const minWhole = 3

// measured lists the applications that the model has measurements of.
func (m *Model) measured() (apps []App) {
	for _, s := range m.Series {
		apps = append(apps, App{Name: s.App, Class: s.Class})
	}
	for _, f := range m.Whole {
		apps = append(apps, App{Name: f.App, Class: f.Class})
	}
	return apps
}

// fitWhole fits the sizes of whole files of applications of which no row has a data zone.
func (m *Model) fitWhole(rows []dataset.Measurement) error {
	for _, r := range rows {
		if r.File == 0 || m.series(r.App, r.Class, r.MPI) != nil {
			continue
		}
		f := m.whole(r.App, r.Class, r.MPI)
		if f == nil {
			f = &variedFit{App: r.App, Class: r.Class, MPI: r.MPI}
			m.Whole = append(m.Whole, f)
		}
		f.Tables = addTables(f.Tables, r.Table)
		f.Points = append(f.Points, variedPoint{1, float64(r.NP), r.File})
		f.Repeats = addRuns(f.Repeats, r, r.File, r.Scatter.File)
	}
	for _, f := range m.Whole {
		counts := map[float64]bool{}
		for _, pt := range f.Points {
			counts[pt.P] = true
		}
		if len(counts) < minWhole {
			return refuse("measure the zones of these runs with ckpt zones, or another process count",
				"%s: whole files of %d process count(s) cannot fix a law, it takes %d", f.name(), len(counts), minWhole)
		}
		if err := f.fit(); err != nil {
			return err
		}
	}
	return nil
}

// whole finds the laws of whole files, or nil.
func (m *Model) whole(app, class, mpi string) *variedFit {
	i := slices.IndexFunc(m.Whole, func(f *variedFit) bool { return f.App == app && f.Class == class && f.MPI == mpi })
	if i < 0 {
		return nil
	}
	return m.Whole[i]
}

// wholeSize predicts files of which the zones are unknown. All files are the same.
func (m *Model) wholeSize(r Request, f *variedFit) (*Size, error) {
	if r.IO != NoIO {
		return nil, refuse("measure the zones, which ckpt zones reads", "%s: the model knows whole files only, and not what an aggregator adds", r.App)
	}
	e := f.predict(1, float64(r.App.NP))
	s := &Size{App: r.App.String(), NP: r.App.NP, Mapping: r.Mapping, MPI: r.MPI, Model: "whole files: " + f.String(), Basis: f.basis(),
		Extrapolation: e.Extrapolation, ZonesUnknown: true, Note: "zones are unknown: the measurements have whole files only"}
	for _, k := range kinds(r) {
		k.estimate = e
		k.sides = [3]side{sides(e)}
		k.MiB, k.Low, k.High = e.Value, e.Low, e.High
		s.Files = append(s.Files, k)
	}
	s.add(r)
	s.here = s.doubt()
	if e.Extrapolation > 1.0001 {
		s.Note = join(s.Note, fmt.Sprintf("extrapolated by a factor of %.2g beyond the points fitted", e.Extrapolation))
	}
	return s, nil
}
