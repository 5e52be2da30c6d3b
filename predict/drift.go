package predict

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// A drift is the runtime constant: the memory of a process beside the arrays of its
// workload spec, as measured at some process counts. It is nearly the same everywhere
// (BT.B under MPICH: 0.77 MiB at 4 processes, 0.62 at 36), so one measurement
// calibrates it. But it does wander, on average slightly downwards. It is therefore
// modelled as a Brownian motion over ln p with noise around the trend p^driftTrend
// (kriging): predictions interpolate between measurements, continue the last ones
// along the trend beyond them, and have intervals that widen with the distance.
type drift struct {
	// X is ln p, R the runtime constant in MiB at each measurement, sorted as given.
	X []float64 `json:"ln_p"`
	R []float64 `json:"mib"`
}

// The behaviour of the constant in units of its own size, over the series of León
// (2022), Tables 4.1-4.3, 5.1, 5.2 and 5.16. wander is the standard deviation of its
// change when p grows by a factor e. noise is that of repeated measurements (0.1 to
// 0.2 MiB: SP.B.16 is 28.46 MiB in Table 4.2, 28.30 in 5.16). TestPriors recomputes
// the likelihood.
const (
	driftWander = 0.18
	// driftTrend is the mean of the change itself; TestDriftTrend recomputes it.
	driftTrend = -0.03
	driftNoise = 0.10
	// driftDoubt is the relative standard deviation of the constant of an unmeasured
	// spec.
	driftDoubt = 0.6
	driftDof   = 40
)

// scale is the size of the constant, in MiB.
func (d *drift) scale() float64 {
	sum := 0.0
	for _, r := range d.R {
		sum += math.Abs(r)
	}
	return max(0.05, sum/float64(len(d.R)))
}

var errDrift = errors.New("calibration is singular")

// predict returns the constant at p in MiB and the standard deviation of the
// difference to a measurement there.
func (d *drift) predict(p float64) (value, sd float64, err error) {
	n, x, scale := len(d.X), math.Log(p), d.scale()
	// Ordinary kriging: the variogram of a Brownian motion is linear. The last
	// row makes the weights sum to one, so that the unknown mean drops out.
	a, b := mat.NewDense(n+1, n+1, nil), mat.NewVecDense(n+1, nil)
	variogram := func(h float64) float64 { return driftWander * driftWander * math.Abs(h) / 2 }
	for i := range n {
		for j := range n {
			a.Set(i, j, -variogram(d.X[i]-d.X[j]))
		}
		a.Set(i, i, driftNoise*driftNoise)
		a.Set(i, n, 1)
		a.Set(n, i, 1)
		b.SetVec(i, -variogram(d.X[i]-x))
	}
	b.SetVec(n, 1)
	var w mat.VecDense
	if err := w.SolveVec(a, b); err != nil {
		return 0, 0, errDrift
	}
	variance := driftNoise * driftNoise
	for i := range n {
		value += w.AtVec(i) * d.R[i] * math.Exp(driftTrend*(x-d.X[i]))
		variance -= w.AtVec(i) * b.AtVec(i)
	}
	variance -= w.AtVec(n)
	return value, scale * math.Sqrt(max(variance, driftNoise*driftNoise)), nil
}
