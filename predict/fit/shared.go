package fit

import (
	"math"
	"slices"
	"sync"

	"ckpt/dataset"
)

// offsetSD is the standard deviation of the shared zone between applications, in MiB: of
// BT, SP, LU, CG and Lulesh in Table 5.2.
const offsetSD = 1.2

// sharedNames are the laws of the shared zone, of pn processes on a node.
var sharedNames = map[Law]string{
	Segment: "constant + 4·pn + pn²/16", Quadratic: "a + b·pn + c·pn²", Steady: "constant", Rising: "a + b·pn",
	Logarithm: "a + b·log2(pn)", Plateau: "min(a + b·pn, c)", LogPlateau: "min(a + b·log2(pn), c)", Levelling: "a - b/pn", Inverse: "a/pn + c",
}

// A Shared fit is the shared zone of one MPI library by processes per node. It predicts
// from its rows; its law is the likeliest, for those who want to see one.
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
	Rows []sharedRow `json:"rows"`
	MPI  string      `json:"mpi"`

	once  sync.Once
	laws  *average
	known sync.Map // predictions by place: a plan asks for the same ones
}

// A sharedRow is one measurement of the shared zone.
type sharedRow struct {
	App string  `json:"app"`
	PPN int     `json:"processes_per_node"`
	MiB float64 `json:"mib"`
}

// A place is an application on a node of some processes.
type place struct {
	app string
	pn  int
}

// singleShare is how often a process that is alone on its node does not follow the law of
// the others: it needs no segment.
const singleShare = 0.3

// FitShared averages the laws of the shared zone. rows must be of one MPI library, with a
// shared zone.
//
// MPICH 4 over UCX no longer has the queues of the nemesis channel, the origin of the
// segment law: its measured shared memory grows with the logarithm of the processes, or
// until a table is full (docs/ZONES.md).
func FitShared(mpi string, rows []dataset.Measurement) (*Shared, error) {
	var all, single, several []sharedRow
	for _, m := range rows {
		r := sharedRow{m.App, m.PPN, m.Shared}
		if all = append(all, r); m.PPN == 1 {
			single = append(single, r)
		} else {
			several = append(several, r)
		}
	}
	if len(all) == 0 {
		return nil, Refuse("check the column of the shared zone", "the shared zone of %s has no measurement", mpi)
	}
	f := newShared(mpi, all)
	if len(single) > 0 && len(several) > 0 {
		alone := averageLaws(samplesOf(single), families, priors{Steady: 1})
		g := newShared(mpi, several)
		apart := g.laws.evidence + alone.evidence + math.Log(singleShare)
		if apart > f.laws.evidence+math.Log(1-singleShare) {
			f = g
			f.Single = FitConstant(sizesOf(single))
		}
	}
	return f, f.describe()
}

func newShared(mpi string, rows []sharedRow) *Shared {
	f := &Shared{MPI: mpi, Rows: rows}
	f.averaged()
	return f
}

// averaged averages the laws of the rows, which a file has without the average.
func (f *Shared) averaged() *average {
	f.once.Do(func() { f.laws = averageLaws(samplesOf(f.Rows), families, sharedPriors[f.MPI]) })
	return f.laws
}

func samplesOf(rows []sharedRow) (out []sample) {
	for _, r := range rows {
		out = append(out, sample{r.App, 1, float64(r.PPN), r.MiB})
	}
	return out
}

func sizesOf(rows []sharedRow) (out []float64) {
	for _, r := range rows {
		out = append(out, r.MiB)
	}
	return out
}

// describe fits the likeliest law, without what applications differ by.
func (f *Shared) describe() error {
	laws, _ := f.laws.shares()
	f.Law, f.Offsets = sharedNames[laws[0]], map[string]float64{}
	for _, app := range f.laws.apps {
		f.Offsets[app] = f.laws.offset(app)
	}
	points := make([]Point, len(f.Rows))
	for i, r := range f.Rows {
		points[i] = Point{float64(r.PPN), max(r.MiB-f.Offsets[r.App], r.MiB/10)}
	}
	f.Low, f.High = Span(points)
	fit, err := fitLaw(laws[0], points)
	if err != nil {
		fit, err = fitLaw(laws[0], f.laws.likeliest(laws[0]))
	}
	if err == nil {
		f.Linear, f.Coef, f.N = fit.Linear, fit.Coefficients(), len(f.Rows)
	}
	return err
}

// Predict returns the shared zone of a process on a node with pn of them, in MiB.
func (f *Shared) Predict(app string, pn int) Estimate {
	if pn == 1 && f.Single != nil {
		return f.Single.Predict()
	}
	at := place{app, pn}
	e, ok := f.known.Load(at)
	if !ok {
		e = f.averaged().estimate(app, 1, float64(pn), Beyond(float64(pn), f.Low, f.High))
		f.known.Store(at, e)
	}
	return e.(Estimate)
}

// Check verifies a fit from a file.
func (f *Shared) Check() error {
	if f == nil || len(f.Rows) == 0 || len(f.Rows) > MaxRows || sharedPriors[f.MPI] == nil {
		return Refuse("", "no measurements, too many, or of no known library")
	}
	if slices.ContainsFunc(f.Rows, func(r sharedRow) bool { return !(r.PPN >= 1 && r.PPN <= 1<<20 && r.MiB > 0 && r.MiB < 1<<40) }) {
		return Refuse("", "a measurement is impossible")
	}
	if c := f.Single; c != nil && !(c.Mean >= 0 && c.Mean < 1<<40 && c.SD >= 0 && c.SD < 1<<40) {
		return Refuse("", "a single process is impossible")
	}
	return nil
}
