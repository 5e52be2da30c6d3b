package tune

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// A Taken is a checkpoint that a job has taken.
type Taken struct {
	Full           bool // it refers to no other
	Bytes, Library int64
	Seconds        float64 // its latency
	Pause          float64
	// Memory is what the ranks of a program have stored, of which no workload tells.
	Memory *PlannedMemory
}

// An Adapter follows the checkpoints of a job. Where they disagree with the forecast, it
// scales the description by what was measured, and looks for a better way.
type Adapter struct {
	sys       *pfs.System
	c         Case
	objective Objective
	space     Space
	best      map[string]float64 // measured objectives of ways, of the same kind of checkpoint
	learnt    map[bool]bool      // the memory of a program, in full checkpoints and others
}

// NewAdapter makes one for a case, of which the settings and the codec are the present way.
func NewAdapter(sys *pfs.System, c Case, objective Objective, space Space) *Adapter {
	return &Adapter{sys: sys, c: c, objective: objective, space: space, best: make(map[string]float64), learnt: make(map[bool]bool)}
}

// A Change is another way to write, for a reason.
type Change struct {
	Settings plan.Settings
	Codec    string
	Forecast float64 // of the checkpoint that was measured, in seconds
	Why      string
}

// adaptGain is how much better another way must be before a job changes to it: a change
// costs what codecs have learnt, and a measurement is not exact.
const adaptGain = 1.1

// Next compares a checkpoint with its forecast. It returns nil as long as the way stays.
func (a *Adapter) Next(ctx context.Context, m Taken) (*Change, error) {
	c := a.c
	c.Following, c.Library, c.Memory = !m.Full && c.Incremental, m.Library, m.Memory
	a.remember(m)
	low, high, expected, err := a.fit(ctx, c, m)
	first := m.Memory != nil && !a.learnt[m.Full]
	if err != nil || low <= m.Seconds && m.Seconds <= high && !first {
		return nil, err
	}
	a.learnt[m.Full] = true
	c.Library = 0
	c.Following = c.Incremental // of these there will be more
	choice, err := SearchIn(ctx, a.sys, c, a.objective, a.space)
	if err != nil {
		return nil, err
	}
	best := &choice.Best
	if choice.Gain < adaptGain || a.wasWorse(best, m) {
		return nil, nil
	}
	a.c.Settings, a.c.Codec = best.Settings, best.Codec
	return &Change{Settings: best.Settings, Codec: best.Codec, Forecast: expected,
		Why: fmt.Sprintf("a checkpoint took %s, forecast were %s to %s; %s", seconds(m.Seconds), seconds(low), seconds(high), best.Why)}, nil
}

// fit scales the description until the forecast of a checkpoint agrees with what was
// measured: what limits it first, then what limits it next. It returns the first forecast.
func (a *Adapter) fit(ctx context.Context, c Case, m Taken) (low, high, expected float64, err error) {
	const most = 3
	for i := range most {
		f, err := Predict(ctx, a.sys, c)
		if err != nil {
			return 0, 0, 0, err
		}
		e := a.expected(&f, m.Bytes)
		factor := f.Latency.High / math.Max(f.Latency.Value, 1e-9)
		if i == 0 {
			low, high, expected = e/factor, e*factor, e
		}
		if m.Seconds <= e*factor && m.Seconds >= e/factor {
			break
		}
		a.sys = Scaled(a.sys, f.Bottleneck, a.slower(&f, e, m.Seconds))
	}
	return low, high, expected, nil
}

// expected is the latency that a forecast means for the bytes that were stored: the
// contents of memory are known only now.
func (a *Adapter) expected(f *Forecast, bytes int64) float64 {
	if f.Bytes <= 0 || bytes <= 0 || f.Bottleneck == "processor" || f.Bottleneck == "metadata" {
		return f.Latency.Value
	}
	written := max(0, f.Storage-f.Packing)
	return f.Latency.Value + written*(float64(bytes)/float64(f.Bytes)-1)
}

// slower is the factor for the part of a forecast that is scaled, within bounds.
func (a *Adapter) slower(f *Forecast, expected, measured float64) float64 {
	const most = 50
	own := f.Coordination + f.Management
	scaled := max(expected-own, expected/100)
	return min(most, max(1./most, max(measured-own, measured/100)/scaled))
}

func (a *Adapter) key(s plan.Settings, codec string) string {
	o := Option{Settings: s, Codec: codec}
	return o.key()
}

// remember keeps the best that was measured of the present way, byte by byte. A full
// checkpoint is not compared with one that follows.
func (a *Adapter) remember(m Taken) {
	if m.Full && a.c.Incremental {
		return
	}
	k, v := a.key(a.c.Settings, a.c.Codec), a.value(m)
	if was, ok := a.best[k]; !ok || v < was {
		a.best[k] = v
	}
}

// value is what is compared of a checkpoint.
func (a *Adapter) value(m Taken) float64 {
	switch a.objective {
	case Latency:
		return m.Seconds
	case Bytes:
		return float64(m.Bytes)
	}
	return m.Pause
}

// wasWorse reports whether a way was tried before and was no better than the present one
// is now. A measurement counts for more than a forecast.
func (a *Adapter) wasWorse(o *Option, m Taken) bool {
	was, ok := a.best[a.key(o.Settings, o.Codec)]
	return ok && was*adaptGain > a.value(m)
}

// Scaled returns a system like another one, on which a checkpoint takes so many times as
// long as it was forecast: what the checkpoint waits for most becomes slower by that
// factor, the processors, the gathering, the metadata, or the storage as a whole.
func Scaled(sys *pfs.System, bottleneck string, factor float64) *pfs.System {
	s := *sys
	slower := func(rates ...*pfs.Rate) {
		for _, r := range rates {
			*r = pfs.Rate(float64(*r) / factor)
		}
	}
	longer := func(times ...*pfs.Duration) {
		for _, t := range times {
			*t = pfs.Duration(float64(*t) * factor)
		}
	}
	switch bottleneck {
	case "processor":
		s.Codecs = maps.Clone(sys.Codecs)
		if s.Codecs == nil {
			s.Codecs = make(map[string]pfs.CodecSpeed)
		}
		for _, name := range codecs {
			known := speedOf(sys, name)
			s.Codecs[name] = pfs.CodecSpeed{Pack: pfs.Rate(known.rate / factor), Unpack: pfs.Rate(known.unpack), Ratio: known.ratio}
		}
	case "gather":
		slower(&s.Host.Gather.Rate, &s.Host.Gather.Parallel, &s.Host.Network)
		longer(&s.Host.Gather.Latency, &s.Host.Gather.PerRank)
	case "metadata":
		s.Metadata.Creates /= factor
		s.Metadata.Opens /= factor
		longer(&s.Metadata.Latency, &s.Metadata.Rename, &s.Metadata.SyncDir)
	default:
		slower(&s.Host.Stream, &s.Routers.Rate, &s.Servers.Rate, &s.Servers.CacheRate, &s.Targets.Rate, &s.Targets.ReadRate, &s.Locks.Drop)
		longer(&s.Targets.Seek, &s.Targets.PerRequest, &s.Sync, &s.Locks.Grant, &s.Locks.Callback)
	}
	return &s
}

// A TunedWay is a Way as events tell it.
type TunedWay struct {
	plan.Printed
	Codec string `json:"codec"`
	Async bool   `json:"async"`
}

// A TunedEvent says that checkpoints are written in another way from now on.
type TunedEvent struct {
	Type      string   `json:"type"`             // "tuned"
	After     int      `json:"after_checkpoint"` // 0: when the job starts
	Objective string   `json:"objective"`
	From      TunedWay `json:"from_way"`
	To        TunedWay `json:"to_way"`
	// Measured and Forecast are the latencies of the checkpoint that led to the change, 0 when
	// the job starts.
	Measured float64 `json:"measured_s"`
	Forecast float64 `json:"predicted_s"`
	Why      string  `json:"why"`
}

func NewTunedWay(w job.Way, async bool) TunedWay {
	s := w.WritePath
	if s.Layout == "" {
		s.Layout = plan.PerRank
	}
	if s.Layout == plan.PerRank {
		s.Strategy = plan.Individual
	}
	codec := w.Codec
	if codec == "" {
		codec = "none"
	}
	return TunedWay{Printed: s.Printed(), Codec: codec, Async: async}
}

func (t *TunedWay) way(usual job.Way) job.Way {
	s := usual.WritePath
	t.Printed.Enter(&s)
	return job.Way{WritePath: s, Codec: t.Codec}
}

// ReadWay returns the way in which a job was last told to write: the newest possible one of its
// journal, or the description's.
func ReadWay(j *image.Job, spec *job.Resolved) job.Way {
	way := spec.Way()
	_ = job.ReadJournal(j, 0, func(line []byte) {
		var ev TunedEvent
		if json.Unmarshal(line, &ev) != nil || ev.Type != "tuned" {
			return
		}
		w := ev.To.way(spec.Way())
		if spec.Possible(w) == nil {
			way = w
		}
	})
	return way
}
