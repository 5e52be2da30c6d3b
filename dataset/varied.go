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
		v, err := t.Number(row, param)
		if err != nil {
			return nil, err
		}
		if math.IsNaN(v) || v <= 0 || v > maxVaried {
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
		for param, n := range w.classes[name].params {
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
	c := w.classes[nearest]
	c.params = maps.Clone(c.params)
	c.params[own] = int64(v.Value)
	varied.classes = map[string]class{v.Class(): c}
	inst, err := varied.Instance(v.Class(), np)
	if err == nil {
		inst.Workload = w
	}
	return inst, err
}

// Varies reports whether the classes of the workload have a parameter of that name.
func (w *Workload) Varies(param string) bool {
	for _, c := range w.classes {
		for name := range c.params {
			if strings.EqualFold(name, param) {
				return true
			}
		}
	}
	return false
}
