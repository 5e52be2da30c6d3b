package predict

import (
	"cmp"
	"fmt"
	"slices"

	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

// uncompressed is the codec of images as they are in memory.
const uncompressed = "none"

// AddTimes fits how long checkpoints of another checkpointer took, by codec: jobs that ran under
// it, and rows of tables with times. They replace the times of the built-in tables.
func (m *Model) AddTimes(runs []dataset.JobRun) {
	by := make(map[string][]dataset.JobRun)
	for _, r := range runs {
		if r.Engine != dataset.Ckpt {
			codec := cmp.Or(r.Codec, uncompressed)
			by[codec] = append(by[codec], r)
		}
	}
	for codec, list := range by {
		t := service.FitTimes(list, false)
		if t == nil {
			continue
		}
		if m.ImageTimes == nil {
			m.ImageTimes = make(map[string]*service.Times)
		}
		m.ImageTimes[codec] = t
	}
}

// An imageTimer times images by what was measured of them. Codecs that were not measured take the
// storage of those that were, and the management of the built-in tables.
type imageTimer struct {
	*service.Times
	measured bool // with this codec
}

// timer is that of a codec; nil if no images were timed.
func (m *Model) timer(codec string) *imageTimer {
	if t := m.ImageTimes[codec]; t != nil {
		return &imageTimer{t, true}
	}
	if t := m.ImageTimes[uncompressed]; t != nil {
		return &imageTimer{t, false}
	}
	return nil
}

// of times a writing, whose images take so many MiB and whose codec needs so many seconds.
func (t *imageTimer) of(w *fit.Writing, storedMiB, packing float64, part bool) service.Time {
	var mapping []int
	ranks := 0
	for _, n := range w.Nodes {
		mapping, ranks = append(mapping, n.PPN), ranks+n.PPN
	}
	load := service.NewLoad(float64(w.NP), float64(ranks), storedMiB*mebi, mapping)
	s := t.Image(load, w.Doubt, part, w.Probe.Rate())
	if t.measured || packing == 0 {
		return s
	}
	s.Management += packing
	s.Total, s.Pause = shifted(s.Total, packing), shifted(s.Pause, packing)
	return s
}

// shifted adds seconds to a time and keeps the factors of its interval.
func shifted(r fit.Range, seconds float64) fit.Range {
	return r.Scale((r.Value + seconds) / max(r.Value, 1e-9))
}

// measured puts what own images took in place of the times of the tables.
func (t *Time) measured(s service.Time, timer *imageTimer) {
	t.Latency = fit.Parts{Coordination: s.Coordination, Management: s.Management, Storage: s.Storage}
	t.Latency.Sum()
	t.LowS, t.HighS, t.far = s.Total.Low, s.Total.High, s.TooFar
	if s.Pause != s.Total {
		t.Pause, t.PauseS = &s.Pause, &s.Pause.Value
	}
	t.TimeModel = "coordination(np) + management + storage(bytes), of own checkpoints"
	t.Valid = timer.valid()
	if s.Extrapolation > 1.0001 {
		t.Extrapolation = max(t.Extrapolation, s.Extrapolation)
		t.Note = fit.Join(t.Note, "time extrapolated by a factor of "+fit.Factor(s.Extrapolation))
	}
}

// valid tells what was timed.
func (t *imageTimer) valid() string {
	from := slices.Clone(t.Storages)
	if len(from) > 3 {
		from = append(from[:3], "…")
	}
	return fmt.Sprintf("%d checkpoints of %d runs, %g to %g ranks and %.2f to %.2f MiB (%s)", t.Checkpoints, t.Jobs,
		t.NP.Low, t.NP.High, t.Bytes.Low/mebi, t.Bytes.High/mebi, fit.Tables(from))
}
