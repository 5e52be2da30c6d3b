package fit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Varied fit is the data zone of one application and MPI library over two variables:
// the process count p and a problem size n, a parameter that the measurements vary.
type Varied struct {
	App    string        `json:"app"`
	MPI    string        `json:"mpi"`
	Param  string        `json:"param"`
	Tables []string      `json:"tables"`
	Points []VariedPoint `json:"points"`
	Laws   []*variedLaw  `json:"laws"`
	// Repeats are how repeated runs differ, nil without any.
	Repeats *repeats `json:"repeats,omitempty"`

	once sync.Once
	all  *average
}

// A VariedPoint is one measurement: MiB of a process at n and p.
type VariedPoint struct {
	N   float64 `json:"n"`
	P   float64 `json:"p"`
	MiB float64 `json:"mib"`
}

// A monomial is n^N · p^P.
type monomial struct {
	N float64 `json:"n"`
	P float64 `json:"p"`
}

func (t monomial) at(n, p float64) float64 { return math.Pow(n, t.N) * math.Pow(p, t.P) }

// String writes the monomial as people do: n^3/p, n^2/p^(2/3).
func (t monomial) String() string {
	power := func(x string, e float64) string {
		if e == 1 {
			return x
		}
		return x + "^" + exponent(e)
	}
	s := "1"
	if t.N != 0 {
		s = power("n", t.N)
	}
	if t.P != 0 {
		s += "/" + power("p", -t.P)
	}
	return s
}

// exponent writes 2, (2/3) or 0.75.
func exponent(e float64) string {
	if e == math.Trunc(e) {
		return strconv.FormatFloat(e, 'f', -1, 64)
	}
	for d := 2.; d <= 3; d++ {
		if n := e * d; math.Abs(n-math.Round(n)) < 1e-9 {
			return fmt.Sprintf("(%.0f/%.0f)", n, d)
		}
	}
	return strconv.FormatFloat(e, 'g', 3, 64)
}

// A variedLaw is a sum of terms, with coefficients that are not negative.
type variedLaw struct {
	Terms []monomial `json:"terms"`
	Linear
	// LOO is the root mean square of the relative errors when each point is predicted
	// from the others. Weight is the share of the law in predictions.
	LOO    float64 `json:"loo"`
	Weight float64 `json:"weight"`
}

func (l *variedLaw) row(n, p float64) []float64 {
	row := make([]float64, len(l.Terms))
	for i, t := range l.Terms {
		row[i] = t.at(n, p)
	}
	return row
}

func (l *variedLaw) at(n, p float64) float64 { return l.Linear.At(l.row(n, p)) }

// String names the terms that have a part in the law.
func (l *variedLaw) String() string {
	var parts []string
	for i, t := range l.Terms {
		if l.Coef[i] != 0 {
			parts = append(parts, string(rune('a'+len(parts)))+"·"+t.String())
		}
	}
	return strings.ReplaceAll(strings.Join(parts, " + "), "·1", "")
}

// A volume is a law of a problem of n points along each side in d dimensions, of which each
// of p processes has a part: the volume n^d/p, a surface, and a constant.
//
// The surface is one of blocks, (n^d/p)^((d-1)/d), of slabs, n^(d-1), or of pencils
// through three dimensions, n²/√p. With d = 1 a surface is a constant.
type volume struct {
	terms []monomial
	at    func(u, v float64, x *abscissa) float64
	prior float64
}

// volumes are the laws of a problem size.
var volumes = func() (list []volume) {
	add := func(prior, d float64, surface monomial, halo func(x *abscissa) float64) {
		size := func(x *abscissa) float64 { return math.Pow(x.n, d) * x.inverse }
		v := volume{terms: []monomial{{d, -1}, {}}, prior: prior, at: func(u, _ float64, x *abscissa) float64 { return floored(u, size(x)) }}
		if halo != nil {
			v.terms = []monomial{{d, -1}, surface, {}}
			v.at = func(u, v float64, x *abscissa) float64 { return floored(v, surfaced(0.9*u, size(x), halo(x))) }
		}
		list = append(list, v)
	}
	add(0.16, 1, monomial{}, nil)
	add(0.10, 2, monomial{}, nil)
	add(0.12, 2, monomial{1, -1. / 2}, func(x *abscissa) float64 { return x.n * x.root })
	add(0.12, 2, monomial{1, 0}, func(x *abscissa) float64 { return x.n })
	add(0.10, 3, monomial{}, nil)
	add(0.16, 3, monomial{2, -2. / 3}, func(x *abscissa) float64 { return x.n * x.n * x.twoThirds })
	add(0.10, 3, monomial{2, 0}, func(x *abscissa) float64 { return x.n * x.n })
	add(0.14, 3, monomial{2, -1. / 2}, func(x *abscissa) float64 { return x.n * x.n * x.root })
	return list
}()

// averaged averages the laws, which a file has without the average.
func (f *Varied) averaged() *average {
	f.once.Do(func() {
		var list []family
		prior := priors{}
		for i, v := range volumes {
			l := Law(strconv.Itoa(i))
			list = append(list, family{l, len(v.terms) - 1, false, v.at})
			prior[l] = v.prior
		}
		var samples []sample
		for _, pt := range f.Points {
			samples = append(samples, sample{n: pt.N, p: pt.P, mib: pt.MiB})
		}
		f.all = averageLaws(samples, list, prior)
	})
	return f.all
}

// Spans returns the range of n and of p among the points.
func (f *Varied) Spans() (n, p [2]float64) {
	n, p = [2]float64{math.Inf(1), 0}, [2]float64{math.Inf(1), 0}
	for _, pt := range f.Points {
		n = [2]float64{min(n[0], pt.N), max(n[1], pt.N)}
		p = [2]float64{min(p[0], pt.P), max(p[1], pt.P)}
	}
	return n, p
}

func (f *Varied) Name() string { return f.App + "." + f.Param + " " + f.MPI }

// Predict evaluates the laws at n and p. The interval is of a single run.
func (f *Varied) Predict(n, p float64) Estimate {
	rn, rp := f.Spans()
	factor := max(Beyond(n, rn[0], rn[1]), Beyond(p, rp[0], rp[1]))
	return f.Repeats.Widen(f.averaged().estimate("", n, p, factor))
}

// String names the laws in the mean, heaviest first.
func (f *Varied) String() string {
	laws := slices.Clone(f.Laws)
	slices.SortStableFunc(laws, func(a, b *variedLaw) int { return int(math.Copysign(1, b.Weight-a.Weight)) })
	var names []string
	for _, l := range laws {
		if name := l.String(); l.Weight >= 0.05 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		return "mean of " + strings.Join(names, ", ")
	}
	return strings.Join(names, "")
}

// Basis names the points behind a prediction.
func (f *Varied) Basis() string {
	n, p := f.Spans()
	return fmt.Sprintf("%s, %d points with %s from %g to %g and from %g to %g processes (%s)", f.Name(), len(f.Points), f.Param, n[0], n[1], p[0], p[1], Tables(f.Tables))
}

// Fit averages the laws, and fits each by itself for those who want to see it.
func (f *Varied) Fit() error {
	if len(f.Points) > MaxPoints {
		return Refuse("give means of repeated runs, and fewer process counts", "%s: %d points are more than the %d that can be fitted", f.Name(), len(f.Points), MaxPoints)
	}
	_, share := f.averaged().shares()
	f.Laws = nil
	sum := 0.0
	for i, v := range volumes {
		l, err := fitTerms(v.terms, f.Points)
		if err != nil || share[Law(strconv.Itoa(i))] < leastWeight {
			continue
		}
		if l.LOO, err = leftOut(v.terms, f.Points); err != nil {
			continue
		}
		l.Weight = share[Law(strconv.Itoa(i))]
		sum += l.Weight
		f.Laws = append(f.Laws, l)
	}
	if len(f.Laws) == 0 {
		return Refuse("check the measurements", "%s: no law fits the points", f.Name())
	}
	for _, l := range f.Laws {
		l.Weight /= sum
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

// Check verifies a fit from a file.
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

// Data predicts the data zone of one process.
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
		worst = max(worst, math.Abs(f.Predict(pt.N, pt.P).Value/pt.MiB-1))
	}
	return worst
}
