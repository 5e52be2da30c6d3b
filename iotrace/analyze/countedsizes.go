package analyze

import (
	"math"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

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
