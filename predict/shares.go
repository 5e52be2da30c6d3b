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
	var points []fit.Point
	same := true
	for _, m := range list {
		if m.NP == np {
			return fit.Exactly(float64(m.Bytes))
		}
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
