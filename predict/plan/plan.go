// Package plan compares ways to take checkpoints of one run: mappings, libraries, codecs,
// buffers, modes and levels of storage, and how many ranks to run on.
package plan

import (
	"cmp"
	"slices"

	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
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
	// LeastTotal is the shortest run with its checkpoints. It differs from LeastTime
	// where the run alone depends on the configuration.
	LeastTotal Aim = "total"
)

// ParseAim reads an aim. Two have other names, which mean the same: the shortest
// checkpoint is the least time, and the fewest bytes are the least storage, since a
// store holds a fixed number of checkpoints.
func ParseAim(s string) (Aim, error) {
	switch a := Aim(s); a {
	case "":
		return LeastTime, nil
	case "checkpoint":
		return LeastTime, nil
	case "bytes":
		return LeastStorage, nil
	case LeastTime, LeastStorage, LeastLost, LeastTotal:
		return a, nil
	}
	return "", fit.Refuse("write time, total, storage or lost-work", "aim %q is unknown", s)
}

// An AppRun is a run without checkpoints in one configuration, for any buffer if
// BufferMiB is 0.
type AppRun struct {
	Nodes              int
	BufferMiB, Seconds float64
}

// A Planning has the parameters of a plan.
type Planning struct {
	App predict.App
	// Overhead is the share of AppSeconds that checkpoints may take. Checkpoints, if it
	// is not 0, is their number instead.
	Overhead    float64
	Checkpoints int
	AppSeconds  float64
	// Runs have the times of single configurations, in place of AppSeconds. Without
	// AppSeconds only these are tried.
	Runs []AppRun
	// MaxNodes is the largest number of nodes, 0 for no limit.
	MaxNodes int
	// Keep is how many checkpoints stay in the store besides the one being
	// written, at least 1. CapacityMiB is the size of the store, 0 for no limit.
	Keep        int
	CapacityMiB float64
	Minimize    Aim
	Law         fit.Law
	Probe       *fit.Probe
	// Storage, if not nil, times each configuration.
	Storage predict.Storage
	// Engine is dmtcp by default. For ckpt Storing says how it stores.
	Engine  dataset.Engine
	Storing predict.Storing

	// The configurations to try: processes per node (powers of two and the whole job
	// by default), MPI libraries, codecs, I/O of the application, and under full I/O
	// aggregators (one per node by default) and buffers.
	PPN         []int
	MPI         []string
	Codecs      []string
	IO          predict.IO
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
	// AppS is the run without checkpoints, TotalS the run with them.
	AppS      float64
	Count     int
	IntervalS float64
	TotalS    float64
	// LostS is the work lost to a failure on average: half an interval.
	LostS float64
	// Fits is false if the store is too small, or if no checkpoint is affordable.
	Fits bool
	// Guess says that the interval of the time begins at 0, or that the option lies
	// far outside the measured points. It is never the best.
	Guess bool
	Best  bool
	// BestMeasured marks the best within the measured range, where the best of all is
	// extrapolated.
	BestMeasured  bool
	Extrapolation float64
	Assumed       bool
}

// schedule fills in the checkpoints of an option.
func (o *Option) schedule(p *Planning) error {
	var err error
	if n := float64(p.Checkpoints); n > 0 {
		o.Count, o.TotalS = p.Checkpoints, o.AppS+n*o.CheckpointS
		o.IntervalS = o.TotalS / (n + 1)
	} else if o.Count, o.IntervalS, o.TotalS, err = budget(p.Overhead, o.AppS, o.CheckpointS); err != nil {
		return err
	}
	o.LostS = o.IntervalS / 2
	if o.Count == 0 {
		o.LostS = o.AppS / 2
	}
	return nil
}

// markBest marks the first option, unless it is a guess, and the first that lies within
// the measurements.
func markBest(options []Option) {
	if len(options) == 0 || !options[0].Fits || options[0].Guess {
		return
	}
	options[0].Best = true
	for i, o := range options {
		if o.Fits && !o.Guess && o.Extrapolation <= Within {
			options[i].BestMeasured = i > 0
			return
		}
	}
}

// Compare predicts every combination and marks the best by the aim. Options are
// sorted: those that fit first, guesses behind others, then best first.
func Compare(m *predict.Model, p Planning) ([]Option, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	var out []Option
	for _, mpi := range m.MeasuredMPI(p.App, p.MPI...) {
		// The data zone does not depend on the rest, so its structure is evaluated
		// once.
		data, err := m.DataZone(p.App, mpi, p.Law, 1)
		if err != nil {
			return nil, err
		}
		for _, ppn := range p.PPN {
			mapping := predict.Blocks(p.App.NP, ppn)
			if p.Law == fit.Thesis { // it has another law for several nodes
				if data, err = m.DataZone(p.App, mpi, p.Law, len(mapping)); err != nil {
					return nil, err
				}
			}
			for _, aggregators := range p.Aggregators {
				for _, buffer := range p.BuffersMiB {
					r := predict.Request{App: p.App, Mapping: mapping, MPI: mpi, IO: p.IO, Aggregators: aggregators, BufferMiB: buffer, Law: p.Law}
					options, err := configurations(m, &p, r, data)
					if err != nil {
						return nil, err
					}
					out = append(out, options...)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Option) int { return p.compare(a, b) })
	markBest(out)
	if len(out) == 0 {
		return nil, fit.Refuse("give the time of all runs, or runs of these mappings and buffers", "no run of %s has a known time", p.App)
	}
	return out, nil
}

// farOut is the factor outside the measured points from which on an option is shown
// and not chosen.
const farOut = 5

// Within is the factor up to which an option counts as measured, not extrapolated.
const Within = 1.05

// configurations predicts one job under every codec.
func configurations(m *predict.Model, p *Planning, r predict.Request, data fit.Zone) ([]Option, error) {
	r, err := r.Normal()
	if err != nil {
		return nil, err
	}
	app := p.appSeconds(r)
	if app == 0 {
		return nil, nil
	}
	if p.Engine == dataset.Ckpt {
		return storedOptions(m, p, r, app)
	}
	size, err := m.Assemble(r, data)
	if err != nil {
		return nil, err
	}
	var out []Option
	for _, codec := range p.Codecs {
		t, err := m.TimeOf(size, r, codec, p.Probe)
		if err == nil && p.Storage != nil {
			err = p.Storage.Images(t)
		}
		if err != nil {
			return nil, err
		}
		o := Option{PPN: slices.Max(r.Mapping), Nodes: len(r.Mapping), Mapping: r.Mapping, MPI: r.MPI, Codec: t.Codec,
			Aggregators: r.Aggregators, AppS: app, GstoredMiB: t.StoredMiB,
			CheckpointS: t.Latency.Total, LowS: t.LowS, HighS: t.HighS, Extrapolation: t.Extrapolation, Assumed: t.Assumed}
		if r.IO == predict.FullIO {
			o.BufferMiB = r.BufferMiB
		}
		for _, f := range size.Files {
			o.FileMiB = max(o.FileMiB, f.MiB)
		}
		share := t.StoredMiB / size.TotalMiB
		o.LowMiB, o.HighMiB = size.LowMiB*share, size.HighMiB*share
		// A new checkpoint is complete before an old one goes.
		o.StorageMiB = float64(p.Keep+1) * t.StoredMiB
		if err := o.schedule(p); err != nil {
			return nil, err
		}
		o.Guess = o.LowS <= 0 || o.Extrapolation >= farOut
		o.Fits = o.Count > 0 && (p.CapacityMiB == 0 || o.StorageMiB <= p.CapacityMiB)
		out = append(out, o)
	}
	return out, nil
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
	case LeastTotal:
		return cmp.Or(cmp.Compare(a.TotalS, b.TotalS), storage, lost)
	}
	return cmp.Or(time, storage, lost)
}

// budget is the rule of package interval: how many checkpoints of some seconds an overhead
// pays for, at which interval, and how long the run then takes.
func budget(overhead, app, checkpoint float64) (count int, intervalS, totalS float64, err error) {
	b := interval.Budget{Overhead: overhead, App: durationOf(app), Checkpoint: durationOf(checkpoint)}
	s, err := b.Schedule()
	return s.Count, s.Interval.Seconds(), s.Total.Seconds(), err
}
