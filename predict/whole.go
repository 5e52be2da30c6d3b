package predict

import (
	"fmt"
	"slices"
	"strings"

	"ckpt/dataset"
	"ckpt/predict/fit"
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
		if r.File == 0 || m.SeriesOf(r.App, r.Class, r.MPI) != nil {
			continue
		}
		f := m.whole(r.App, r.Class, r.MPI)
		if f == nil {
			f = &fit.Series{App: r.App, Class: r.Class, MPI: r.MPI}
			m.Whole = append(m.Whole, f)
		}
		f.Tables = addTables(f.Tables, r.Table)
		f.Points = append(f.Points, fit.Point{P: float64(r.NP), MiB: r.File})
		f.Repeats = fit.AddRuns(f.Repeats, r.Runs, r.File, r.Scatter.File)
	}
	for _, f := range m.Whole {
		counts := fit.Distinct(f.Points)
		if counts < minWhole {
			return fit.Refuse("measure the zones of these runs with ckpt zones, or another process count",
				"%s: whole files of %d process count(s) cannot fix a law, it takes %d", f.Name(), counts, minWhole)
		}
		if err := f.FitFiles(); err != nil {
			return err
		}
	}
	return nil
}

// whole finds the laws of whole files, or nil.
func (m *Model) whole(app, class, mpi string) *fit.Series {
	i := slices.IndexFunc(m.Whole, func(f *fit.Series) bool { return f.App == app && f.Class == class && f.MPI == mpi })
	if i < 0 {
		return nil
	}
	return m.Whole[i]
}

// wholeSize predicts files of which the zones are unknown. All files are the same.
func (m *Model) wholeSize(r Request, f *fit.Series) (*Size, error) {
	if r.IO != NoIO {
		return nil, fit.Refuse("measure the zones, which ckpt zones reads", "%s: the model knows whole files only, and not what an aggregator adds", r.App)
	}
	e := f.Predict(float64(r.App.NP))
	s := &Size{App: r.App.String(), NP: r.App.NP, Mapping: r.Mapping, MPI: r.MPI, Engine: dataset.DMTCP, Model: "whole files: " + f.Laws.String(), Basis: f.Basis(),
		Extrapolation: e.Extrapolation, ZonesUnknown: true, Note: "zones are unknown: the measurements have whole files only"}
	for _, k := range kinds(r) {
		k.Estimate = e
		k.Sides = [3]side{sides(e)}
		k.MiB, k.Low, k.High = MiB(e.Value), MiB(e.Low), MiB(e.High)
		s.Files = append(s.Files, k)
	}
	s.add(r)
	s.here = s.doubt()
	if fit.Far(e.Extrapolation) {
		s.Note = fit.Join(s.Note, "extrapolated by a factor of "+fit.Factor(e.Extrapolation)+" beyond the points fitted")
	}
	return s, nil
}

// minVaried is the number of points from which on the laws of a problem size are fitted.
// They have up to three coefficients, and one point must be left over.
const minVaried = 4

// fitVaried fits the laws of problem sizes to the rows whose class is one, of
// applications without a workload spec.
func (m *Model) fitVaried(rows []dataset.Measurement) error {
	for _, r := range rows {
		v, ok := dataset.ParseVaried(r.Class)
		if !ok || r.Data == 0 || hasSpec(r.App, r.Class, r.NP) {
			continue
		}
		i := slices.IndexFunc(m.Varied, func(f *fit.Varied) bool {
			return f.App == r.App && f.MPI == r.MPI && f.Param == v.Param
		})
		if i < 0 {
			i = len(m.Varied)
			m.Varied = append(m.Varied, &fit.Varied{App: r.App, MPI: r.MPI, Param: v.Param})
		}
		f := m.Varied[i]
		f.Tables = addTables(f.Tables, r.Table)
		f.Points = append(f.Points, fit.VariedPoint{N: v.Value, P: float64(r.NP), MiB: r.Data})
		f.Repeats = fit.AddRuns(f.Repeats, r.Runs, r.Data, r.Scatter.Data)
	}
	for _, f := range m.Varied {
		n, p := f.Spans()
		if len(f.Points) < minVaried || n[0] == n[1] || p[0] == p[1] {
			return fit.Refuse(fmt.Sprintf("measure at least %d runs, with two or more values of %s and of the process count", minVaried, f.Param),
				"%s: %d points with %s from %g to %g and from %g to %g processes cannot fix a law of both", f.Name(), len(f.Points), f.Param, n[0], n[1], p[0], p[1])
		}
		if err := f.Fit(); err != nil {
			return err
		}
	}
	return nil
}

// hasSpec tells whether a workload spec gives the structure of an application.
func hasSpec(app, class string, np int) bool {
	if strings.Contains(app, "/") {
		return false
	}
	w, err := dataset.LoadWorkload(app)
	if err != nil {
		return false
	}
	_, err = w.VariedInstance(class, np)
	return err == nil
}

// A SavedArray is an array in a checkpoint at application level.
type SavedArray struct {
	Name string `json:"region"`
	// Rank is the bytes of the array in the memory of a rank, Stored those in the file. A
	// replicated one is stored once.
	Rank       int64 `json:"region_bytes"`
	Stored     int64 `json:"stored_bytes"`
	Replicated bool  `json:"replicated"`
}

// An ApplicationSize is what an application stores when it stores what it has to save:
// one file, which aggregators write for the other ranks (Leon 2022, section 4.2).
type ApplicationSize struct {
	App     string       `json:"app"`
	NP      int          `json:"np"`
	Mapping []int        `json:"mapping"`
	Level   string       `json:"level"`
	Arrays  []SavedArray `json:"saved_arrays"`
	// Header is what the file has beyond the arrays; Total is all of it.
	Header int64 `json:"header_bytes"`
	Total  int64 `json:"total_bytes"`
	// Recomputed is the bytes of a rank that are computed anew.
	Recomputed int64 `json:"recomputed_bytes"`
	// Aggregators write requests of at most Buffer bytes.
	Aggregators int   `json:"aggregators"`
	Buffer      int64 `json:"buffer_bytes"`
	// Writes are the requests to the storage, from that number to WritesHigh.
	Writes     int64 `json:"writes"`
	WritesHigh int64 `json:"most_writes"`
	// Ranks is what each rank stores; empty: all the same.
	Ranks []RankKind `json:"rank_kinds,omitempty"`
	Model string     `json:"model"`
	Basis string     `json:"basis"`
	Note  string     `json:"note,omitempty"`
}

// defaultBuffer is the collective buffer of the environment that the thesis measured.
const defaultBuffer = 16 << 20

// extraWrites is how many requests a row of Table 4.8 has at most beyond the size divided
// by the buffer.
const extraWrites = 98

// ApplicationOf predicts a checkpoint at application level. Without a number of aggregators
// there is one per node, as by default in ROMIO.
func ApplicationOf(inst *dataset.Instance, mapping []int, aggregators int, buffer int64) (*ApplicationSize, error) {
	if aggregators == 0 {
		aggregators = len(mapping)
	}
	if buffer == 0 {
		buffer = defaultBuffer
	}
	switch {
	case aggregators < 1 || aggregators > inst.NP:
		return nil, fit.Refuse("between 1 and the number of processes", "%d aggregators are impossible", aggregators)
	case inst.SavedBytes() == 0:
		return nil, fit.Refuse("say save: true for the arrays that it needs to continue", "%s saves no array", inst)
	}
	s := &ApplicationSize{App: inst.String(), Level: "application", NP: inst.NP, Mapping: mapping, Recomputed: inst.Runtime, Aggregators: aggregators, Buffer: buffer,
		Model: "structural", Basis: "workload spec, the arrays that it saves"}
	if f := inst.File; f != nil {
		s.Header, s.Writes = f.Header, f.Writes+f.Collective*int64(aggregators)
		s.Basis += " and the header of its file"
	}
	for _, a := range inst.Arrays {
		s.save(a)
	}
	if !slices.ContainsFunc(s.Arrays, func(a SavedArray) bool { return !a.Replicated }) {
		s.Aggregators = 1 // one rank has all there is to write
	}
	s.Total += s.Header
	s.Ranks = savedKinds(inst)
	s.WritesHigh = max(s.Writes, divideUp(s.Total, buffer)+extraWrites)
	return s, nil
}

// save adds an array: each aggregator writes its part of it, one buffer at a time. An
// array that all ranks have is written by one of them.
func (s *ApplicationSize) save(a dataset.Array) {
	stored := a.SavedBytes(s.NP)
	if stored == 0 {
		s.Recomputed += a.Bytes()
		return
	}
	s.Arrays = append(s.Arrays, SavedArray{a.Name, a.Bytes(), stored, a.Replicated})
	s.Total += stored
	writers := int64(s.Aggregators)
	if a.Replicated {
		writers = 1
	}
	s.Writes += writers * divideUp(divideUp(stored, writers), s.Buffer)
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }
