package service

import "math"

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

// autoDoubt is the standard deviation of how many extents auto stores raw next time, as a
// share of what packing saves: it depends on the disk and the processors at that moment.
const autoDoubt = 0.2

// assumedDoubt is their relative standard deviation.
const assumedDoubt = 0.15

// ratio returns the packing of a region, for a full checkpoint or one that follows, and
// its standard deviation.
func (r *Region) ratio(codec string, np int, filled float64, full bool) (ratio, sd float64) {
	if codec == "none" || codec == "" {
		return 1, 0
	}
	if r != nil && r.Packing[codec] != nil {
		list := &r.Packing[codec].Next
		if full {
			list = &r.Packing[codec].Full
		}
		if ratio, sd, ok := list.at(np, filled); ok {
			if codec == "auto" {
				sd = math.Hypot(sd, autoDoubt*(1-ratio))
			}
			return ratio, sd
		}
	}
	known, ok := assumed[codec]
	if !ok {
		known = 1
	}
	return known, known * assumedDoubt
}
