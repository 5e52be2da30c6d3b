package dataset

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Varied is a problem size: a parameter of an application and its value. It stands in
// place of a class: heat.n=4096.
type Varied struct {
	Param string
	Value float64
}

// Class returns the class of measurements with this problem size: n=4096.
func (v Varied) Class() string { return v.Param + "=" + strconv.FormatFloat(v.Value, 'f', -1, 64) }

// maxVaried bounds a parameter: the cube of it is a number of points.
const maxVaried = 1e9

// ParseVaried reads n=4096; ok is false for other classes.
func ParseVaried(class string) (v Varied, ok bool) {
	name, value, ok := strings.Cut(class, "=")
	n, err := strconv.ParseFloat(value, 64)
	if !ok || err != nil || !isIdentifier(name) || !(n > 0 && n <= maxVaried) {
		return Varied{}, false
	}
	return Varied{name, n}, true
}

// VariedMeasurements reads the measurements of a user's table whose rows vary a parameter:
// they have a column of its name, and need no class.
func VariedMeasurements(t *Table, param string) ([]Measurement, error) {
	if !isIdentifier(param) {
		return nil, t.bad(0, param, "is not the name of a parameter", "name a column, like n")
	}
	if t.column(param) < 0 {
		return nil, t.bad(0, param, "the column is missing", "add a column "+param+": the problem size, like the points along a side of the grid")
	}
	if err := t.checkSizeColumns(param); err != nil {
		return nil, err
	}
	out, err := t.measurements(Measurement{Class: "-"}, "")
	if err != nil {
		return nil, err
	}
	for i := range out {
		row := out[i].row(t)
		var v float64
		if err := t.read(row, cell{[]string{param}, &v}); err != nil {
			return nil, err
		}
		if v <= 0 || v > maxVaried {
			return nil, t.bad(out[i].Line, param, fmt.Sprintf("%q is not a problem size", t.Text(row, param)), fmt.Sprintf("write a number above 0, at most %g", maxVaried))
		}
		out[i].Class = Varied{param, v}.Class()
	}
	return out, nil
}

// VariedInstance is [Workload.Instance] for a class, or for a problem size in place of
// one (N=162, n=162): the class whose parameter is nearest, with the parameter changed.
func (w *Workload) VariedInstance(className string, np int) (*Instance, error) {
	v, ok := ParseVaried(className)
	if !ok {
		return w.Instance(className, np)
	}
	nearest, own, distance := "", "", math.Inf(1)
	known := map[string]bool{}
	for _, name := range w.Classes() {
		for param, n := range w.spec.Classes[name].Params {
			known[param] = true
			if d := math.Abs(math.Log(v.Value / float64(n))); strings.EqualFold(param, v.Param) && n > 0 && d < distance {
				nearest, own, distance = name, param, d
			}
		}
	}
	if nearest == "" {
		names := slices.Sorted(maps.Keys(known))
		return nil, &SpecError{Reason: UnknownClass, Subject: w.Name, Problem: fmt.Sprintf("parameter %q is not known", v.Param),
			Given: v.Param, Known: names, hint: "parameters of its classes: " + strings.Join(names, ", ")}
	}
	if v.Value != math.Trunc(v.Value) {
		return nil, &SpecError{Reason: UnknownClass, Subject: w.Name, Problem: className + " is not a whole number", hint: "parameters of a spec are whole numbers"}
	}
	varied := *w
	c := w.spec.Classes[nearest]
	c.Params = maps.Clone(c.Params)
	c.Params[own] = int64(v.Value)
	varied.spec.Classes = map[string]class{v.Class(): c}
	inst, err := varied.Instance(v.Class(), np)
	if err == nil {
		inst.Workload = w
	}
	return inst, err
}

// Varies reports whether the classes of the workload have a parameter of that name.
func (w *Workload) Varies(param string) bool {
	for _, c := range w.spec.Classes {
		for name := range c.Params {
			if strings.EqualFold(name, param) {
				return true
			}
		}
	}
	return false
}

// Scatter is the standard deviation of each size between runs of the same job, in MiB. It
// is 0 for a size that fewer than two runs have.
type Scatter struct {
	Data    float64 `json:"data_mib,omitempty"`
	Library float64 `json:"library_mib,omitempty"`
	Shared  float64 `json:"shared_mib,omitempty"`
	File    float64 `json:"file_mib,omitempty"`
	Stored  float64 `json:"stored_mib,omitempty"`
}

// sameRun names the measurements that [Means] merges.
type sameRun struct {
	series, codec string
	np, ppn       int
	doubtful      bool
}

func (m *Measurement) run() sameRun {
	return sameRun{m.Series(), m.Codec, m.NP, m.PPN, m.SharedDoubtful}
}

// Means merges measurements of the same application, MPI library, codec, number of
// processes and processes per node into one: the mean, the number of runs, and how they
// scatter. Sizes that a row lacks do not count.
func Means(rows []Measurement) []Measurement {
	var order []sameRun
	runs := make(map[sameRun][]Measurement)
	for _, m := range rows {
		k := m.run()
		if runs[k] == nil {
			order = append(order, k)
		}
		runs[k] = append(runs[k], m)
	}
	out := make([]Measurement, 0, len(order))
	for _, k := range order {
		out = append(out, meanOf(runs[k]))
	}
	return out
}

func meanOf(runs []Measurement) Measurement {
	mean := runs[0]
	if len(runs) == 1 {
		return mean
	}
	mean.Runs = 0
	for i, m := range runs {
		mean.Runs += max(1, m.Runs)
		if i > 0 && !slices.Contains(strings.Split(mean.Table, ", "), m.Table) {
			mean.Table += ", " + m.Table
		}
	}
	for _, z := range []struct {
		of      func(*Measurement) *float64
		scatter func(*Measurement) *float64
	}{
		{func(m *Measurement) *float64 { return &m.Data }, func(m *Measurement) *float64 { return &m.Scatter.Data }},
		{func(m *Measurement) *float64 { return &m.Library }, func(m *Measurement) *float64 { return &m.Scatter.Library }},
		{func(m *Measurement) *float64 { return &m.Shared }, func(m *Measurement) *float64 { return &m.Scatter.Shared }},
		{func(m *Measurement) *float64 { return &m.File }, func(m *Measurement) *float64 { return &m.Scatter.File }},
		{func(m *Measurement) *float64 { return &m.Stored }, func(m *Measurement) *float64 { return &m.Scatter.Stored }},
	} {
		*z.of(&mean), *z.scatter(&mean) = pooled(runs, z.of, z.scatter)
	}
	return mean
}

// pooled returns the mean of a size over runs and its standard deviation. A run that is
// itself a mean counts as often as it has runs.
func pooled(runs []Measurement, of, scatter func(*Measurement) *float64) (mean, sd float64) {
	var n, squares float64
	for i := range runs {
		v, k, s := *of(&runs[i]), float64(max(1, runs[i].Runs)), *scatter(&runs[i])
		if v == 0 {
			continue
		}
		d := v - mean
		mean += d * k / (n + k)
		squares += d*d*n*k/(n+k) + s*s*(k-1)
		n += k
	}
	if n < 2 {
		return mean, 0
	}
	return mean, math.Sqrt(squares / (n - 1))
}
