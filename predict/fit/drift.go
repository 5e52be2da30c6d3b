package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// A Drift calibrates the structure of an application: what a process stores is a share
// of the arrays of its workload spec, and a runtime constant. The share is 1 under a
// checkpointer that stores every page, and less under one that leaves out pages of zeros.
//
// The constant is nearly the same everywhere (BT.B under MPICH: 0.77 MiB at 4 processes,
// 0.62 at 36), so one measurement calibrates it. But it does wander, on average slightly
// downwards. It is therefore modelled as a Brownian motion over ln p around the trend
// p^driftTrend: predictions interpolate between measurements, continue the last ones
// along the trend beyond them, and have intervals that widen with the distance.
type Drift struct {
	// X is ln p, R what a measurement has beside the arrays, in MiB, sorted as given.
	X []float64 `json:"ln_p"`
	R []float64 `json:"mib"`

	arrays []float64
	once   sync.Once
	fits   []structureFit
	chosen map[*structureForm]bool
	// leftOut is the left-out error of the chosen forms, 0 if there are too few points.
	leftOut float64
}

// The behaviour of the constant in units of its own size, over the series of León
// (2022), Tables 4.1-4.3, 5.1, 5.2 and 5.16. wander is the standard deviation of its
// change when p grows by a factor e. noise is the scatter of repeated measurements (0.1 to
// 0.2 MiB: SP.B.16 is 28.46 MiB in Table 4.2, 28.30 in 5.16).
const (
	driftWander = 0.18
	// driftTrend is the mean of the change itself; TestDriftTrend recomputes it.
	driftTrend = -0.03
	driftNoise = 0.10
	// DriftDoubt is the relative standard deviation of the constant of an unmeasured
	// spec.
	DriftDoubt = 0.6
	DriftDof   = 40
)

// driftScales are the sizes that a constant may have as far as its wandering goes, in
// MiB, with what is assumed of them. The first is one that does not wander.
var driftScales = []noiseLevel{{0.02, 0.55}, {0.5, 0.35}, {1.5, 0.1}}

// A structureForm is one way in which a checkpoint may depend on the arrays.
type structureForm struct {
	name            string
	share, constant term
	prior           float64
}

// structureForms are the forms that measurements choose among. The thesis's store
// every page; the constants of its applications lie between 0.3 and 2 MiB.
var structureForms = []structureForm{
	{"arrays + constant", term{1, 0, 1, 1}, someConstant, 0.55},
	{"share · arrays", someShare, term{0, 0, 0, 0}, 0.15},
	{"share · arrays + constant", someShare, someConstant, 0.28},
	// A spec of which the program is a variant: anything is possible.
	{"share · arrays + constant", term{1, 1, 0, 100}, term{0, 30, -1e3, 1e3}, 0.02},
}

var (
	someShare    = term{0.8, 0.25, 0.05, 1}
	someConstant = term{1.2, 1.7, 0, 100}
)

// A structureFit is one form under one assumption about noise.
type structureFit struct {
	form   *structureForm
	noise  float64 // relative to a size
	scale  float64 // of a constant that wanders
	weight float64
	*regression
}

var errDrift = errors.New("calibration is singular")

// Add appends a measurement of a process whose arrays are known.
func (d *Drift) Add(p, arrays, mib float64) {
	d.X, d.R, d.arrays = append(d.X, math.Log(p)), append(d.R, mib-arrays), append(d.arrays, arrays)
}

// restore finds the arrays of a drift that was read from a file.
func (d *Drift) restore(points []Point) error {
	if len(points) != len(d.R) {
		return errors.New("calibration has other points than the series")
	}
	for i, pt := range points {
		d.arrays = append(d.arrays, pt.MiB-d.R[i])
	}
	return nil
}

func (d *Drift) values() []float64 {
	v := make([]float64, len(d.R))
	for i := range v {
		v[i] = d.arrays[i] + d.R[i]
	}
	return v
}

// prepare fits every form under every assumption about noise.
func (d *Drift) prepare() {
	var logs []float64
	values, start := d.values(), slices.Min(d.X)
	for i := range structureForms {
		form := &structureForms[i]
		columns := make([][]float64, len(d.X))
		for j, x := range d.X {
			columns[j] = form.row(d.arrays[j], x-start)
		}
		for _, noise := range noiseLevels {
			for _, scale := range driftScales {
				f := structureFit{form: form, noise: noise.sd, scale: scale.sd}
				var err error
				f.regression, err = regress([]term{form.share, form.constant}, columns, values, func(a, b int) float64 {
					v := f.wander(d.X[a]-start, d.X[b]-start)
					if a == b {
						v += f.scatter(values[a])
					}
					return v
				})
				if err != nil {
					continue
				}
				d.fits = append(d.fits, f)
				logs = append(logs, f.evidence+math.Log(form.prior*noise.prior*scale.prior))
			}
		}
	}
	if len(logs) == 0 {
		return
	}
	for i, w := range shares(logs) {
		d.fits[i].weight = w
	}
	d.fits = slices.DeleteFunc(d.fits, func(f structureFit) bool { return f.weight == 0 })
	d.choose(values)
}

// Missed is the left-out error of the chosen forms, 0 if there are too few points.
func (d *Drift) Missed() float64 {
	d.once.Do(d.prepare)
	return d.leftOut
}

// choose keeps the forms whose left-out error is within a factor of the best. The value
// of a prediction is theirs, its interval comes from all forms.
func (d *Drift) choose(values []float64) {
	likeliest := map[*structureForm]*structureFit{}
	likely := map[*structureForm]float64{}
	for i := range d.fits {
		f := &d.fits[i]
		likely[f.form] += f.weight
		if best := likeliest[f.form]; best == nil || f.weight > best.weight {
			likeliest[f.form] = f
		}
	}
	d.chosen = map[*structureForm]bool{}
	errs, lowest := map[*structureForm]float64{}, math.Inf(1)
	misses := map[*structureForm][]float64{}
	for form, f := range likeliest {
		d.chosen[form] = true
		if misses[form] = f.regression.leftOut(); distinctOf(d.X) > 2 {
			errs[form] = max(exactLaw, relative(misses[form], values))
			lowest = min(lowest, errs[form])
		}
	}
	if len(errs) == 0 {
		return
	}
	mean, sum := make([]float64, len(values)), 0.0
	for i := range structureForms { // the order affects sums of floats
		form := &structureForms[i]
		if d.chosen[form] = d.chosen[form] && errs[form] <= indistinct*lowest; d.chosen[form] {
			sum += likely[form]
			for j, m := range misses[form] {
				mean[j] += likely[form] * m
			}
		}
	}
	d.leftOut = relative(mean, values) / sum
}

// Form returns the likeliest of the chosen forms with its coefficients: the share of the
// arrays where it is not 1, and the constant where there is one.
func (d *Drift) Form() (name string, coefficients []float64) {
	d.once.Do(d.prepare)
	var best *structureFit
	for i := range d.fits {
		if f := &d.fits[i]; d.chosen[f.form] && (best == nil || f.weight > best.weight) {
			best = f
		}
	}
	if best == nil {
		return structureForms[0].name, []float64{Mean(d.R)}
	}
	for t, c := range best.terms {
		if c.sd > 0 {
			row := make([]float64, len(best.terms))
			row[t] = 1
			coefficients = append(coefficients, best.regression.predict(row, nil, 0).mean)
		}
	}
	return best.form.name, coefficients
}

// Calibrated names what the measurements of a series calibrate.
func (d *Drift) Calibrated() string {
	name, coefficients := d.Form()
	switch {
	case name == structureForms[0].name:
		return "runtime constant"
	case len(coefficients) == 1:
		return fmt.Sprintf("share of %.2g of the arrays", coefficients[0])
	}
	return fmt.Sprintf("share of %.2g of the arrays and runtime constant", coefficients[0])
}

// relative is the root mean square of errors relative to sizes.
func relative(errs, sizes []float64) float64 {
	s := 0.0
	for i, e := range errs {
		s += e / sizes[i] * e / sizes[i] / float64(len(errs))
	}
	return math.Sqrt(s)
}

func distinctOf(list []float64) int {
	return len(slices.Compact(slices.Sorted(slices.Values(list))))
}

// row are the columns of a form: arrays, and the constant along its trend.
func (*structureForm) row(arrays, x float64) []float64 {
	return []float64{arrays, math.Exp(driftTrend * x)}
}

// wander is the covariance of a constant that is a Brownian motion from the smallest
// measured number of processes on.
func (f *structureFit) wander(a, b float64) float64 {
	if a*b <= 0 {
		return 0
	}
	w := driftWander * f.scale
	return w * w * min(math.Abs(a), math.Abs(b))
}

// scatter is the variance of repeated measurements of a size.
func (f *structureFit) scatter(size float64) float64 {
	n := driftNoise * f.scale
	return f.noise*f.noise*size*size + n*n
}

// Predict returns what a process stores whose arrays are known, at p.
func (d *Drift) Predict(p, arrays float64) (forecast, error) {
	d.once.Do(d.prepare)
	if len(d.fits) == 0 {
		return forecast{}, errDrift
	}
	start := slices.Min(d.X)
	x := math.Log(p) - start
	var out forecast
	for _, f := range d.fits {
		s := f.regression.predict(f.form.row(arrays, x), func(i int) float64 { return f.wander(d.X[i]-start, x) }, f.wander(x, x))
		out.add(f.weight, s, f.scatter, d.chosen[f.form])
	}
	return out, nil
}
