package service

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"

	"ckpt/dataset"
)

// A timed checkpoint, with what the laws of its parts depend on.
type timed struct {
	Load
	job                               int
	coordination, management, storage float64
	data                              float64 // bytes that were copied, of an asynchronous one
	pause                             float64 // beyond coordination, of an asynchronous one
}

// FitTimes fits the times of timed jobs; nil without any. Nodes of jobs of ckpt share the
// store, so that shared is true. Images may go to disks of the nodes: what they show decides.
func FitTimes(runs []dataset.JobRun, shared bool) *Times {
	t := &Times{}
	var list []timed
	for i := range runs {
		run := &runs[i]
		before := len(list)
		for k := range run.Checkpoints {
			if c := &run.Checkpoints[k]; c.LatencyS() > 0 {
				list = append(list, t.row(run, c))
			}
		}
		if len(list) > before {
			t.Jobs++
			if dir := filepath.Clean(run.Storage); run.Storage != "" && !slices.Contains(t.Storages, dir) {
				t.Storages = append(t.Storages, dir)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	t.Checkpoints = len(list)
	t.fit(list, shared)
	return t
}

// row notes a checkpoint.
func (t *Times) row(run *dataset.JobRun, c *dataset.JobCheckpoint) timed {
	bytes := float64(c.StoredBytes)
	if run.Engine == dataset.Ckpt {
		bytes += float64(c.Stored.Library)
	}
	r := timed{Load: NewLoad(float64(c.Ranks), float64(c.Files), bytes, run.Mapping), job: t.Jobs,
		coordination: c.CoordinationS, management: c.ManagementS, storage: c.StorageS}
	switch {
	case run.Async:
		r.data, r.pause = float64(c.Memory.Data), c.PauseS-c.CoordinationS
	case run.Engine != dataset.Ckpt && c.PauseS < 0.99*c.LatencyS(): // ckpt stores the images behind the program
		r.data, r.pause = bytes, c.PauseS-c.CoordinationS
	}
	if c.Ranks < run.NP {
		t.Parts++
	}
	t.NP.add(r.Ranks)
	t.Bytes.add(bytes)
	return r
}

func (t *Times) fit(list []timed, shared bool) {
	t.Coordination = fitTime(list, rankShapes, func(c *timed) float64 { return c.coordination })
	t.Management = fitTime(list, rankShapes, func(c *timed) float64 { return c.management })
	storage := []shape{{ByBytes, 3}, {ByFiles, 1}}
	if !shared {
		storage = append(storage, shape{ByNode, 1})
	}
	t.Storage = fitTime(list, storage, func(c *timed) float64 { return c.storage })
	var copied []timed
	for i := range list {
		if c := &list[i]; c.data > 0 {
			copied = append(copied, timed{Load: Load{Bytes: c.data}, job: c.job, pause: c.pause})
		}
	}
	if len(copied) > 0 {
		l := fitTime(copied, []shape{{ByBytes, 1}}, func(c *timed) float64 { return c.pause })
		t.Copy = &l
	}
	t.Scatter = t.scatter(list)
}

// scatter is that of whole times about the sum of their parts.
func (t *Times) scatter(list []timed) float64 {
	var off []float64
	for i := range list {
		c := &list[i]
		model := t.of(&t.Coordination, c.Load).Value + t.of(&t.Management, c.Load).Value + t.of(&t.Storage, c.Load).Value
		off = append(off, math.Log(max(fastest, c.coordination+c.management+c.storage)/max(fastest, model)))
	}
	return spread(off)
}

// A shape is a law before it is fitted, and how much more likely it is than others before
// anything was measured: ranks agree by a tree, unless more is seen.
type shape struct {
	law   Growth
	prior float64
}

// rankShapes are the laws of what ranks do together.
var rankShapes = []shape{{Tree, 3}, {Linear, 1}}

// fixedShares are the shares of the mean time that do not grow with anything.
var fixedShares = []float64{0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}

// Weights of laws: the smallest that counts, the error that nothing is smaller than, and how
// many checkpoints of one job tell as much as independent ones would.
const (
	leastWeight = 0.005
	leastError  = 0.01
	enough      = 4
)

// fitTime weighs laws by how likely they make the measurements. A law has one free number, its
// scale, so that half of the checkpoints may be disturbed and it stays: the median. Errors are
// those of logarithms, of a scale that is not known (Laplace).
func fitTime(list []timed, shapes []shape, seconds func(*timed) float64) Line {
	count := make(map[int]float64)
	for i := range list {
		count[list[i].job]++
	}
	points := 0.0
	for _, n := range count {
		points += min(enough, n)
	}
	weigh := func(i int) float64 { return min(enough, count[list[i].job]) / count[list[i].job] }
	var laws []Line
	var scores []float64
	for _, s := range shapes {
		for _, l := range s.law.candidates(list) {
			if l.impossible(list, seconds) {
				continue
			}
			scale, miss := l.scale(list, seconds, weigh)
			for k := range l.Coef {
				l.Coef[k] *= scale
			}
			laws, scores = append(laws, l), append(scores, math.Log(s.prior*l.Weight)-points*math.Log(leastError+miss/points))
		}
	}
	return combine(laws, scores, list, seconds)
}

// fileShares are the shares of the files in what grows with files and bytes.
var fileShares = []float64{0.1, 0.2, 0.4, 0.6, 0.9}

// candidates are a law's for each share that is fixed, with coefficients for a mean time of 1
// and weights that add up to 1.
func (g Growth) candidates(list []timed) (laws []Line) {
	mean := make([]float64, len(g.row(Load{})))
	for i := range list {
		for k, v := range g.row(list[i].Load) {
			mean[k] += v / float64(len(list))
		}
	}
	add := func(shares ...float64) {
		l := Line{Law: g, Coef: make([]float64, len(mean))}
		for k, share := range shares {
			if mean[k] > 0 {
				l.Coef[k] = share / mean[k]
			}
		}
		laws = append(laws, l)
	}
	for _, fixed := range fixedShares {
		if len(mean) == 2 {
			add(fixed, 1-fixed)
			continue
		}
		for _, files := range fileShares {
			add(fixed, (1-fixed)*files, (1-fixed)*(1-files))
		}
	}
	for i := range laws {
		laws[i].Weight = 1 / float64(len(laws))
	}
	return laws
}

// impossible reports whether a law, whose mean is 1, says that something measured takes no time.
func (l *Line) impossible(list []timed, seconds func(*timed) float64) bool {
	return slices.ContainsFunc(list, func(c timed) bool { return seconds(&c) > fastest && l.at(c.Load, 0) < 1e-6 })
}

// scale returns what a law has to be multiplied by, and the sum of what is then missed.
func (l *Line) scale(list []timed, seconds func(*timed) float64, weigh func(int) float64) (scale, miss float64) {
	var off, weights []float64
	for i := range list {
		off = append(off, math.Log(max(fastest, seconds(&list[i]))/max(1e-12, l.at(list[i].Load, 0))))
		weights = append(weights, weigh(i))
	}
	middle := weightedMedian(off, weights)
	for i, v := range off {
		miss += weights[i] * math.Abs(v-middle)
	}
	return math.Exp(middle), miss
}

// combine keeps the laws that count, the likeliest first.
func combine(laws []Line, scores []float64, list []timed, seconds func(*timed) float64) Line {
	best, sum := slices.Max(scores), 0.0
	for i := range laws {
		laws[i].Weight = math.Exp(scores[i] - best)
		sum += laws[i].Weight
	}
	kept := slices.DeleteFunc(laws, func(l Line) bool { return l.Weight < leastWeight*sum })
	slices.SortStableFunc(kept, func(a, b Line) int { return cmp.Compare(b.Weight, a.Weight) })
	for i := range kept {
		kept[i].Weight /= sum
	}
	out := kept[0]
	out.Others = kept[1:]
	var off []float64
	for i := range list {
		off = append(off, math.Log(max(fastest, seconds(&list[i]))/max(fastest, (&Times{}).of(&out, list[i].Load).Value)))
	}
	out.Scatter = spread(off)
	return out
}

func weightedMedian(values, weights []float64) float64 {
	order := make([]int, len(values))
	all := 0.0
	for i := range order {
		order[i], all = i, all+weights[i]
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	sum := 0.0
	for k, i := range order {
		if sum += weights[i]; sum > all/2*(1+1e-12) {
			return values[i]
		} else if sum > all/2*(1-1e-12) && k+1 < len(order) {
			return (values[i] + values[order[k+1]]) / 2
		}
	}
	return 0
}

// spread estimates a standard deviation from the distances to the median. A few wild values move
// it a little: they count as far as three deviations of the others.
func spread(values []float64) float64 {
	middle := Median(values)
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - middle)
	}
	sd := 1.4826 * Median(away)
	squares := 0.0
	for _, v := range away {
		v = min(v, 3*max(sd, leastError))
		squares += v * v / float64(len(away))
	}
	return max(sd, math.Sqrt(squares))
}

func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
