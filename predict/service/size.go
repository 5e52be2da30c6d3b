package service

import (
	"math"
	"slices"

	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/zones"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Job is one to predict.
type Job struct {
	// Instance is the workload; nil if it is unknown. Then Laws predict the stored
	// bytes of the data zone.
	Instance   *dataset.Instance
	App, Class string
	NP         int
	// Mapping is the number of ranks of each node.
	Mapping []int
	MPI     string
	Codec   string
	// Layout and Aggregators say how the ranks write, as in the settings of a job.
	Layout      string
	Aggregators int
	Laws        *Laws
	// Part says that only some of the ranks store, while the others compute.
	Part bool
	// Saved says that only the arrays that must be saved are stored, those that all ranks have
	// alike by rank 0: application level.
	Saved bool
}

// regions lists what a rank stores, of the arrays of all ranks alike or of the others.
func (j *Job) regions(rank int, alike bool) []sizedRegion {
	if !j.Saved {
		return regions(j.Instance, rank)
	}
	var list []sizedRegion
	for _, a := range j.Instance.Arrays {
		if n := a.Of(rank).Bytes(); n > 0 && a.Save && a.Replicated == alike {
			list = append(list, sizedRegion{a.Name, float64(zones.PageRound(n))})
		}
	}
	if alike { // and the page with the iteration
		list = append(list, sizedRegion{runtimeRegion, zones.PageSize})
	}
	return list
}

// Laws are the stored bytes of the data zone of a rank, where no structure is known.
type Laws struct{ Full, Next fit.Range }

// A Size is what ckpt stores of a job.
type Size struct {
	// Library is stored once, beside the first checkpoint.
	Library fit.Range
	// Full is the first checkpoint, without the library, Next one that follows.
	Full, Next Checkpoint
	// Assumed says that no job measured the codec.
	Assumed bool
	// Measured says that the application and class were measured.
	Measured bool
	// Extrapolation is the factor by which the job lies outside the measured ones.
	Extrapolation float64
}

// A Checkpoint is what one adds to the store, in bytes.
type Checkpoint struct {
	Data, Shared, Overhead, Total fit.Range
	Files                         int
}

// Part is the share of a checkpoint that some of the ranks write.
func (c *Checkpoint) Part(share float64) Checkpoint {
	return Checkpoint{Data: c.Data.Scale(share), Shared: c.Shared.Scale(share), Overhead: c.Overhead.Scale(share), Total: c.Total.Scale(share),
		Files: max(1, int(math.Round(share*float64(c.Files))))}
}

// Fulls is how many of the first n checkpoints store all memory: the first, and each that
// no longer refers to it.
func Fulls(n int) int { return (max(1, n) + cycle - 1) / cycle }

// Mean is the mean of what the first n checkpoints add, without the library.
func (s *Size) Mean(n int) float64 {
	full, all := float64(Fulls(n)), float64(max(1, n))
	return (full*s.Full.Total.Value + (all-full)*s.Next.Total.Value) / all
}

// arrayShares are the shares of one array in a workload spec.
type arrayShares struct {
	known         bool
	use, changing float64
	filled        float64
}

func (s arrayShares) used() float64 {
	if !s.known {
		return -1
	}
	return s.use
}

func (s arrayShares) changed() float64 {
	if !s.known {
		return -1
	}
	return s.changing
}

func (s arrayShares) full() float64 {
	if !s.known || s.filled <= 0 {
		return 1
	}
	return s.filled
}

// runtimeRegion belongs to the runtime constant; of it the page with the iteration
// counter changes.
const runtimeRegion = "runtime"

// shares returns a spec's, by array.
func shares(inst *dataset.Instance) map[string]arrayShares {
	if inst == nil {
		return nil
	}
	list := map[string]arrayShares{runtimeRegion: {true, 1, min(1, zones.PageSize/float64(inst.Runtime)), 1}}
	for _, a := range inst.Arrays {
		list[a.Name] = arrayShares{true, max(a.Used, a.Rewrite), a.Rewrite, a.Filled}
	}
	return list
}

// A sizedRegion is a region of a rank with its size.
type sizedRegion struct {
	name string
	size float64
}

// regions lists the ones of a rank, with pages filled up.
func regions(inst *dataset.Instance, rank int) []sizedRegion {
	var list []sizedRegion
	for _, a := range inst.Arrays {
		if n := a.Of(rank).Bytes(); n > 0 {
			list = append(list, sizedRegion{a.Name, float64(zones.PageRound(n))})
		}
	}
	if inst.Runtime == 0 {
		return list
	}
	return append(list, sizedRegion{runtimeRegion, float64(zones.PageRound(inst.Runtime))})
}

// structure returns the stored bytes of the data zone of a rank, on average, with the doubt
// about who holds how much.
func (a *App) structure(job *Job) (full, next fit.Range) {
	inst := job.Instance
	for _, s := range inst.Shares() {
		f, n := a.stored(job, job.regions(s.First(), false))
		share := float64(s.Count) / float64(inst.NP)
		full, next = summed(full, f.Scale(share)), summed(next, n.Scale(share))
	}
	if job.Saved {
		f, n := a.stored(job, job.regions(0, true))
		full, next = summed(full, f.Scale(1/float64(inst.NP))), summed(next, n.Scale(1/float64(inst.NP)))
	}
	low, high := inst.TotalRange()
	total := float64(inst.TotalBytes())
	return doubted(full, float64(low)/total, float64(high)/total), doubted(next, float64(low)/total, float64(high)/total)
}

// summed adds amounts whose errors have the same sign.
func summed(a, b fit.Range) fit.Range {
	return fit.Range{Value: a.Value + b.Value, Low: a.Low + b.Low, High: a.High + b.High}
}

// doubted widens an amount by factors of its value.
func doubted(a fit.Range, low, high float64) fit.Range {
	return fit.Range{Value: a.Value, Low: max(0, a.Low-a.Value*(1-low)), High: a.High + a.Value*(high-1)}
}

// stored returns the stored bytes of regions of one rank.
func (a *App) stored(job *Job, list []sizedRegion) (full, next fit.Range) {
	inst, spec := job.Instance, shares(job.Instance)
	if a != nil && !job.Saved {
		for _, r := range a.Regions { // what the spec does not have, such as messages in transit
			if _, ok := spec[r.Name]; !ok {
				list = append(list, sizedRegion{r.Name, r.Size})
			}
		}
	}
	for _, item := range list {
		var r *Region
		if a != nil {
			r = a.region(item.name)
		}
		if r == nil {
			r = &Region{Name: item.name}
		}
		add := func(sum *fit.Range, share Share, of float64, isFull bool) {
			bytes, half := share.stored(item.size, of)
			ratio := r.ratio(job.Codec, inst.NP, spec[item.name].full(), isFull)
			sum.Value += bytes * ratio.Value
			sum.Low += max(0, bytes*ratio.Low-half*ratio.Value)
			sum.High += bytes*ratio.High + half*ratio.Value
		}
		add(&full, r.Used, spec[item.name].used(), true)
		add(&next, r.Changed, spec[item.name].changed(), false)
	}
	return full, next
}

// The doubt about a structure: by how much it is off between jobs that agree with it, as a
// relative standard deviation, and without any job.
const (
	fullPrior, nextPrior = 0.004, 0.01
	fullDoubt, nextDoubt = 0.08, 0.15
	priorWeight          = 2
)

// data predicts the data zone of a rank: the structure, corrected by what it was off.
func (a *App) data(job *Job) (full, next fit.Range, extrapolation float64) {
	full, next = a.structure(job)
	var fullOff, nextOff []float64
	extrapolation = 1
	if a != nil {
		low, high := math.Inf(1), 0.0
		for _, pt := range a.Points {
			if pt.Saved != job.Saved {
				continue
			}
			low, high = min(low, float64(pt.NP)), max(high, float64(pt.NP))
			if pt.FullModel > 0 && pt.Full > 0 {
				fullOff = append(fullOff, pt.Full/pt.FullModel)
			}
			if pt.NextModel > 0 && pt.Next > 0 {
				nextOff = append(nextOff, pt.Next/pt.NextModel)
			}
		}
		if high > 0 {
			extrapolation = max(1, low/float64(job.NP), float64(job.NP)/high)
		}
	}
	if job.Saved && len(fullOff) == 0 { // jobs measured all memory
		return full, corrected(next, nextOff, nextPrior, nextDoubt, 1), 1
	}
	if exact(job.Instance) && (job.Codec == "none" || job.Codec == "") {
		extrapolation = 1
	}
	return corrected(full, fullOff, fullPrior, fullDoubt, extrapolation), corrected(next, nextOff, nextPrior, nextDoubt, extrapolation), extrapolation
}

// exact reports whether the arrays of a program are known on any number of ranks.
func exact(inst *dataset.Instance) bool {
	return inst.Workload.IsProgram() && !slices.ContainsFunc(inst.Arrays, func(a dataset.Array) bool { return a.Measured != nil })
}

// corrected multiplies by the mean of what a structure was off, and widens the interval by
// how that differs.
func corrected(a fit.Range, off []float64, prior, doubt, extrapolation float64) fit.Range {
	if len(off) == 0 {
		return about(a.Value, math.Hypot(a.Half(), 2*doubt*a.Value))
	}
	s := scattered(off, prior, priorWeight)
	n := float64(s.n)
	relative := student(n+priorWeight-1) * s.sd * math.Sqrt(1+1/n) * (1 + math.Log(extrapolation))
	below, above := math.Hypot(a.Value-a.Low, relative*a.Value), math.Hypot(a.High-a.Value, relative*a.Value)
	v := a.Value * s.mean
	return fit.Range{Value: v, Low: max(0, v-below), High: v + above}
}

// Size predicts what ckpt stores of a job. Without measurements the Fit may be nil.
func (f *Fit) Size(job Job) *Size {
	app := f.App(job.App, job.Class)
	s := &Size{Measured: app != nil, Extrapolation: 1}
	program := app != nil && app.Program || job.Instance != nil && job.Instance.Workload.IsProgram()
	if !program && !job.Saved {
		s.Library = f.library()
	}
	var full, next fit.Range
	if job.Instance != nil && job.Laws == nil {
		full, next, s.Extrapolation = app.data(&job)
		s.Assumed = !app.packed(job.Codec)
	} else if job.Laws != nil {
		full, next = job.Laws.Full, job.Laws.Next
	}
	ranks := float64(job.NP)
	var segmentFull, segmentNext fit.Range
	if !program && !job.Saved { // which have no segment of ckpt
		segmentFull, segmentNext = f.segments(&job)
	}
	overhead := f.overhead(&job)
	files := Files(job.Layout, job.NP, len(job.Mapping), job.Aggregators)
	s.Full = Checkpoint{Data: full.Scale(ranks), Shared: segmentFull, Overhead: overhead, Files: files}
	s.Next = Checkpoint{Data: next.Scale(ranks), Shared: segmentNext, Overhead: overhead, Files: files}
	for _, c := range []*Checkpoint{&s.Full, &s.Next} {
		c.Total = plus(c.Data, c.Shared, c.Overhead)
	}
	return s
}

// packed reports whether jobs measured the codec, or it does not matter.
func (a *App) packed(codec string) bool {
	if codec == "none" || codec == "" {
		return true
	}
	return a != nil && slices.ContainsFunc(a.Regions, func(r *Region) bool { return r.Packing[codec] != nil })
}

// Codec is the one that an application was measured with, the newest job's; "" if none.
func (a *App) Codec() string {
	if a == nil || len(a.Points) == 0 {
		return ""
	}
	return a.Points[len(a.Points)-1].Codec
}

// libraryBytes is the library of the program ckpt itself, which its ranks run.
const libraryBytes = 25 << 20

func (f *Fit) library() fit.Range {
	if f == nil || len(f.Library) == 0 {
		return about(libraryBytes, 0.2*libraryBytes)
	}
	newest := f.Library[len(f.Library)-1] // earlier programs were other builds
	s := scattered(f.Library, 0.01*newest, 1)
	return about(newest, 2*s.sd)
}

// segments predicts what all nodes store of their segments. Once its messages have
// arrived a segment is empty, and takes a page.
func (f *Fit) segments(job *Job) (full, next fit.Range) {
	var s *Segment
	if f != nil {
		s = f.Segments[job.MPI]
	}
	nodes := make(map[int]int) // by ranks on them
	for _, n := range job.Mapping {
		nodes[n]++
	}
	for ranks, n := range nodes {
		one, following := s.at(float64(ranks))
		full, next = plus(full, one.Scale(float64(n))), plus(next, following.Scale(float64(n)))
	}
	return full, next
}

// at predicts one node.
func (s *Segment) at(ranks float64) (full, next fit.Range) {
	if s == nil || len(s.Ranks) == 0 {
		page := float64(zones.PageSize)
		return about(page, page), about(page, page)
	}
	line := func(values []float64) fit.Range {
		v, sd := fitLine(s.Ranks, values, ranks)
		return about(max(0, v), student(float64(len(values)))*sd)
	}
	return line(s.Full), line(s.Next)
}

// fitLine fits a line through points by least squares, a constant if there is one abscissa
// only, and returns its value at x and the standard deviation of a measurement there.
func fitLine(xs, ys []float64, x float64) (value, sd float64) {
	n := float64(len(xs))
	var mx, my, sxx, sxy float64
	for i := range xs {
		mx += xs[i] / n
		my += ys[i] / n
	}
	for i := range xs {
		sxx += (xs[i] - mx) * (xs[i] - mx)
		sxy += (xs[i] - mx) * (ys[i] - my)
	}
	slope := 0.0
	if sxx > 0 {
		slope = sxy / sxx
	}
	value = my + slope*(x-mx)
	prior := 0.03 * my
	squares := 2 * prior * prior
	for i := range xs {
		d := ys[i] - my - slope*(xs[i]-mx)
		squares += d * d
	}
	leverage := 1 / n
	if sxx > 0 {
		leverage += (x - mx) * (x - mx) / sxx
	}
	return value, math.Sqrt(squares / (n + 1) * (1 + leverage))
}

// about makes a range of half a width; no amount is negative.
func about(value, half float64) fit.Range {
	return fit.Range{Value: value, Low: max(0, value-half), High: value + half}
}

// within makes a range that is a factor both ways.
func within(value, factor float64) fit.Range {
	return fit.Range{Value: value, Low: value / factor, High: value * factor}
}

// plus adds amounts with independent errors.
func plus(list ...fit.Range) fit.Range {
	var sum, low, high float64
	for _, a := range list {
		sum += a.Value
		low += (a.Value - a.Low) * (a.Value - a.Low)
		high += (a.High - a.Value) * (a.High - a.Value)
	}
	return fit.Range{Value: sum, Low: max(0, sum-math.Sqrt(low)), High: sum + math.Sqrt(high)}
}

// student is the two-sided 95 % quantile of Student's t.
func student(dof float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: max(1, dof)}.Quantile(0.975)
}

// A scatter is how far values lie from their mean.
type scatter struct {
	mean, sd float64
	n        int
}

// scattered takes a standard deviation from values, and from a prior worth so many of them.
func scattered(values []float64, prior, weight float64) scatter {
	s := scatter{n: len(values), sd: prior}
	if s.n == 0 {
		return s
	}
	for _, v := range values {
		s.mean += v / float64(s.n)
	}
	squares := weight * prior * prior
	for _, v := range values {
		squares += (v - s.mean) * (v - s.mean)
	}
	s.sd = math.Sqrt(squares / (weight + float64(s.n-1)))
	return s
}
