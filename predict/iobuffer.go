package predict

import (
	"errors"
	"fmt"
	"math"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// Default collective buffers, in MiB: ROMIO's cb_buffer_size as the thesis's
// environment sets it, and OMPIO's temporary buffer (León 2022, s. 3.2.2).
const (
	RomioBuffer = 16
	ompioBuffer = 32
)

// bufferMiB is the collective buffer that an MPI library uses by default.
func bufferMiB(mpi string) float64 {
	if mpi == "openmpi" {
		return ompioBuffer
	}
	return RomioBuffer
}

// romioLibrary is the library zone of a build with ROMIO, in MiB: the mean of
// Tables 5.10 (7.71) and 5.7 (7.96).
const romioLibrary = 7.835

// The memory that BT-IO SIMPLE, which writes through data sieving, adds to every
// process, in MiB: Table 5.7 without I/O and simple, mean of both files.
const (
	simpleData   = 2.15
	simpleShared = 2.87
	simpleDoubt  = 1.5
)

// domainCap is the largest share of one collective write per aggregator among
// the runs under Open MPI, in MiB; beyond it nothing is known.
const domainCap = 54.1

// An ioFit is the memory that MPI-IO adds to the images under one MPI library: to
// every process (Plain), and to aggregators (Excess).
//
// The thesis adds a constant, 16 or 32 MiB. The workings of ROMIO explain its own
// Tables 5.8 and 5.10 and Figure 5.9 much better: an aggregator never buffers more
// than its file domain, which is its share of one collective write, and keeps lists of
// the requests of all processes:
//
//	excess = a·min(buffer, write/aggregators) + b·np
//
// So 32 MiB buffers give 35, 24 and 17 MiB with 1, 2 and 3 aggregators, and 8 MiB
// buffers the same with any number, as Figure 5.9 shows without a reason.
type ioFit struct {
	Plain  fit.Linear `json:"plain"`
	Excess fit.Linear `json:"excess"`
	Cases  int        `json:"cases"`
	// Systems is the relative standard deviation between systems.
	Systems float64 `json:"between_systems"`
	// Zones says that a file without aggregator is the sum of its zones, which were
	// measured where the job runs: Plain is of other machines.
	Zones bool `json:"zones,omitempty"`
}

// ofZones is the fit for a machine of which the zones were measured.
func (f *ioFit) ofZones() *ioFit {
	out := *f
	out.Zones = true
	return &out
}

// Errors of the fits, borrowed by those with few points. Files differ more between the
// two systems measured under MPICH than within either: the ones of Table 5.9 (AFS-1) are
// 14 % smaller than Table 5.8 (AFS-2) suggests, and smaller than the sum of the
// thesis's own zones, for unknown reasons. A third system may differ as much. Open MPI
// was measured on one system only.
const (
	ioPrior       = 0.03
	ioPriorPoints = 2
	ioSystems     = 0.065
	excessPrior   = 2.5 // MiB
)

// An IOCase is one job of Tables 5.8-5.11, with the values known before it ran.
type IOCase struct {
	MPI                 string
	NP, Nodes           int
	Aggregators         int
	BufferMiB, WriteMiB float64
}

func (c IOCase) multi() bool { return c.Nodes > 1 }

// domain is an aggregator's share of one collective write, in MiB.
func (c IOCase) domain() float64 { return c.WriteMiB / float64(max(1, c.Aggregators)) }

// plainRow is the basis of the size of a file without aggregator, with its part that
// is known from the zones.
func (c IOCase) plainRow(data, shared float64) (row []float64, known float64) {
	switch {
	case c.MPI == "mpich":
		return []float64{1}, data + shared
	case c.multi():
		// Table 5.11: with several nodes the images are smaller than their data zone
		// (C.9: 175 of 194 MiB). The slope, 0.86, is the factor by which gzip shrinks
		// this data in Tables 5.3-5.6: these runs were compressed.
		return []float64{0, data, 1}, 0
	}
	return []float64{1, 0, 0}, data
}

// excessRow is the basis of the additional memory of an aggregator. Under Open MPI the
// first of several is larger.
func (c IOCase) excessRow(first bool) []float64 {
	held := min(c.BufferMiB, c.domain())
	if c.MPI == "mpich" {
		return []float64{held, float64(c.NP)}
	}
	if !c.multi() {
		return []float64{held, 0, 0, 0}
	}
	scale, extra := c.BufferMiB/ompioBuffer, 0.
	if first {
		extra = scale
	}
	return []float64{0, scale, scale * min(c.domain(), domainCap), extra}
}

// CollectiveWrite is the size of one collective write by all processes, in MiB. BT-IO
// writes its solution, five doubles for each grid point (40 bursts of 162.18 MiB for
// class C, Figure 3.5). Other codes are unknown.
func CollectiveWrite(inst *dataset.Instance) float64 {
	if inst == nil || inst.Name != "bt" {
		return math.Inf(1)
	}
	n := float64(inst.Params["N"])
	return 40 * n * n * n / (1 << 20)
}

// CaseOf describes the job of an image file.
func CaseOf(f dataset.ImageFile) (IOCase, *dataset.Instance, error) {
	w, err := dataset.LoadWorkload(f.App)
	if err != nil {
		return IOCase{}, nil, err
	}
	inst, err := w.Instance(f.Class, f.NP)
	if err != nil {
		return IOCase{}, nil, err
	}
	return IOCase{f.MPI, f.NP, len(f.Mapping), f.Aggregators, bufferMiB(f.MPI), CollectiveWrite(inst)}, inst, nil
}

// PpnOf returns how many ranks share the node of a file's rank.
func PpnOf(f dataset.ImageFile) int {
	r := f.Rank
	for _, n := range f.Mapping {
		if r < n {
			return n
		}
		r -= n
	}
	return f.Mapping[len(f.Mapping)-1]
}

// fitIO fits the files of one MPI library, one row for each job and kind of
// file: the files of a job are copies of one experiment.
func fitIO(mpi string, files []dataset.ImageFile, m *Model) (*ioFit, error) {
	var plainRows, excessRows [][]float64
	var plain, weights, excess, ones []float64
	cases := 0
	for begin := 0; begin < len(files); {
		end := begin
		for end < len(files) && files[end].Case() == files[begin].Case() {
			end++
		}
		job := files[begin:end]
		begin = end
		if job[0].MPI != mpi {
			continue
		}
		cases++
		c, inst, err := CaseOf(job[0])
		if err != nil {
			return nil, err
		}
		data, err := m.dataOf(inst, mpi)
		if err != nil {
			return nil, err
		}
		// Aggregators alone on a node have a different shared zone, so they are left
		// to the prediction.
		var others, first, rest []float64
		for _, f := range job {
			switch {
			case !f.Aggregator && PpnOf(f) == job[0].Mapping[0]:
				others = append(others, f.MiB)
			case f.Aggregator && f.Rank == 0:
				first = append(first, f.MiB)
			case f.Aggregator && PpnOf(f) == job[0].Mapping[0]:
				rest = append(rest, f.MiB)
			}
		}
		base := fit.Mean(others)
		row, known := c.plainRow(data.Value, m.SharedZone(mpi, job[0].App, job[0].Mapping[0]).Value)
		plainRows, plain, weights = append(plainRows, row), append(plain, base-known), append(weights, base)
		for _, kind := range []struct {
			sizes []float64
			first bool
		}{{first, true}, {rest, false}} {
			if len(kind.sizes) > 0 {
				excessRows = append(excessRows, c.excessRow(kind.first))
				excess, ones = append(excess, fit.Mean(kind.sizes)-base), append(ones, 1)
			}
		}
	}
	if cases == 0 {
		return nil, fit.Refuse("", "no files of %s", mpi)
	}
	p, err := fit.Robust(plainRows, plain, weights, nil)
	if err != nil {
		return nil, err
	}
	e, err := fit.Robust(excessRows, excess, ones, nil)
	if err != nil {
		return nil, err
	}
	f := &ioFit{Plain: *p, Excess: *e, Cases: cases}
	if mpi == "mpich" {
		f.Systems = ioSystems
	}
	return f, nil
}

// File predicts the file of a process other than an aggregator, in MiB.
func (f *ioFit) File(c IOCase, data, shared fit.Estimate) fit.Estimate {
	row, known := c.plainRow(data.Value, shared.Value)
	v := f.Plain.At(row) + known
	dof := float64(max(0, f.Plain.N-f.Plain.K) + ioPriorPoints)
	variance := (ioPriorPoints*ioPrior*ioPrior + f.Plain.RSS) / dof
	half := fit.Student(dof) * v * math.Sqrt(variance*(1+f.Plain.Leverage(row, v))+f.Systems*f.Systems)
	return fit.Around(v, math.Sqrt(half*half+data.Half()*data.Half()), data.Extrapolation)
}

// Aggregator predicts the additional memory of an aggregator, in MiB.
func (f *ioFit) Aggregator(c IOCase, first bool) fit.Estimate {
	row := c.excessRow(first)
	v := f.Excess.At(row)
	dof := float64(max(0, f.Excess.N-f.Excess.K) + ioPriorPoints)
	variance := (ioPriorPoints*excessPrior*excessPrior + f.Excess.RSS) / dof
	half := fit.Student(dof) * math.Sqrt(variance*(1+f.Excess.Leverage(row, 1)))
	if math.IsInf(c.WriteMiB, 1) {
		// A code with small writes fills little of the buffer: FLASH I/O 5 of 16 MiB
		// (Table 5.15).
		half = max(half, v)
	}
	return fit.Around(v, half, 1)
}

func (f *ioFit) check() error {
	if f == nil || !(f.Systems >= 0 && f.Systems < 10) {
		return errors.New("missing or impossible")
	}
	for _, c := range []IOCase{{MPI: "mpich"}, {MPI: "openmpi"}} {
		row, _ := c.plainRow(1, 1)
		if len(row) == len(f.Plain.Coef) {
			if err := f.Plain.Valid(len(row), len(row)); err != nil {
				return err
			}
			k := len(c.excessRow(true))
			return f.Excess.Valid(k, k)
		}
	}
	return fmt.Errorf("want 1 or 3 coefficients, not %d", len(f.Plain.Coef))
}
