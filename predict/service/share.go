package service

import (
	"math"

	"ckpt/predict/fit"
	"ckpt/zones"
)

const (
	// extentBytes is how much of a region is stored or left out together
	// (docs/FORMAT.md).
	extentBytes = 256 << 10
	// cycle is after how many checkpoints memory that never changes is stored again: a
	// checkpoint refers to the last 15 (docs/CODECS.md).
	cycle = 16
)

// A Share is what part of a region, from its beginning, has a property: that it is ever
// written, or that it changes between checkpoints. Measured jobs bound it, since whole
// extents are stored.
type Share struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Spec says that the share in the workload spec agrees with every measured job.
	Spec bool `json:"spec,omitempty"`
	// Jobs is how many measured it.
	Jobs int `json:"jobs"`
}

// bounds returns the least and the largest share that explain why so many bytes of a
// region were stored.
func bounds(stored, size float64) (low, high float64) {
	switch {
	case stored <= 0:
		return 0, 0
	case stored > size-1: // the last extent may be a short one
		full := float64(int64((size-1)/extentBytes)) * extentBytes
		return full / size, 1
	}
	return max(0, stored-extentBytes) / size, stored / size
}

// measure narrows the share by what a job stored of a region. Spec is the share that the
// workload spec states, below 0 if it states no share.
func (s *Share) measure(stored, size, spec float64) {
	low, high := bounds(stored, size)
	page := zones.PageSize / size
	agrees := spec >= 0 && spec >= low-page && spec <= high+page && (stored > 0 || spec < 1)
	if s.Jobs++; s.Jobs == 1 {
		*s = Share{low, high, agrees, 1}
		return
	}
	s.Spec = s.Spec && agrees
	s.Low, s.High = max(s.Low, low), min(s.High, high)
	if s.Low > s.High { // the share differs between jobs: between these two
		s.Low, s.High = s.High, s.Low
	}
}

// stored returns how many bytes of a region of a size have the property, in whole extents,
// with half the range that is left open.
func (s Share) stored(size, spec float64) (bytes, half float64) {
	at := func(share float64) float64 {
		n := share * size
		if n <= 0 {
			return 0
		}
		extents := float64(int64((n-1)/extentBytes)) + 1
		return min(size, extents*extentBytes)
	}
	if s.Jobs == 0 || s.Spec && spec >= 0 {
		return at(spec), 0
	}
	return at((s.Low + s.High) / 2), max(0, at(s.High)-at(s.Low)) / 2
}

// A Packing is how a codec packed a region: stored bytes by bytes before, at some numbers
// of ranks, in full checkpoints and in those that follow.
type Packing struct {
	Full Ratios `json:"full,omitzero"`
	Next Ratios `json:"next,omitzero"`
}

// Ratios are ratios at numbers of ranks. Filled is the share of the region without padding
// there: zeros between the lines of a grid pack to nothing.
type Ratios struct {
	NP     []float64 `json:"np,omitempty"`
	Ratio  []float64 `json:"ratio,omitempty"`
	Filled []float64 `json:"filled,omitempty"`
}

func (r *Region) packing(codec string) *Packing {
	if r.Packing[codec] == nil {
		r.Packing[codec] = &Packing{}
	}
	return r.Packing[codec]
}

// add adds what a job packed of a region.
func (r *Ratios) add(np int, packed, of, filled float64) {
	if of > 0 {
		r.NP, r.Ratio, r.Filled = append(r.NP, float64(np)), append(r.Ratio, packed/of), append(r.Filled, filled)
	}
}

// The behaviour of ratios: packNoise is the standard deviation of one between equal runs,
// packWander that of its change when the number of ranks grows by a factor of e: padding
// takes another share of smaller arrays.
const (
	packNoise  = 0.01
	packWander = 0.04
)

// at returns the ratio of a region at a number of ranks and its standard deviation. A codec
// packs what a region is filled with, and a raw extent takes its padding along: the
// measurements tell which of the two varies less.
func (r *Ratios) at(np int, filled float64) (ratio, sd float64, ok bool) {
	if len(r.NP) == 0 {
		return 1, 0, false
	}
	content := make([]float64, len(r.NP))
	for i := range content {
		content[i] = r.Ratio[i] / r.Filled[i]
	}
	plain, plainSD := r.mean(r.Ratio, np)
	dense, denseSD := r.mean(content, np)
	if denseSD/dense <= plainSD/plain && plain < raw {
		return min(1, dense*filled), denseSD * filled, true
	}
	return min(1, plain), plainSD, true
}

// raw is a ratio from which on most extents are stored as they are.
const raw = 0.97

// mean returns the mean of values by their distance from a number of ranks, as uncertain
// as they differ.
func (r *Ratios) mean(values []float64, np int) (mean, sd float64) {
	var weights, sum float64
	near := math.Inf(1)
	for i, n := range r.NP {
		distance := math.Abs(math.Log(float64(np) / n))
		w := 1 / (packNoise*packNoise + packWander*packWander*distance)
		weights += w
		sum += w * values[i]
		near = min(near, distance)
	}
	mean = sum / weights
	squares := (packNoise*packNoise + packWander*packWander*near) * mean * mean
	for _, v := range values {
		squares += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(squares)
}

// assumed are ratios of codecs that no job measured, in data of live solvers: their means
// over the applications (docs/CODECS.md).
var assumed = map[string]float64{"gzip": 0.69, "zstd": 0.69, "s2": 0.73, "auto": 0.85}

// assumedDoubt is their relative standard deviation.
const assumedDoubt = 0.15

// ratio returns the packing of a region, for a full checkpoint or one that follows.
func (r *Region) ratio(codec string, np int, filled float64, full bool) fit.Range {
	if codec == "none" || codec == "" {
		return fit.Exactly(1)
	}
	if r != nil && r.Packing[codec] != nil {
		list := &r.Packing[codec].Next
		if full {
			list = &r.Packing[codec].Full
		}
		if ratio, sd, ok := list.at(np, filled); ok {
			known := about(ratio, 2*sd)
			if codec == "auto" {
				return auto(known, filled)
			}
			return known
		}
	}
	known, ok := assumed[codec]
	if !ok {
		known = 1
	}
	if codec == "auto" {
		return auto(fit.Exactly(known), filled)
	}
	return about(known, 2*known*assumedDoubt)
}

// auto is a ratio of the codec auto next time: how many extents it stores raw depends on the
// disk and the processors at that moment. Between none and all are possible.
func auto(known fit.Range, filled float64) fit.Range {
	packed := assumed["zstd"] * filled
	known.Low, known.High = min(known.Low, packed), max(known.High, 1)
	return known
}

// AutoStored is what auto stores next time, where only stored bytes are known: what was
// packed may be raw then, and the reverse.
func AutoStored(bytes fit.Range) fit.Range {
	packed := assumed["zstd"]
	return fit.Range{Value: bytes.Value, Low: min(bytes.Low, bytes.Value*packed), High: max(bytes.High, bytes.Value/packed)}
}

// The layouts of a job (docs/LAYOUTS.md).
const (
	aggregated = "aggregated"
	shared     = "shared"
)

// Files is how many files a checkpoint has, without the manifest and the library.
func Files(layout string, np, nodes, aggregators int) int {
	switch layout {
	case shared:
		return 1
	case aggregated:
		if aggregators > 0 {
			return min(aggregators, np)
		}
		return max(1, nodes)
	}
	return np
}

// The format of a container file (docs/FORMAT.md): a block each for header and trailer,
// records in the index for regions, files and extents.
const (
	fileBlocks   = 2 * zones.PageSize
	indexHeader  = 32
	regionRecord = 32
	fileRecord   = 56
	extentRecord = 80
)

// overheadBytes is what headers and indexes of a checkpoint take.
func overheadBytes(job *Job) float64 {
	if job.Instance == nil {
		return 0
	}
	of := func(records float64) float64 { // of one file
		return fileBlocks + float64(zones.PageRound(int64(indexHeader+fileRecord+records)))
	}
	var all, perRank float64
	for _, s := range job.Instance.Shares() {
		records := 0.0 // of one rank
		for _, r := range job.regions(s.First(), false) {
			records += regionRecord + extentRecord*math.Ceil(r.size/extentBytes)
		}
		all += float64(s.Count) * records
		perRank += float64(s.Count) * of(records)
	}
	files := Files(job.Layout, job.Instance.NP, len(job.Mapping), job.Aggregators)
	if files == job.Instance.NP {
		return perRank
	}
	return float64(files) * of(all/float64(files))
}

// overhead predicts it, corrected by what jobs measured.
func (f *Fit) overhead(job *Job) fit.Range {
	bytes := overheadBytes(job)
	if bytes == 0 { // the arrays are not known: a few extents in each file
		files := float64(Files(job.Layout, job.NP, len(job.Mapping), job.Aggregators))
		bytes = files * (fileBlocks + zones.PageSize)
	}
	if f == nil || len(f.Overhead) == 0 {
		return about(bytes, bytes/2)
	}
	s := scattered(f.Overhead, 0.05, priorWeight)
	return about(s.mean*bytes, student(float64(s.n)+1)*s.sd*bytes)
}
