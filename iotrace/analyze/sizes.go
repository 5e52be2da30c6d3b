package analyze

import (
	"maps"
	"math"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

// The bins of Darshan's size histograms, each up to and including the number
// (DARSHAN_BUCKET_INC in darshan-common.h compares with < 101, < 1025, …).
var (
	binEnds  = [...]int64{100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30}
	binNames = [...]string{"0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+"}
)

type histogram [len(binNames)]int64

func (h *histogram) add(size int64) {
	i := 0
	for i < len(binEnds) && size > binEnds[i] {
		i++
	}
	h[i]++
}

const (
	commonSizes   = 4    // named in a report, like Darshan's ACCESS1 to ACCESS4
	trackedSizes  = 4096 // different sizes that are counted; Darshan tracks 32
	uniformShare  = 2. / 3
	trackedHoles  = 64
	pageSize      = 4 << 10
	trackedStripe = 1 << 20 // stripes of a shared file that are tracked
	writeStripes  = 1 << 12 // of one write; 1 TiB in stripes of 1 MiB is sampled at every 256th
)

func sizeCounts(common []counted) []iotrace.SizeCount {
	out := []iotrace.SizeCount{}
	for _, c := range common {
		out = append(out, iotrace.SizeCount{Size: c.value, Count: c.count})
	}
	return out
}

func bins(writes, reads *histogram) []SizeBin {
	out := make([]SizeBin, len(binNames))
	for i, name := range binNames {
		out[i] = SizeBin{Bin: name, Count: writes[i] + reads[i], Writes: writes[i], Reads: reads[i]}
		if i < len(binEnds) {
			out[i].Upto = binEnds[i]
		}
	}
	return out
}

// stripes finds the stripes of a file that several ranks write. In a very large file
// or write it samples every second stripe, every fourth, and so on.
type stripes struct {
	size   int64
	owner  map[int64]int32 // the rank, or several
	sample int64           // only multiples of it count; a power of two
	last   int64
	rank   int32
}

const several = -2

func newStripes(size int64) *stripes {
	return &stripes{size: size, owner: map[int64]int32{}, sample: 1, last: -1}
}

// add adds the stripes of a write.
func (s *stripes) add(rank int32, off, end int64) {
	a, b := off/s.size, max(off, end-1)/s.size
	for (b-a)/s.sample >= writeStripes {
		s.coarser()
	}
	// Negative values have overflowed.
	for k := s.next(a); k >= 0 && k <= b; k = s.next(k + 1) {
		s.touch(rank, k)
	}
}

// next returns the first counted stripe from k on.
func (s *stripes) next(k int64) int64 { return (k + s.sample - 1) &^ (s.sample - 1) }

// coarser halves the sample.
func (s *stripes) coarser() {
	s.sample *= 2
	maps.DeleteFunc(s.owner, func(k int64, _ int32) bool { return k != s.next(k) })
}

func (s *stripes) touch(rank int32, stripe int64) {
	if stripe == s.last && rank == s.rank {
		return
	}
	s.last, s.rank = stripe, rank
	switch o, ok := s.owner[stripe]; {
	case !ok:
		s.owner[stripe] = rank
		for len(s.owner) > trackedStripe {
			s.coarser()
		}
	case o != rank:
		s.owner[stripe] = several
	}
}

func (s *stripes) shared() float64 {
	n := 0
	for _, o := range s.owner {
		if o == several {
			n++
		}
	}
	return ratio(float64(n), float64(len(s.owner)))
}

// kind reports whether n requests with so many bytes in all have one size, the first
// of the common ones: two thirds of the requests and of the bytes. The last, smaller
// request of a collective buffer does not prevent that. A few large areas between many
// pages, as in an image of DMTCP, do.
func kind(common []counted, n int64, bytes float64) string {
	switch {
	case n == 0 || len(common) == 0:
		return "none"
	case share(common[0].count, n) >= uniformShare && float64(common[0].value)*float64(common[0].count) >= uniformShare*bytes:
		return "uniform"
	}
	return "variable"
}

// binOf returns the bin of a size.
func binOf(size int64) int {
	i := 0
	for i < len(binEnds) && size > binEnds[i] {
		i++
	}
	return i
}

// binEdges returns the smallest and the largest size of a bin.
func binEdges(i int) (low, high int64) {
	if i > 0 {
		low = binEnds[i-1] + 1
	}
	if i == len(binEnds) {
		return low, math.MaxInt64
	}
	return low, binEnds[i]
}

// commonOf divides the common sizes of a record among writes and reads, as the bins of
// those sizes are divided. No size is commoner than its bin.
func commonOf(c *iotrace.Counters, both *[2]half) (common [2][]counted) {
	var left [2][10]int64
	for d := range both {
		if h := &both[d]; h.requests > 0 {
			for i, n := range h.sizes {
				left[d][i] = max(0, min(n, h.requests))
			}
		}
	}
	for _, s := range c.Common {
		if s.Size <= 0 || s.Count <= 0 {
			continue
		}
		bin := binOf(s.Size)
		w, r := &left[0][bin], &left[1][bin]
		n := min(s.Count, iotrace.Sum(*w, *r))
		writes := min(part(n, *w, *r), *w)
		reads := min(n-writes, *r)
		for d, k := range [2]int64{writes, reads} {
			if k > 0 {
				common[d] = append(common[d], counted{s.Size, k})
				left[d][bin] -= k
			}
		}
	}
	return common
}

// countSizes adds the sizes of a record. Without bins, as of STDIO, all requests count
// as having the mean size. It returns the share of the time that is put down to small
// requests: the mean of their shares of the requests and of the bytes, because time
// goes with both.
func (d *directed) countSizes(h *half, common []counted, t *finding.Thresholds) (small float64) {
	mean := h.bytes / h.requests
	var of [10]int64
	var known int64
	for i, n := range h.sizes {
		of[i] = max(0, min(n, h.requests-known))
		known += of[i]
	}
	of[binOf(mean)] += h.requests - known
	s := sizesOf{bins: of, common: common, bytes: h.bytes, binned: known > 0}
	for i, n := range of {
		d.bins[i] += n
	}
	for _, c := range common {
		d.sizes.add(c.value, c.count)
		d.record(c.value, c.count)
	}
	least, most := s.extremes(mean)
	d.Min, d.Max = min(d.Min, least), max(d.Max, most)
	few, bytes := s.below(t.SmallBytes)
	if !s.binned {
		few, bytes = 0, 0
		if mean < t.SmallBytes {
			few, bytes = h.requests, h.bytes
		}
	}
	d.Small, d.SmallBytes = d.Small+few, iotrace.Sum(d.SmallBytes, bytes)
	below, _ := s.below(t.LargeBytes)
	if s.binned {
		d.Large += h.requests - below
	} else if mean >= t.LargeBytes {
		d.Large += h.requests
	}
	return (share(few, h.requests) + min(1, ratio(float64(bytes), float64(h.bytes)))) / 2
}

// sizesOf are the sizes of the writes or reads of a record.
type sizesOf struct {
	bins   [10]int64
	common []counted // each in its bin
	bytes  int64     // of all
	binned bool
}

// extremes returns the smallest and the largest size, or the ends of their bins if
// these have sizes that are not common.
func (s *sizesOf) extremes(mean int64) (least, most int64) {
	if !s.binned {
		return mean, mean
	}
	least, most = mean, mean
	for i, n := range s.bins {
		if n == 0 {
			continue
		}
		low, high := binEdges(i)
		small, large := int64(math.MaxInt64), int64(0)
		for _, c := range s.common {
			if binOf(c.value) == i {
				n -= c.count
				small, large = min(small, c.value), max(large, c.value)
			}
		}
		if n <= 0 {
			low, high = small, large
		}
		least, most = min(least, low), max(most, min(high, s.bytes))
	}
	return least, most
}

// below returns the number of requests smaller than a limit, with their bytes. Common
// sizes are exact; the others are spread evenly over their bin, and have its
// geometric mean.
func (s *sizesOf) below(limit int64) (n, bytes int64) {
	rest := s.bins
	restBytes := float64(s.bytes)
	for _, c := range s.common {
		rest[binOf(c.value)] -= c.count
		restBytes -= float64(c.value) * float64(c.count)
		if c.value < limit {
			n += c.count
			bytes = iotrace.Sum(bytes, product(c.value, c.count))
		}
	}
	var guess, others float64
	for i, k := range rest {
		low, high := binEdges(i)
		if k <= 0 {
			continue
		}
		below := k
		if limit <= high { // a limit at the end of a bin is above nearly all of it
			below = int64(float64(k) * ratio(float64(max(0, limit-low)), float64(high-low)))
		}
		size := math.Sqrt(float64(max(low, 1)) * float64(min(high, max(s.bytes, 1))))
		n += below
		guess += size * float64(below)
		others += size * float64(k-below)
	}
	if all := guess + others; all > 0 && restBytes > 0 {
		bytes = iotrace.Sum(bytes, int64(min(guess/all*restBytes, float64(math.MaxInt64/2))))
	}
	return n, min(bytes, s.bytes)
}

// product multiplies nonnegative numbers and saturates.
func product(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// record remembers a common size of counters, for when sizes are counted again.
func (d *directed) record(size, n int64) {
	if d.recorded == nil {
		d.recorded = map[int64]int64{}
	}
	d.recorded[size] = iotrace.Sum(d.recorded[size], n)
}
