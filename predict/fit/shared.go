package fit

import (
	"maps"
	"math"
	"slices"
	"sync"

	"ckpt/dataset"
)

// physical is the memory that MPICH allocates beside a constant: a cell pool of 4 MiB
// per process and 64 KiB per ordered pair.
func physical(pn float64) float64 { return 4*pn + pn*pn/16 }

// The laws of the shared zone.
const (
	sharedPhysical  = "constant + 4·pn + pn²/16"
	sharedQuadratic = "a + b·pn + c·pn²"
	sharedConstant  = "constant"
	sharedLinear    = "a + b·pn"
	sharedLog       = "a + b·log2(pn)"
)

// Errors of the shared laws, as relative standard deviation, borrowed by calibrations
// with few points. Eq 3.11 stays within 0.6 % of every independent measurement of BT
// and SP, but CG and LU lie 1.4 to 2.5 MiB lower.
const (
	sharedPrior       = 0.012
	sharedPriorPoints = 3
)

// A Shared fit is the shared zone of one MPI library by processes per node.
type Shared struct {
	Law string `json:"law"`
	Linear
	// Offsets are the differences of single applications in MiB (their stacks).
	Offsets map[string]float64 `json:"offsets"`
	Low     float64            `json:"low"`
	High    float64            `json:"high"`
	// Single is the zone of a process that is alone on its node, where it does not
	// follow the law.
	Single *Constant `json:"single,omitempty"`
	// Rows are the measurements behind the law, without single processes. MPI is
	// their library.
	Rows []sharedRow `json:"rows,omitempty"`
	MPI  string      `json:"mpi,omitempty"`

	once     sync.Once
	segments *segments
	known    sync.Map // predictions by place: a plan asks for the same ones
}

// A place is an application on a node of some processes.
type place struct {
	app string
	pn  int
}

func SharedBasis(law string, pn float64) (row []float64, known float64) {
	switch law {
	case sharedPhysical:
		return []float64{1}, physical(pn)
	case sharedQuadratic:
		return []float64{1, pn, pn * pn}, 0
	case sharedLinear:
		return []float64{1, pn}, 0
	case sharedLog:
		return []float64{1, math.Log2(pn)}, 0
	}
	return []float64{1}, 0
}

// FitShared chooses by left-out error among all laws, and of those that err by much the
// same by what the measurements and the known law of the library make likely. rows must
// be of one MPI library, with a shared zone.
//
// MPICH 4 over UCX no longer has the queues of the nemesis channel, the origin of the
// law of MPICH: its measured shared memory grows with the logarithm of the processes
// (docs/ZONES.md).
func FitShared(mpi string, rows []dataset.Measurement) (*Shared, error) {
	best := chooseShared(mpi, rows)
	if best == nil || best.worst(rows) > sharedFar {
		if f := withoutSingle(mpi, rows); f != nil {
			return f, nil
		}
	}
	if best == nil {
		return nil, Refuse("check the column of the shared zone", "no law fits the shared zone of %s", mpi)
	}
	return best, nil
}

// chooseShared fits all laws, and returns the likeliest of those whose left-out error is
// within a factor of the best.
func chooseShared(mpi string, rows []dataset.Measurement) *Shared {
	different := map[int]bool{}
	for _, m := range rows {
		different[m.PPN] = true
	}
	measured := sharedRows(rows)
	all := fitSegments(mpi, measured)
	likely := all.weights()
	var best *Shared
	errs, fits, lowest := map[string]float64{}, map[string]*Shared{}, math.Inf(1)
	for _, form := range sharedForms {
		if form.law == sharedQuadratic && len(different) < 4 || len(form.terms) > len(different) {
			continue
		}
		f, err := fitSharedLaw(form.law, rows)
		if err != nil {
			continue
		}
		fits[form.law], errs[form.law] = f, math.Sqrt(sharedLOO(form.law, rows))
		lowest = min(lowest, errs[form.law])
	}
	for _, form := range sharedForms {
		if f := fits[form.law]; f != nil && errs[form.law] <= indistinct*max(lowest, exactLaw) && (best == nil || likely[form.law] > likely[best.Law]) {
			best = f
		}
	}
	if best != nil {
		best.Rows, best.MPI, best.segments = measured, mpi, all
	}
	return best
}

// withoutSingle fits the rows of nodes with several processes, and keeps the mean of the
// others: a single process may have no segment at all. Nil if there are not both, or if
// no law describes several.
func withoutSingle(mpi string, rows []dataset.Measurement) *Shared {
	var several []dataset.Measurement
	var single []float64
	for _, m := range rows {
		if m.PPN > 1 {
			several = append(several, m)
		} else {
			single = append(single, m.Shared)
		}
	}
	if len(single) == 0 || len(several) == 0 {
		return nil
	}
	f, err := FitShared(mpi, several)
	if err != nil || f.worst(several) > sharedFar {
		return nil
	}
	f.Single = FitConstant(single)
	return f
}

// sharedFar is the relative error from which on a law does not describe a measurement.
const sharedFar = 0.15

// worst returns the largest relative error among the points.
func (f *Shared) worst(rows []dataset.Measurement) float64 {
	w := 0.0
	for _, m := range rows {
		w = max(w, math.Abs(f.value(m.App, m.PPN)/m.Shared-1))
	}
	return w
}

func fitSharedLaw(law string, rows []dataset.Measurement) (*Shared, error) {
	f := &Shared{Law: law, Low: math.Inf(1), High: 0}
	var basis [][]float64
	var values, weights []float64
	for _, m := range rows {
		row, known := SharedBasis(law, float64(m.PPN))
		basis, values, weights = append(basis, row), append(values, m.Shared-known), append(weights, m.Shared)
		f.Low, f.High = min(f.Low, float64(m.PPN)), max(f.High, float64(m.PPN))
	}
	if len(rows) == 0 {
		return nil, errSingular
	}
	lin, err := LeastSquares(basis, values, weights, nil) // a falling segment would end below 0
	if err != nil {
		return nil, err
	}
	f.Linear = *lin
	f.offsets(rows)
	return f, nil
}

// offsets finds the differences of single applications: their mean residual, shrunk as
// if one more application row had none.
func (f *Shared) offsets(rows []dataset.Measurement) {
	sum, n := map[string]float64{}, map[string]float64{}
	for _, m := range rows {
		sum[m.App] += m.Shared - f.value("", m.PPN)
		n[m.App]++
	}
	f.Offsets = map[string]float64{}
	for app := range sum {
		if len(sum) > 1 {
			f.Offsets[app] = sum[app] / (n[app] + 1)
		}
	}
	f.RSS = 0
	for _, m := range rows {
		r := f.value(m.App, m.PPN)/m.Shared - 1
		f.RSS += r * r
	}
	f.K += len(f.Offsets)
}

func (f *Shared) value(app string, pn int) float64 {
	row, known := SharedBasis(f.Law, float64(pn))
	return f.Linear.At(row) + known + f.Offsets[app]
}

func sharedLOO(law string, rows []dataset.Measurement) float64 {
	sum := 0.0
	for i, m := range rows {
		f, err := fitSharedLaw(law, slices.Delete(slices.Clone(rows), i, i+1))
		if err != nil {
			return 1 // one row: nothing to compare
		}
		r := f.value(m.App, m.PPN)/m.Shared - 1
		sum += r * r
	}
	return sum
}

// Predict returns the shared zone of a process on a node with pn of them, in MiB.
func (f *Shared) Predict(app string, pn int) Estimate {
	if pn == 1 && f.Single != nil {
		return f.Single.Predict()
	}
	v := f.value(app, pn)
	factor := Beyond(float64(pn), f.Low, f.High)
	if len(f.Rows) > 0 {
		at := place{app, pn}
		e, ok := f.known.Load(at)
		if !ok {
			e = f.blended(at, v, factor)
			f.known.Store(at, e)
		}
		return e.(Estimate)
	}
	row, _ := SharedBasis(f.Law, float64(pn))
	dof := float64(max(0, f.N-f.K) + sharedPriorPoints)
	variance := (sharedPriorPoints*sharedPrior*sharedPrior + f.RSS) / dof
	drift := sharedPrior * math.Log(factor)
	if _, ok := f.Offsets[app]; !ok {
		drift = math.Hypot(drift, f.offsetDoubt()/v)
	}
	return Around(v, Student(dof)*v*math.Sqrt(variance*(1+f.Leverage(row, v))+drift*drift), factor)
}

// blended is the value of the law chosen by left-out error, with the interval of all laws
// that the measurements permit.
func (f *Shared) blended(at place, v, factor float64) Estimate {
	f.once.Do(func() {
		if f.segments == nil {
			f.segments = fitSegments(f.MPI, f.Rows)
		}
	})
	stranger := !slices.ContainsFunc(f.Rows, func(r sharedRow) bool { return r.App == at.app })
	e := f.segments.predict(at.app, at.pn, stranger).Estimate(factor)
	return Estimate{v, min(e.Low, v), max(e.High, v), factor}
}

// offsetDoubt is the spread of the offsets of the measured applications, in MiB. It is
// the uncertainty of an unmeasured one.
func (f *Shared) offsetDoubt() float64 {
	if len(f.Offsets) == 0 {
		return 1.2 // the spread over BT, SP, LU, CG and Lulesh, Table 5.2
	}
	sum := 0.0
	for _, app := range slices.Sorted(maps.Keys(f.Offsets)) { // the order affects sums of floats
		sum += f.Offsets[app] * f.Offsets[app]
	}
	return math.Sqrt(sum / float64(len(f.Offsets)))
}
