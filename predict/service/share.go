package service

import "ckpt/zones"

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
// workload spec states, below 0 if there is none.
func (s *Share) measure(stored, size, spec float64) {
	low, high := bounds(stored, size)
	page := zones.PageSize / size
	agrees := spec >= 0 && spec >= low-page && spec <= high+page
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
