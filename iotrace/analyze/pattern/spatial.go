package pattern

import "slices"

// A Spatial pattern describes how offsets follow each other.
type Spatial string

// The spatial patterns. Mixed means that no other pattern has three quarters of the
// requests.
const (
	SequentialAccess Spatial = "sequential"
	StridedAccess    Spatial = "strided"
	RandomAccess     Spatial = "random"
	MixedSpatial     Spatial = "mixed"
)

// A Detail is a finer spatial pattern.
type Detail string

// The Details. The first two are sequential; the strided ones are strided. A request
// without a known offset went to a position that moves, or was appended to a file of
// unknown length, and counts as Sequential. A
// request of 0 bytes, as at the end of a file, has no pattern. NoDetail means no others.
const (
	Contiguous      Detail = "contiguous"       // requests touch
	Sequential      Detail = "sequential"       // forward, holes up to the size of requests
	StridedSimple   Detail = "strided-simple"   // constant step between starts
	StridedNested   Detail = "strided-nested"   // groups of such requests, a larger step apart
	StridedVariable Detail = "strided-variable" // forward with large or varying holes, or with seeks back
	Random          Detail = "random"
	Mixed           Detail = "mixed"
	NoDetail        Detail = "none"
)

var Details = [...]Detail{Contiguous, Sequential, StridedSimple, StridedNested, StridedVariable, Random, Mixed}

// Spatial returns the pattern that a detail refines.
func (d Detail) Spatial() Spatial {
	switch d {
	case Contiguous, Sequential, NoDetail:
		return SequentialAccess
	case StridedSimple, StridedNested, StridedVariable:
		return StridedAccess
	case Random:
		return RandomAccess
	}
	return MixedSpatial
}

// Counts are numbers of requests by detail.
type Counts [len(Details)]int64

// Add counts requests of a detail.
func (c *Counts) Add(d Detail, requests int64) {
	if i := slices.Index(Details[:], d); i >= 0 {
		c[i] += requests
	}
}

// Merge adds other counts.
func (c *Counts) Merge(o *Counts) {
	for i, n := range o {
		c[i] += n
	}
}

// Total is the number of requests.
func (c *Counts) Total() int64 {
	var n int64
	for _, k := range c {
		n += k
	}
	return n
}

// Spatial returns the pattern of three quarters of the requests.
func (c *Counts) Spatial() Spatial {
	total := c.Total()
	if total == 0 {
		return SequentialAccess // no request is out of order
	}
	for _, s := range [...]Spatial{SequentialAccess, StridedAccess, RandomAccess} {
		var n int64
		for i, k := range c {
			if Details[i].Spatial() == s {
				n += k
			}
		}
		if ratio(float64(n), float64(total)) >= ClearShare {
			return s
		}
	}
	return MixedSpatial
}

// Detail returns the commonest detail of the spatial pattern.
func (c *Counts) Detail() Detail {
	s := c.Spatial()
	best, most := NoDetail, int64(0)
	for i, n := range c {
		if n > most && Details[i].Spatial() == s {
			best, most = Details[i], n
		}
	}
	if s == MixedSpatial {
		return Mixed
	}
	return best
}
