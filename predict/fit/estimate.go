// Package fit fits laws to measurements of one zone or time, and predicts it with an interval
// that holds the true value in 95 of 100 cases.
//
// Sizes are in MiB, times in seconds. Everything quoted is from B. León Otero, PhD thesis,
// UAB 2022.
package fit

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// An Estimate is a number with an interval that contains the true value in 95
// of 100 cases. The field that holds it determines the unit.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Extrapolation is the factor by which the prediction lies outside the range of
	// the fitted points, or 1 inside it.
	Extrapolation float64 `json:"extrapolation"`
}

// Between is an estimate with these ends.
func Between(value, low, high, extrapolation float64) Estimate {
	return Estimate{value, low, high, extrapolation}
}

// Around makes an interval of half a width. Nonnegative quantities stay nonnegative.
func Around(value, half, extrapolation float64) Estimate {
	return Estimate{value, max(0, value-half), value + half, max(1, extrapolation)}
}

// Positive is an estimate of a quantity that is positive by construction: the logarithm of a
// measurement has a normal error of a standard deviation sd, which dof measurements show.
func Positive(value, sd, dof, extrapolation float64) Estimate {
	factor := math.Exp(min(maxLog, Student(dof)*sd))
	return Estimate{value, value / factor, value * factor, max(1, extrapolation)}
}

// maxLog keeps the ends of an interval apart from 0 and from infinity.
const maxLog = 200

// Half is the half width of the interval.
func (e Estimate) Half() float64 { return max(e.High-e.Value, e.Value-e.Low) }

// Scale multiplies an estimate by a number known exactly.
func (e Estimate) Scale(f float64) Estimate {
	return Estimate{e.Value * f, e.Low * f, e.High * f, e.Extrapolation}
}

// Independent adds estimates with independent errors: the squares of the widths add, on
// each side.
func Independent(list ...Estimate) Estimate {
	sum := Estimate{Extrapolation: 1}
	below, above := 0.0, 0.0
	for _, e := range list {
		sum.Value += e.Value
		below += (e.Value - e.Low) * (e.Value - e.Low)
		above += (e.High - e.Value) * (e.High - e.Value)
		sum.Extrapolation = max(sum.Extrapolation, e.Extrapolation)
	}
	sum.Low, sum.High = max(0, sum.Value-math.Sqrt(below)), sum.Value+math.Sqrt(above)
	return sum
}

// Contains reports whether v lies in the interval.
func (e Estimate) Contains(v float64) bool { return e.Low <= v && v <= e.High }

// Beyond returns the factor by which x lies outside [low, high].
func Beyond(x, low, high float64) float64 {
	switch {
	case x <= 0 || low <= 0 || high <= 0:
		return 1
	case x < low:
		return low / x
	case x > high:
		return x / high
	}
	return 1
}

// noiseLevel is one assumption about how far a measurement lies from its law, as a
// relative standard deviation.
type noiseLevel struct{ sd, prior float64 }

// noiseLevels are the assumptions: sizes that repeat to a page, ordinary scatter of up
// to 2 %, block sizes that no smooth law follows (3.5 % in the tables of the thesis), and
// measurements that no law describes.
var noiseLevels = [...]noiseLevel{
	{0.0003, 0.08}, {0.001, 0.10}, {0.0025, 0.13}, {0.005, 0.17}, {0.009, 0.18}, {0.014, 0.15},
	{0.02, 0.10}, {0.03, 0.05}, {0.045, 0.025}, {0.08, 0.01}, {0.2, 0.004}, {0.6, 0.001},
}

// Factor writes a factor of extrapolation: 1.6, 16, 128.
func Factor(f float64) string {
	if f < 10 {
		return strconv.FormatFloat(f, 'g', 2, 64)
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Far reports whether a factor of extrapolation is one that Factor tells from 1.
func Far(f float64) bool { return f >= 1.05 }

// A Zone names the law and points behind the prediction of a zone.
type Zone struct {
	Estimate
	Law   string
	Basis string
	N     int
	// Warning says why the estimate deserves doubt, if it does.
	Warning string
}

func Tables(list []string) string {
	if len(list) == 0 {
		return "no table"
	}
	if strings.ContainsAny(list[0], "/") || strings.HasSuffix(list[0], ".csv") {
		return strings.Join(list, ", ")
	}
	if len(list) == 1 {
		return "Table " + list[0]
	}
	return "Tables " + strings.Join(list, ", ")
}

func Mean(list []float64) float64 {
	s := 0.0
	for _, v := range list {
		s += v / float64(len(list))
	}
	return s
}

func Join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// A Range is a quantity with an interval around it.
type Range struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Exactly is a range of one value.
func Exactly(v float64) Range { return Range{v, v, v} }

// Plus adds.
func (r Range) Plus(o Range) Range { return Range{r.Value + o.Value, r.Low + o.Low, r.High + o.High} }

// Times multiplies by a range of positive numbers.
func (r Range) Times(o Range) Range {
	return Range{r.Value * o.Value, r.Low * o.Low, r.High * o.High}
}

// Over divides by a range of positive numbers.
func (r Range) Over(o Range) Range {
	return Range{r.Value / o.Value, r.Low / o.High, r.High / o.Low}
}

// Scale multiplies by a positive number.
func (r Range) Scale(f float64) Range { return Range{r.Value * f, r.Low * f, r.High * f} }

// Valid reports whether low ≤ value ≤ high, all of them positive and finite.
func (r Range) Valid() bool {
	return r.Low >= 0 && r.Low <= r.Value && r.Value <= r.High && r.High < 1e18
}

// Contains reports whether v lies in the interval.
func (r Range) Contains(v float64) bool { return r.Low <= v && v <= r.High }

// Half is the larger half of the interval.
func (r Range) Half() float64 { return max(r.High-r.Value, r.Value-r.Low) }

// Range is the estimate without its extrapolation.
func (e Estimate) Range() Range { return Range{e.Value, e.Low, e.High} }

// A repeats has how runs of the same configuration differ, pooled over configurations: a
// fit sees their means only, and a prediction is of a single run.
type repeats struct {
	// SD is the standard deviation of a run, as a share of the size.
	SD float64 `json:"sd"`
	// Dof is the number of runs beyond the first of each configuration.
	Dof float64 `json:"dof"`
}

// AddRuns adds runs of one configuration, with their mean and scatter.
func AddRuns(r *repeats, runs int, mean, scatter float64) *repeats {
	if runs < 2 || mean <= 0 {
		return r
	}
	if r == nil {
		r = new(repeats)
	}
	dof := float64(runs - 1)
	r.SD = math.Sqrt((r.SD*r.SD*r.Dof + scatter/mean*scatter/mean*dof) / (r.Dof + dof))
	r.Dof += dof
	return r
}

// Widen adds what a single run differs from the mean to an interval.
func (r *repeats) Widen(e Estimate) Estimate {
	if r == nil {
		return e
	}
	extra := Student(math.Round(r.Dof)) * r.SD * e.Value
	e.Low, e.High = max(0, e.Value-math.Hypot(e.Value-e.Low, extra)), e.Value+math.Hypot(e.High-e.Value, extra)
	return e
}

func (r *repeats) Check() error {
	if r != nil && !(r.SD >= 0 && r.SD < 1e3 && r.Dof >= 1 && r.Dof < 1e6) {
		return errors.New("the scatter of repeated runs is impossible")
	}
	return nil
}
