package codec

import (
	"runtime"
	"time"

	"ckpt/zones"
)

// Sampling. Which filter suits an extent, and whether it is worth compressing,
// is found by trying on a few pieces of it. S2 is the judge of filters, also
// for zstd and gzip: on float fields, sparse indices, heaps, text and machine
// code it nearly always ranks them as those would on the whole extent, but
// takes a tenth of the time. A sample of 1/64 for each of at most three filters
// costs 2-5 % of compressing the extent.
const (
	sampleShare = 64
	sampleMin   = 4 << 10
	sampleMax   = 64 << 10
	pieces      = 4
)

// sampleLen returns how much of an extent of n bytes is looked at: one part in
// share, within bounds.
func sampleLen(n, share int) int {
	return min(max(n/share, sampleMin), sampleMax, n)
}

// sample copies size bytes of raw in pieces, one from the middle of each
// quarter. Pieces are cut at multiples of 64 bytes, so that elements stay whole
// and, seen from the start of an extent, in place.
func (e *Encoder) sample(raw []byte, size int) []byte {
	piece := size / pieces &^ 63
	quarter := len(raw) / pieces
	e.sampled = e.sampled[:0]
	for i := range pieces {
		at := (i*quarter + (quarter-piece)/2) &^ 63
		e.sampled = append(e.sampled, raw[at:at+piece]...)
	}
	return e.sampled
}

// filtersFor lists the filters that may suit n bytes of elements of a type.
// Process memory comes without types: as bytes, which are mostly doubles,
// pointers and integers all the same.
func filtersFor(elem zones.Elem, n int) []Filter {
	switch {
	case n%8 != 0:
		return []Filter{NoFilter}
	case elem == zones.Float64 || elem == zones.Int64:
		return []Filter{NoFilter, Shuffle8}
	case elem == zones.Float32 || elem == zones.Int32:
		return []Filter{NoFilter, Shuffle4}
	}
	return []Filter{NoFilter, Shuffle8, Shuffle4}
}

// trial compresses a sample of raw, one part in share, with id after each of
// the filters. It returns the lengths and that of the sample. With k it also
// measures the speeds, on a sample that is large enough for that.
func (e *Encoder) trial(raw []byte, id ID, filters []Filter, share int, k *kind) (lens []int, size int) {
	if k != nil {
		share = min(share, timedShare)
	}
	sample := e.sample(raw, sampleLen(len(raw), share))
	for _, f := range filters {
		p := plan{id, f}
		if k == nil {
			lens = append(lens, len(e.compress(p, sample)))
			continue
		}
		out, d := e.timed(p, sample)
		pace := &k.pace[id][f]
		if pace.speed == 0 { // the first run may have paid for buffers and tables
			var again time.Duration
			out, again = e.timed(p, sample)
			d = min(d, again)
		}
		pace.measured(d, len(sample))
		lens = append(lens, len(out))
	}
	return lens, len(sample)
}

// timed is compress with the time it takes; 0 if that would not matter.
func (e *Encoder) timed(p plan, src []byte) ([]byte, time.Duration) {
	if e.auto.Bandwidth == 0 {
		return e.compress(p, src), 0
	}
	runtime.LockOSThread() // whose clock it may be
	defer runtime.UnlockOSThread()
	start := e.auto.now()
	out := e.compress(p, src)
	return out, e.auto.now().Sub(start)
}

// smallest returns the filter with the least length. S2 is blind to planes in
// which no string repeats but some values are more frequent, such as the
// exponents of random numbers. For a compressor with an entropy coder the first
// shuffle therefore wins a tie with no filter.
func smallest(filters []Filter, lens []int, entropy bool) Filter {
	best := 0
	for i := 1; i < len(filters); i++ {
		if lens[i] < lens[best] || lens[i] == lens[best] && entropy && best == 0 {
			best = i
		}
	}
	return filters[best]
}

// filter chooses the filter for an extent that id will compress.
func (e *Encoder) filter(raw []byte, elem zones.Elem, id ID) Filter {
	filters := filtersFor(elem, len(raw))
	lens, _ := e.trial(raw, S2, filters, sampleShare, nil)
	return smallest(filters, lens, id != S2)
}
