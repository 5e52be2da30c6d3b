package predict

import (
	"cmp"
	"math"
	"slices"
)

// An Aim is the quantity that a plan minimizes.
type Aim string

// The aims.
const (
	// LeastTime is the least overhead for the number of checkpoints: the
	// shortest checkpoint.
	LeastTime Aim = "time"
	// LeastStorage is the least space for the checkpoints kept.
	LeastStorage Aim = "storage"
	// LeastLost is the least work lost to a failure: the shortest interval that
	// the overhead pays for.
	LeastLost Aim = "lost-work"
)

// A Planning has the parameters of a plan.
type Planning struct {
	App App
	// Overhead is the share of AppSeconds that checkpoints may take.
	Overhead   float64
	AppSeconds float64
	// Keep is how many checkpoints stay in the store besides the one being
	// written, at least 1. CapacityMiB is the size of the store, 0 for no limit.
	Keep        int
	CapacityMiB float64
	Minimize    Aim
	Law         Law
	Probe       *Probe

	// The configurations to try: processes per node (powers of two and the whole job
	// by default), MPI libraries, codecs, I/O of the application, and under full I/O
	// aggregators (one per node by default) and buffers.
	PPN         []int
	MPI         []string
	Codecs      []string
	IO          IO
	Aggregators []int
	BuffersMiB  []float64
}

// An Option is one configuration of a plan.
type Option struct {
	PPN         int
	Nodes       int
	Mapping     []int
	MPI         string
	Codec       string
	Aggregators int
	BufferMiB   float64
	// FileMiB is the largest image before compression, GstoredMiB the bytes written
	// for one checkpoint, StorageMiB the space that the store needs.
	FileMiB    float64
	GstoredMiB float64
	LowMiB     float64
	HighMiB    float64
	StorageMiB float64
	// CheckpointS is the latency of a checkpoint, between LowS and HighS.
	CheckpointS float64
	LowS        float64
	HighS       float64
	Count       int
	IntervalS   float64
	TotalS      float64
	// LostS is the work lost to a failure on average: half an interval.
	LostS float64
	// Fits is false if the store is too small, or if no checkpoint is affordable.
	Fits bool
	// Guess says that the interval of the time begins at 0, or that the option lies
	// far outside the measured points. It is never the best.
	Guess         bool
	Best          bool
	Extrapolation float64
	Assumed       bool
}

// check fills in defaults and refuses invalid values.
func (p *Planning) check() error {
	if !(p.Overhead > 0 && p.Overhead <= 10) {
		return refuse("give a share like 10%", "invalid overhead %g", p.Overhead)
	}
	if !(p.AppSeconds > 0 && p.AppSeconds < 1e10) {
		return refuse("give the time of the run without checkpoints, like 24h", "a run of %g seconds cannot be planned", p.AppSeconds)
	}
	if p.Keep < 0 || p.CapacityMiB < 0 || math.IsNaN(p.CapacityMiB) {
		return refuse("keep at least one checkpoint in a store of positive size", "%d checkpoints in %g MiB cannot be kept", p.Keep, p.CapacityMiB)
	}
	p.Keep = max(1, p.Keep)
	switch p.Minimize {
	case "":
		p.Minimize = LeastTime
	case LeastTime, LeastStorage, LeastLost:
	default:
		return refuse("write time, storage or lost-work", "aim %q is unknown", p.Minimize)
	}
	if len(p.PPN) == 0 {
		for n := 1; n < p.App.NP && n <= 128; n *= 2 {
			p.PPN = append(p.PPN, n)
		}
		if p.App.NP <= 128 {
			p.PPN = append(p.PPN, p.App.NP)
		}
	}
	if len(p.MPI) == 0 {
		p.MPI = []string{"mpich", "openmpi"}
	}
	if len(p.Codecs) == 0 {
		p.Codecs = []string{"none", "gzip"}
	}
	if p.IO != FullIO {
		p.Aggregators, p.BuffersMiB = []int{0}, []float64{0}
	}
	if len(p.Aggregators) == 0 {
		p.Aggregators = []int{0}
	}
	if len(p.BuffersMiB) == 0 {
		p.BuffersMiB = []float64{0}
	}
	return nil
}

// Plan predicts every combination and marks the best by the aim. Options are
// sorted: those that fit first, guesses behind others, then best first.
func (m *Model) Plan(p Planning, count CountFunc) ([]Option, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	var out []Option
	for _, mpi := range p.MPI {
		// The data zone does not depend on the rest, so its structure is evaluated
		// once.
		data, err := m.data(p.App, mpi, p.Law, 1)
		if err != nil {
			return nil, err
		}
		for _, ppn := range p.PPN {
			if ppn < 1 || ppn > p.App.NP {
				return nil, refuse("between 1 and the number of processes", "%d processes per node are impossible for %s", ppn, p.App)
			}
			mapping := blocks(p.App.NP, ppn)
			if p.Law == Thesis { // it has another law for several nodes
				if data, err = m.data(p.App, mpi, p.Law, len(mapping)); err != nil {
					return nil, err
				}
			}
			for _, aggregators := range p.Aggregators {
				for _, buffer := range p.BuffersMiB {
					r := Request{App: p.App, Mapping: mapping, MPI: mpi, IO: p.IO, Aggregators: aggregators, BufferMiB: buffer, Law: p.Law}
					options, err := m.options(&p, r, data, count)
					if err != nil {
						return nil, err
					}
					out = append(out, options...)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Option) int { return p.compare(a, b) })
	if len(out) > 0 && out[0].Fits && !out[0].Guess {
		out[0].Best = true
	}
	return out, nil
}

// farOut is the factor outside the measured points from which on an option is shown
// and not chosen.
const farOut = 5

// options predicts one job under every codec.
func (m *Model) options(p *Planning, r Request, data zoneEstimate, count CountFunc) ([]Option, error) {
	r, err := r.normal()
	if err != nil {
		return nil, err
	}
	size, err := m.assemble(r, data)
	if err != nil {
		return nil, err
	}
	var out []Option
	for _, codec := range p.Codecs {
		t, err := m.timeOf(size, r, codec, p.Probe)
		if err != nil {
			return nil, err
		}
		o := Option{PPN: slices.Max(r.Mapping), Nodes: len(r.Mapping), Mapping: r.Mapping, MPI: r.MPI, Codec: t.Codec,
			Aggregators: r.Aggregators, GstoredMiB: t.StoredMiB,
			CheckpointS: t.Latency.Total, LowS: t.LowS, HighS: t.HighS, Extrapolation: t.Extrapolation, Assumed: t.Assumed}
		if r.IO == FullIO {
			o.BufferMiB = r.BufferMiB
		}
		for _, f := range size.Files {
			o.FileMiB = max(o.FileMiB, f.MiB)
		}
		share := t.StoredMiB / size.TotalMiB
		o.LowMiB, o.HighMiB = size.LowMiB*share, size.HighMiB*share
		// A new checkpoint is complete before an old one goes.
		o.StorageMiB = float64(p.Keep+1) * t.StoredMiB
		if o.Count, o.IntervalS, o.TotalS, err = count(p.Overhead, p.AppSeconds, o.CheckpointS); err != nil {
			return nil, err
		}
		o.LostS = o.IntervalS / 2
		if o.Count == 0 {
			o.LostS = p.AppSeconds / 2
		}
		o.Guess = o.LowS <= 0 || o.Extrapolation >= farOut
		o.Fits = o.Count > 0 && (p.CapacityMiB == 0 || o.StorageMiB <= p.CapacityMiB)
		out = append(out, o)
	}
	return out, nil
}

// blocks fills nodes with ppn processes each, the last with the rest.
func blocks(np, ppn int) []int {
	m := make([]int, 0, np/ppn+1)
	for np > 0 {
		m = append(m, min(ppn, np))
		np -= ppn
	}
	return m
}

// compare orders options by what fits, what is no guess, and by the aim, ties by the
// other aims.
func (p *Planning) compare(a, b Option) int {
	if a.Fits != b.Fits {
		if a.Fits {
			return -1
		}
		return 1
	}
	if a.Guess != b.Guess {
		if b.Guess {
			return -1
		}
		return 1
	}
	time := cmp.Compare(a.CheckpointS, b.CheckpointS)
	storage := cmp.Compare(a.StorageMiB, b.StorageMiB)
	lost := cmp.Compare(a.LostS, b.LostS)
	switch p.Minimize {
	case LeastStorage:
		return cmp.Or(storage, time, lost)
	case LeastLost:
		return cmp.Or(lost, time, storage)
	}
	return cmp.Or(time, storage, lost)
}
