package fit

import (
	"maps"
	"math"
	"slices"

	"ckpt/dataset"
)

// A sharedRow is one measurement of the shared zone.
type sharedRow struct {
	App string  `json:"app"`
	PPN int     `json:"processes_per_node"`
	MiB float64 `json:"mib"`
	n   float64 // how many measurements this is the mean of
}

// offsetSD is the standard deviation of the shared zone between applications, in MiB: of
// BT, SP, LU, CG and Lulesh in Table 5.2.
const offsetSD = 1.2

// A sharedForm is what is assumed of a law before measurements.
type sharedForm struct {
	law   string
	prior map[string]float64 // by MPI library
	// terms are the law's at a typical number of processes per node, relative to a
	// typical size.
	terms []term
}

var sharedForms = []sharedForm{
	{sharedPhysical, map[string]float64{"mpich": 0.5, "openmpi": 0.02}, []term{{0.4, 0.5, 0, 2}}},
	{sharedQuadratic, map[string]float64{"mpich": 0.04, "openmpi": 0.02}, []term{{0.4, 0.4, 0, 2}, {0.4, 0.4, 0, 2}, {0.2, 0.3, 0, 2}}},
	{sharedConstant, map[string]float64{"mpich": 0.12, "openmpi": 0.42}, []term{{1, 1, 0, 9}}},
	{sharedLinear, map[string]float64{"mpich": 0.17, "openmpi": 0.27}, []term{{0.7, 0.4, 0, 2}, {0.3, 0.3, 0, 2}}},
	{sharedLog, map[string]float64{"mpich": 0.17, "openmpi": 0.27}, []term{{0.7, 0.3, 0, 2}, {0.3, 0.3, 0, 2}}},
}

// A segmentFit is one law under one assumption about noise.
type segmentFit struct {
	law           string
	noise, weight float64
	*regression
}

// segments are what all laws together say of a shared zone.
type segments struct {
	apps []string // with an offset of their own
	fits []segmentFit
}

// together takes rows of one application and one number of processes per node as their
// mean.
func together(rows []sharedRow) []sharedRow {
	type key struct {
		app string
		pn  int
	}
	at := map[key]int{}
	var out []sharedRow
	for _, r := range rows {
		k := key{r.App, r.PPN}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, sharedRow{App: r.App, PPN: r.PPN})
		}
		out[i].MiB += r.MiB
		out[i].n++
	}
	for i := range out {
		out[i].MiB /= out[i].n
	}
	return out
}

// typical is a number of processes per node and a size in the middle of the rows.
func typical(rows []sharedRow) (pn, mib float64) {
	for _, r := range rows {
		pn += math.Log(float64(r.PPN)) / float64(len(rows))
		mib += math.Log(r.MiB) / float64(len(rows))
	}
	return max(2, math.Exp(pn)), math.Exp(mib)
}

// fitSegments weighs every law under every assumption about noise.
func fitSegments(mpi string, measured []sharedRow) *segments {
	s := &segments{}
	seen := map[string]bool{}
	for _, r := range measured {
		seen[r.App] = true
	}
	if len(seen) > 1 {
		s.apps = slices.Sorted(maps.Keys(seen))
	}
	rows := together(measured)
	var logs []float64
	for _, form := range sharedForms {
		for _, noise := range noiseLevels {
			r, err := s.regress(form, noise.sd, rows)
			if err != nil {
				continue
			}
			s.fits = append(s.fits, segmentFit{form.law, noise.sd, 0, r})
			logs = append(logs, r.evidence+math.Log(form.prior[mpi]*noise.prior))
		}
	}
	if len(logs) == 0 {
		return s
	}
	for i, w := range shares(logs) {
		s.fits[i].weight = w
	}
	s.fits = slices.DeleteFunc(s.fits, func(f segmentFit) bool { return f.weight == 0 })
	return s
}

func (s *segments) regress(form sharedForm, noise float64, rows []sharedRow) (*regression, error) {
	pn, mib := typical(rows)
	scale, _ := SharedBasis(form.law, pn)
	var terms []term
	for i, t := range form.terms {
		u := mib / scale[i]
		terms = append(terms, term{t.mean * u, t.sd * u, t.low * u, t.high * u})
	}
	for range s.apps {
		terms = append(terms, term{0, offsetSD, -1e6, 1e6})
	}
	var columns [][]float64
	var values []float64
	for _, r := range rows {
		row, known := s.row(form.law, r.App, r.PPN)
		columns, values = append(columns, row), append(values, r.MiB-known)
	}
	return regress(terms, columns, values, func(i, j int) float64 {
		if i != j {
			return 0
		}
		return noise * noise * rows[i].MiB * rows[i].MiB / rows[i].n
	})
}

// row are the columns of a law, and one for each application with an offset.
func (s *segments) row(law, app string, pn int) (row []float64, known float64) {
	basis, known := SharedBasis(law, float64(pn))
	row = slices.Clone(basis)
	for _, a := range s.apps {
		is := 0.
		if a == app {
			is = 1
		}
		row = append(row, is)
	}
	return row, known
}

// predict returns the shared zone of a process on a node with pn of them.
func (s *segments) predict(app string, pn int, stranger bool) forecast {
	var out forecast
	for _, f := range s.fits {
		row, known := s.row(f.law, app, pn)
		at := f.regression.predict(row, func(int) float64 { return 0 }, 0)
		at.mean, at.boundMean = at.mean+known, at.boundMean+known
		out.add(f.weight, at, func(size float64) float64 {
			v := f.noise * f.noise * size * size
			if stranger {
				v += offsetSD * offsetSD
			}
			return v
		}, true)
	}
	return out
}

// weights are the shares of the laws.
func (s *segments) weights() map[string]float64 {
	w := map[string]float64{}
	for _, f := range s.fits {
		w[f.law] += f.weight
	}
	return w
}

func sharedRows(rows []dataset.Measurement) []sharedRow {
	out := make([]sharedRow, len(rows))
	for i, r := range rows {
		out[i] = sharedRow{App: r.App, PPN: r.PPN, MiB: r.Shared}
	}
	return out
}
