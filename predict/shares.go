package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

// A RankKind is the ranks of a job that hold equally much.
type RankKind struct {
	// Ranks are Count ranks, as in 0-3,7.
	Ranks string `json:"rank_range"`
	Count int    `json:"rank_count"`
	// Bytes is what each of them holds, from Low to High where several rules may hold.
	Bytes int64 `json:"held_bytes"`
	Low   int64 `json:"low_bytes"`
	High  int64 `json:"high_bytes"`

	runs []dataset.RankRun
}

// RankKinds divides the ranks of a job by the size of their data zones, the largest first. It
// is nil where all ranks of a simulated job hold equally much.
func RankKinds(inst *dataset.Instance) []RankKind {
	if inst == nil {
		return nil
	}
	return rankKinds(inst, func(s *dataset.RankShare) (bytes, low, high int64) { return s.Bytes, s.Low, s.High })
}

// savedKinds is RankKinds for what each rank stores at application level.
func savedKinds(inst *dataset.Instance) []RankKind {
	return rankKinds(inst, func(s *dataset.RankShare) (bytes, low, high int64) {
		for _, a := range inst.Arrays {
			if a.Save && !a.Replicated {
				bytes += a.Of(s.First()).Bytes()
			}
		}
		return bytes, bytes, bytes
	})
}

func rankKinds(inst *dataset.Instance, size func(s *dataset.RankShare) (bytes, low, high int64)) []RankKind {
	var list []RankKind
	for _, s := range inst.Shares() {
		k := RankKind{runs: s.Ranks, Count: s.Count}
		k.Bytes, k.Low, k.High = size(&s)
		i := slices.IndexFunc(list, func(o RankKind) bool { return o.Bytes == k.Bytes && o.Low == k.Low && o.High == k.High })
		if i < 0 {
			list = append(list, k)
			continue
		}
		list[i].Count += k.Count
		list[i].runs = joined(list[i].runs, k.runs)
	}
	for i := range list {
		list[i].Ranks = rankNames(list[i].runs)
	}
	slices.SortStableFunc(list, func(a, b RankKind) int { return cmp.Compare(b.Bytes, a.Bytes) })
	if len(list) == 1 && list[0].Low == list[0].High && !inst.Workload.IsProgram() {
		return nil
	}
	return list
}

// joined merges two lists of ranks.
func joined(a, b []dataset.RankRun) (list []dataset.RankRun) {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y dataset.RankRun) int { return x.First - y.First })
	for _, r := range all {
		list = extended(list, r)
	}
	return list
}

// extended adds ranks after all others.
func extended(list []dataset.RankRun, r dataset.RankRun) []dataset.RankRun {
	if n := len(list); n > 0 && list[n-1].Last == r.First-1 {
		list[n-1].Last = r.Last
		return list
	}
	return append(list, r)
}

// openNote says what of the sizes of a workload is not known.
func openNote(inst *dataset.Instance) string {
	if inst == nil {
		return ""
	}
	note := ""
	if names := inst.Opaque(); len(names) > 0 {
		note = fmt.Sprintf("%s: seen on one number of ranks, so a rank may hold as much on any other, or less as ranks are added; run two more",
			strings.Join(names, ", "))
	}
	if slices.ContainsFunc(inst.Arrays, open) {
		note = fit.Join(note, "several rules agree with the runs seen about which ranks hold how much")
	}
	return note
}

// open reports whether other rules give some rank another part of an array.
func open(a dataset.Array) bool {
	for _, l := range a.Others {
		for rank := range l.Ranks() {
			if l.Elements(rank) != a.Layout.Elements(rank) {
				return true
			}
		}
	}
	return false
}

// rankNames writes ranks as users do: 0-3,7.
func rankNames(runs []dataset.RankRun) string {
	var text strings.Builder
	for _, r := range runs {
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.Itoa(r.First))
		if r.First < r.Last {
			text.WriteString("-" + strconv.Itoa(r.Last))
		}
	}
	return text.String()
}

// withLaws has laws of the number of ranks give the sizes of arrays that were measured. On one
// number of ranks alone an array may be the same on any other, or shrink as ranks are added.
func withLaws(inst *dataset.Instance) *dataset.Instance {
	if !slices.ContainsFunc(inst.Arrays, func(a dataset.Array) bool { return a.Measured != nil }) {
		return inst
	}
	return inst.WithMeasured(func(list []dataset.MeasuredSize) (bytes, low, high int64) {
		r := lawOf(list, inst.NP)
		return int64(math.Round(r.Value)), int64(r.Low), int64(math.Ceil(r.High))
	})
}

// lawOf predicts the bytes of a rank. No law is 0 on some numbers of ranks and not on others:
// such sizes only have the interval reach down to 0.
func lawOf(list []dataset.MeasuredSize, np int) fit.Range {
	if i := slices.IndexFunc(list, func(m dataset.MeasuredSize) bool { return m.NP == np }); i >= 0 {
		return fit.Exactly(float64(list[i].Bytes))
	}
	if whole := list[0].Whole; whole > 0 {
		return besideShares(list, whole, np)
	}
	var points []fit.Point
	same := true
	for _, m := range list {
		same = same && m.Bytes == list[0].Bytes
		if m.Bytes > 0 {
			points = append(points, fit.Point{P: float64(m.NP), MiB: float64(m.Bytes) / mebi})
		}
	}
	if same && len(list) > 1 || len(points) == 0 {
		return fit.Exactly(float64(list[0].Bytes))
	}
	first := points[0].MiB * mebi
	shared := first * points[0].P / float64(np)
	out := fit.Range{Value: math.Sqrt(first * shared), Low: min(first, shared), High: max(first, shared)}
	if set, err := fit.ChooseLaws(points); err == nil && fit.Distinct(points) > 1 {
		e := set.Predict(float64(np))
		out = fit.Range{Value: e.Value * mebi, Low: max(0, e.Low) * mebi, High: e.High * mebi}
	}
	if len(points) < len(list) {
		out.Low = 0
	}
	return out
}

// besideShares adds what a law says of the copies that a rank holds to its share of the whole.
func besideShares(list []dataset.MeasuredSize, whole int64, np int) fit.Range {
	var copies []dataset.MeasuredSize
	for _, m := range list {
		copies = append(copies, dataset.MeasuredSize{NP: m.NP, Bytes: max(0, m.Bytes-whole/int64(m.NP))})
	}
	r, share := lawOf(copies, np), float64(whole)/float64(np)
	return fit.Range{Value: r.Value + share, Low: r.Low + share, High: r.High + share}
}

// RankMiB returns the size of the image of each rank; nil where files of one kind are equal
// whatever their rank.
func (s *Size) RankMiB() []float64 {
	var list []float64
	for _, f := range s.Files {
		for _, run := range f.runs {
			if list == nil {
				list = make([]float64, s.NP)
			}
			for rank := run.First; rank <= run.Last; rank++ {
				list[rank] = float64(f.MiB)
			}
		}
	}
	return list
}

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
	if fit.Far(s.Extrapolation) {
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
