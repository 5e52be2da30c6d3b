// Package plan compares ways to take checkpoints of one run: mappings, libraries, codecs,
// buffers, modes and levels of storage, and how many ranks to run on.
package plan

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

// An Aim is the quantity that a plan minimizes.
type Aim string

// The aims.
const (
	// LeastTime is the least overhead for the number of checkpoints: the shortest
	// checkpoint.
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
	case "", "checkpoint":
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

// A Planning is a run, and what is tried of it.
type Planning struct {
	App predict.App
	Law fit.Law
	Way
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
	CapacityMiB predict.MiB
	Minimize    Aim

	// Mapping is the only one, or PPN are the processes per node to try: powers of two
	// and the whole job by default. Then MPI libraries, codecs, I/O of the application,
	// and under full I/O aggregators (one per node by default) and buffers.
	Mapping     []int
	PPN         []int
	MPI         []string
	Codecs      []string
	IO          predict.IO
	Aggregators []int
	BuffersMiB  []float64

	// MTBFS is the mean time between failures of the job; 0: it never fails. With it
	// Modes and their Logs are tried (all logs by default), and Levels if it is not nil.
	MTBFS     float64
	NodeMTBFS float64 // of one node, in place of MTBFS; 0: MTBFS holds on any number of nodes
	Modes     []service.Mode
	Logs      []service.Log
	GroupSize int
	Together  []float64 // shares of the groups that store at the same time, to try; nil: one after the other
	IntervalS float64   // 0: the best of each option
	Levels    *Levels

	zones map[zoneOf]fit.Zone // data zones that are known
}

// An Option is one way to take checkpoints, and what it costs.
type Option struct {
	PPN         int         `json:"ppn"`
	Nodes       int         `json:"nodes"`
	Mapping     []int       `json:"mapping"`
	MPI         string      `json:"mpi"`
	Codec       string      `json:"codec"`
	Aggregators int         `json:"aggregators"`
	BufferMiB   predict.MiB `json:"buffer_bytes,omitempty"`
	// FileMiB is the largest image before compression, GstoredMiB the bytes written
	// for one checkpoint, StorageMiB the space that the store needs.
	FileMiB    predict.MiB `json:"file_bytes"`
	GstoredMiB predict.MiB `json:"stored_bytes"`
	LowMiB     predict.MiB `json:"low_bytes"`
	HighMiB    predict.MiB `json:"high_bytes"`
	StorageMiB predict.MiB `json:"peak_bytes"`
	// CheckpointS is what the job loses to a checkpoint, between LowS and HighS.
	CheckpointS float64 `json:"checkpoint_s"`
	LowS        float64 `json:"low_s"`
	HighS       float64 `json:"high_s"`
	// AppS is the run without checkpoints, TotalS the run with them.
	AppS      float64 `json:"app_s"`
	Count     int     `json:"count"`
	IntervalS float64 `json:"interval_s"`
	TotalS    float64 `json:"total_s"`
	// LostS is the work lost to a failure on average.
	LostS float64 `json:"lost_s"`
	// Fits is false if the store is too small, or if no checkpoint is affordable.
	Fits bool `json:"fits"`
	// Guess says that the interval of the time spans three powers of ten, or that the option
	// lies far outside the measured points. It is never the best.
	Guess bool `json:"guess"`
	Best  bool `json:"best"`
	// BestMeasured marks the best within the measured range, where the best of all is
	// extrapolated.
	BestMeasured  bool    `json:"best_measured"`
	Extrapolation float64 `json:"extrapolation"`
	Assumed       bool    `json:"assumed"`

	*Lag     // of checkpoints behind the job
	*Failing // on a machine that fails
	*Groups  // of a comparison of modes
	*Pattern // of a comparison of levels
	// Objects is the mean checkpoint of a run, and its Bill.Month what the store holds at most.
	predict.Objects

	lag *fit.Range
}

// A Failing run is one on a machine that fails: the expected time.
type Failing struct {
	Expected Finite   `json:"expected_total_s"`
	Low      Finite   `json:"expected_low_s"`
	High     Finite   `json:"expected_high_s"`
	Assumes  []string `json:"assumption_list"`
	// Simulated are the lives that Expected is the mean of, nil where a closed form tells it.
	Simulated *interval.Simulated `json:"simulation,omitempty"`
}

// Finite is a number that is infinite for a run that is not expected to end: null in JSON.
type Finite float64

// Ends reports whether the run is expected to end.
func (f Finite) Ends() bool { return !math.IsInf(float64(f), 0) }

// MarshalJSON writes the number or null.
func (f Finite) MarshalJSON() ([]byte, error) {
	if !f.Ends() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON reads the number or null.
func (f *Finite) UnmarshalJSON(b []byte) error {
	v := math.Inf(1)
	err := json.Unmarshal(b, &v)
	*f = Finite(v)
	return err
}

// A Lag is the durability lag of checkpoints that are written behind the job, while none waits for
// another, and how many may be in flight.
type Lag struct {
	LagS     float64 `json:"lag_s,omitempty"`
	LagLowS  float64 `json:"lag_low_s,omitempty"`
	LagHighS float64 `json:"lag_high_s,omitempty"`
	InFlight int     `json:"checkpoints_in_flight,omitempty"`
}

// Compare predicts every combination and marks the best. Options are sorted: those that fit
// first, guesses behind others, then by the aim; on a machine that fails by the expected
// time.
func Compare(m *predict.Model, p Planning) ([]Option, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	p.zones = make(map[zoneOf]fit.Zone)
	var out []Option
	for _, mpi := range m.MeasuredMPI(p.App, p.MPI...) {
		for _, mapping := range p.mappings() {
			for _, aggregators := range p.Aggregators {
				for _, buffer := range p.BuffersMiB {
					r := predict.Request{App: p.App, Mapping: mapping, MPI: mpi, IO: p.IO, Aggregators: aggregators, BufferMiB: buffer, Law: p.Law}
					options, err := p.options(m, r)
					if err != nil {
						return nil, err
					}
					out = append(out, options...)
				}
			}
		}
	}
	if len(out) == 0 && p.MTBFS != 0 {
		return nil, fit.Refuse("semi works with the pessimistic logs, uncoordinated with all", "no mode asked for works with the logs asked for")
	}
	if len(out) == 0 {
		return nil, fit.Refuse("give the time of all runs, or runs of these mappings and buffers", "no run of %s has a known time", p.App)
	}
	if p.Levels == nil { // with the nodes, then without
		slices.SortStableFunc(out, p.compare)
	}
	p.markBest(out)
	return out, nil
}

// options predicts one job under every codec, and in every mode or level.
func (p *Planning) options(m *predict.Model, asked predict.Request) (out []Option, err error) {
	r, err := asked.Normal()
	if err != nil {
		return nil, err
	}
	here := *p
	p = &here
	p.OnNodes(len(r.Mapping))
	app := p.appSeconds(r)
	if app == 0 {
		return nil, nil
	}
	var size *predict.Size
	if p.Engine != dataset.Ckpt || p.MTBFS != 0 {
		if size, err = p.size(m, r); err != nil {
			return nil, err
		}
	}
	for _, codec := range p.codecs(m.Service.App(p.App.Name, p.App.Class), size) {
		way := p.Way
		way.Storing.Codec = codec
		cost, err := way.cost(m, asked, size)
		if err != nil {
			return nil, err
		}
		o := Option{PPN: slices.Max(r.Mapping), Nodes: len(r.Mapping), Mapping: r.Mapping, MPI: r.MPI, AppS: app}
		if r.IO == predict.FullIO {
			o.Aggregators, o.BufferMiB = r.Aggregators, predict.MiB(r.BufferMiB)
		}
		if err := o.fill(p, cost); err != nil {
			return nil, err
		}
		o.Guess = o.HighS > wide*o.LowS || o.Extrapolation >= farOut
		o.Fits = (p.MTBFS != 0 || o.Count > 0) && p.holds(o.StorageMiB)
		more := []Option{o}
		switch {
		case p.Levels != nil:
			more, err = p.levels(m, r, size, o, cost)
		case p.MTBFS != 0:
			more, err = p.modes(m, r, size, o, cost)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// OnNodes sets the time between failures of a job on so many nodes.
func (p *Planning) OnNodes(count int) {
	if p.NodeMTBFS != 0 {
		p.MTBFS = p.NodeMTBFS / float64(count)
	}
}

// holds reports whether the store is large enough.
func (p *Planning) holds(mib predict.MiB) bool { return p.CapacityMiB == 0 || mib <= p.CapacityMiB }

// schedule fills in the checkpoints of an option.
func (o *Option) schedule(p *Planning) error {
	var err error
	if n := float64(p.Checkpoints); n > 0 {
		o.Count, o.TotalS = p.Checkpoints, o.AppS+n*o.CheckpointS
		if o.lag != nil { // the last of them is durable before the run ends
			o.TotalS = max(o.TotalS, (n+1)*o.lag.Value)
		}
		o.IntervalS = o.TotalS / (n + 1)
	} else if p.MTBFS != 0 {
		return nil // failures decide
	} else if o.Count, o.IntervalS, o.TotalS, err = budget(p.Overhead, o.AppS, o.CheckpointS, o.lag); err != nil {
		return err
	}
	o.LostS = o.IntervalS / 2
	if o.Count == 0 {
		o.LostS = o.AppS / 2
	} else if o.lag != nil {
		o.LostS += o.lag.Value
	}
	return nil
}

// farOut is the factor outside the measured points from which on an option is shown
// and not chosen.
const farOut = 5

// wide is the ratio of the ends of the interval of a time that is a guess.
const wide = 1000

// Within is the factor up to which an option counts as measured, not extrapolated.
const Within = 1.05

// markBest marks the first option, unless it is a guess, and the first that lies within
// the measurements.
func (p *Planning) markBest(options []Option) {
	if p.MTBFS != 0 {
		least := slices.MinFunc(options, p.compare)
		best := slices.IndexFunc(options, func(o Option) bool { return o.Expected == least.Expected && o.Fits == least.Fits })
		options[best].Best = options[best].Fits && options[best].Expected.Ends()
		return
	}
	if !options[0].Fits || options[0].Guess {
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

// compare orders options by what fits, what is no guess, and by the aim, ties by the
// other aims. On a machine that fails only the expected time counts.
func (p *Planning) compare(a, b Option) int {
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	if p.MTBFS != 0 {
		return cmp.Or(first(a.Fits, b.Fits), cmp.Compare(a.Expected, b.Expected))
	}
	if c := cmp.Or(first(a.Fits, b.Fits), first(!a.Guess, !b.Guess)); c != 0 {
		return c
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
func budget(overhead, app, checkpoint float64, lag *fit.Range) (count int, intervalS, totalS float64, err error) {
	b := interval.Budget{Overhead: overhead, App: interval.Lasting(app), Checkpoint: interval.Lasting(checkpoint)}
	if lag != nil {
		b.Lag = interval.Lasting(lag.Value)
	}
	s, err := b.Schedule()
	return s.Count, s.Interval.Seconds(), s.Total.Seconds(), err
}
