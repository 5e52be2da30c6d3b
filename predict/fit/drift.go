package fit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
	// Written is the share of the arrays that the application ever writes, point by point;
	// nil if it writes all of them.
	Written []float64 `json:"written,omitempty"`

	arrays []Arrays
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

// shareWander is the standard deviation of the change of a share of the arrays when p grows
// by a factor e: a checkpointer that leaves out zeros stores halos and tables that are
// filled otherwise than the rest. It has the scales of the constant.
const shareWander = 0.04

// driftScales are the sizes that a constant may have as far as its wandering goes, in
// MiB, with what is assumed of them. The first is one that does not wander.
var driftScales = []noiseLevel{{0.02, 0.55}, {0.5, 0.35}, {1.5, 0.1}}

// A structureForm is one way in which a checkpoint may depend on the arrays.
type structureForm struct {
	name            string
	share, constant term
	prior           float64
	written         bool // of the arrays only what is ever written
}

// structureForms are the forms that measurements choose among. The thesis's store
// every page; the constants of its applications lie between 0.3 and 2 MiB.
var structureForms = []structureForm{
	{"arrays + constant", term{1, 0, 1, 1}, someConstant, 0.54, false},
	{"share · arrays", someShare, term{0, 0, 0, 0}, 0.14, false},
	{"share · arrays + constant", someShare, someConstant, 0.26, false},
	{"written arrays + constant", term{1, 0, 1, 1}, someConstant, 0.02, true},
	{"share · written arrays + constant", someShare, someConstant, 0.02, true},
	// A spec of which the program is a variant: anything is possible.
	{"share · arrays + constant", term{1, 1, 0, 100}, term{0, 30, -1e3, 1e3}, 0.02, false},
}

// Arrays are the arrays of a process in MiB, and those of their pages that the application
// ever writes.
type Arrays struct{ All, Written float64 }

// of is the part that a form counts.
func (a Arrays) of(f *structureForm) float64 {
	if f.written {
		return a.Written
	}
	return a.All
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
func (d *Drift) Add(p float64, arrays Arrays, mib float64) {
	d.X, d.R, d.arrays = append(d.X, math.Log(p)), append(d.R, mib-arrays.All), append(d.arrays, arrays)
	if arrays.Written < arrays.All && d.Written == nil {
		d.Written = make([]float64, len(d.X)-1)
		for i := range d.Written {
			d.Written[i] = 1
		}
	}
	if d.Written != nil {
		share := 1.0 // of no arrays
		if arrays.All > 0 {
			share = arrays.Written / arrays.All
		}
		d.Written = append(d.Written, share)
	}
}

// Pooled is a calibration by several series, of other classes of an application.
func Pooled(list []*Series) *Drift {
	d := &Drift{}
	for _, s := range list {
		for i, a := range s.Drift.arrays {
			d.Add(math.Exp(s.Drift.X[i]), a, a.All+s.Drift.R[i])
		}
	}
	return d
}

// restore finds the arrays of a drift that was read from a file.
func (d *Drift) restore(points []Point) error {
	if len(points) != len(d.R) || d.Written != nil && len(d.Written) != len(d.R) {
		return errors.New("calibration has other points than the series")
	}
	for i, pt := range points {
		a := Arrays{pt.MiB - d.R[i], pt.MiB - d.R[i]}
		if d.Written != nil {
			if a.Written *= d.Written[i]; !(d.Written[i] >= 0 && d.Written[i] <= 1) {
				return errors.New("calibration has arrays of which more than all is written")
			}
		}
		d.arrays = append(d.arrays, a)
	}
	return nil
}

func (d *Drift) values() []float64 {
	v := make([]float64, len(d.R))
	for i := range v {
		v[i] = d.arrays[i].All + d.R[i]
	}
	return v
}

// prepare fits every form under every assumption about noise.
func (d *Drift) prepare() {
	var logs []float64
	values, start := d.values(), slices.Min(d.X)
	for i := range structureForms {
		form := &structureForms[i]
		if form.written && d.Written == nil {
			continue
		}
		columns := make([][]float64, len(d.X))
		for j, x := range d.X {
			columns[j] = form.row(d.arrays[j].of(form), x-start)
		}
		for _, noise := range noiseLevels {
			for _, scale := range driftScales {
				f := structureFit{form: form, noise: noise.sd, scale: scale.sd}
				var err error
				f.regression, err = regress([]term{form.share, form.constant}, columns, values, func(a, b int) float64 {
					v := f.wander(d.X[a]-start, d.X[b]-start, d.arrays[a].of(form)*d.arrays[b].of(form))
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
	case name == "written arrays + constant":
		return "runtime constant of what is written"
	case len(coefficients) == 1:
		return fmt.Sprintf("share of %.2g of the arrays", coefficients[0])
	case strings.Contains(name, "written"):
		return fmt.Sprintf("share of %.2g of what is written, and runtime constant", coefficients[0])
	}
	return fmt.Sprintf("share of %.2g of the arrays and runtime constant", coefficients[0])
}

// aByte is the least size that errors are relative to, in MiB: a zone may be empty.
const aByte = 1.0 / (1 << 20)

// relative is the root mean square of errors relative to sizes.
func relative(errs, sizes []float64) float64 {
	s := 0.0
	for i, e := range errs {
		r := e / max(aByte, sizes[i])
		s += r * r / float64(len(errs))
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

// wander is the covariance of a constant, and of a share of the arrays, that are Brownian
// motions from the smallest measured number of processes on. squared is the product of the
// arrays at both.
func (f *structureFit) wander(a, b, squared float64) float64 {
	if a*b <= 0 {
		return 0
	}
	w := driftWander * f.scale
	variance := w * w
	if f.form.share.sd > 0 {
		w := shareWander * f.scale
		variance += w * w * squared
	}
	return variance * min(math.Abs(a), math.Abs(b))
}

// scatter is the variance of repeated measurements of a size.
func (f *structureFit) scatter(size float64) float64 {
	n := driftNoise * f.scale
	return f.noise*f.noise*size*size + n*n
}

// Predict returns what a process stores whose arrays are known, at p.
func (d *Drift) Predict(p float64, arrays Arrays) (forecast, error) {
	d.once.Do(d.prepare)
	if len(d.fits) == 0 {
		return forecast{}, errDrift
	}
	start := slices.Min(d.X)
	x := math.Log(p) - start
	var out forecast
	for _, f := range d.fits {
		mib := arrays.of(f.form)
		s := f.regression.predict(f.form.row(mib, x), func(i int) float64 {
			return f.wander(d.X[i]-start, x, d.arrays[i].of(f.form)*mib)
		}, f.wander(x, x, mib*mib))
		out.add(f.weight, s, f.scatter, d.chosen[f.form])
	}
	return out, nil
}

// Shares tells whether the measurements do not have all of the arrays.
func (d *Drift) Shares() bool {
	name, _ := d.Form()
	return name != structureForms[0].name
}
