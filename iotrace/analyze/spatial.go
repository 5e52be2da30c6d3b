package analyze

// An Access tells how many processes use a file.
type Access string

// The modes of access. Mixed means a job with files of both kinds.
const (
	Independent Access = "independent" // by one process
	Shared      Access = "shared"      // by several
	MixedAccess Access = "mixed"
)

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

// The details. The first two are sequential; the strided ones are strided. A request
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

var details = [...]Detail{Contiguous, Sequential, StridedSimple, StridedNested, StridedVariable, Random, Mixed}

func coarse(d Detail) Spatial {
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

// A tally counts requests by pattern.
type tally struct {
	requests [len(details)]int64
	strides  *counter // steps of strided requests
	outers   *counter
	inners   *counter
}

func (t *tally) add(v verdict, requests int64) {
	for i, d := range details {
		if d == v.detail {
			t.requests[i] += requests
		}
	}
	if t.strides == nil {
		return
	}
	switch v.detail {
	case StridedNested:
		t.outers.add(v.outer, requests)
		t.inners.add(v.inner, requests)
		t.strides.add(v.stride, requests)
	case StridedSimple:
		t.strides.add(v.stride, requests)
	}
}

// counters makes the tally count strides.
func (t *tally) counters() {
	t.strides, t.outers, t.inners = newCounter(64), newCounter(64), newCounter(64)
}

// reset empties a tally that counts strides.
func (t *tally) reset() {
	t.requests = [len(details)]int64{}
	t.strides.reset()
	t.outers.reset()
	t.inners.reset()
}

func (t *tally) merge(o *tally) {
	for i, n := range o.requests {
		t.requests[i] += n
	}
	if t.strides != nil && o.strides != nil {
		t.strides.merge(o.strides)
		t.outers.merge(o.outers)
		t.inners.merge(o.inners)
	}
}

// total is the number of requests.
func (t *tally) total() int64 {
	var n int64
	for _, k := range t.requests {
		n += k
	}
	return n
}

// spatial returns the pattern of three quarters of the requests.
func (t *tally) spatial() Spatial {
	var total, sequential, strided, random int64
	for i, n := range t.requests {
		total += n
		switch coarse(details[i]) {
		case SequentialAccess:
			sequential += n
		case StridedAccess:
			strided += n
		case RandomAccess:
			random += n
		}
	}
	switch {
	case total == 0:
		return SequentialAccess // no request is out of order
	case share(sequential, total) >= clearShare:
		return SequentialAccess
	case share(strided, total) >= clearShare:
		return StridedAccess
	case share(random, total) >= clearShare:
		return RandomAccess
	}
	return MixedSpatial
}

// detail returns the commonest detail of the spatial pattern.
func (t *tally) detail() Detail {
	s := t.spatial()
	best, most := NoDetail, int64(0)
	for i, n := range t.requests {
		if n > most && coarse(details[i]) == s {
			best, most = details[i], n
		}
	}
	if s == MixedSpatial {
		return Mixed
	}
	return best
}
