package analyze

import "math"

// A backbone is a longest subsequence of requests with increasing offsets. Requests
// out of order, and those of other patterns, are not in it.
type backbone struct {
	tails []int32 // last requests of the best subsequences of each length
	ends  []int64 // their offsets
	prev  []int32 // predecessor of each request in its best subsequence
	gaps  []int64
	sizes []int64
}

// length finds the backbone of the requests todo by patience sorting, in n·log(n)
// steps, and returns its length.
func (b *backbone) length(off []int64, todo []int32) int {
	b.tails, b.ends = b.tails[:0], b.ends[:0]
	if len(b.prev) < len(off) {
		b.prev = make([]int32, len(off))
	}
	for _, i := range todo {
		o := off[i]
		// The first tail that is not before o, usually the end.
		at, high := len(b.ends), len(b.ends)
		if high > 0 && b.ends[high-1] >= o {
			at = 0
			for at < high {
				if m := int(uint(at+high) >> 1); b.ends[m] < o {
					at = m + 1
				} else {
					high = m
				}
			}
		}
		b.prev[i] = -1
		if at > 0 {
			b.prev[i] = b.tails[at-1]
		}
		if at == len(b.tails) {
			b.tails, b.ends = append(b.tails, i), append(b.ends, o)
		} else {
			b.tails[at], b.ends[at] = i, o
		}
	}
	return len(b.tails)
}

// holes returns the medians of the holes and of the sizes along the backbone that
// length has found.
func (b *backbone) holes(off, end []int64) (gap, size int64) {
	b.gaps, b.sizes = b.gaps[:0], b.sizes[:0]
	for i := b.tails[len(b.tails)-1]; i >= 0; i = b.prev[i] {
		b.sizes = append(b.sizes, end[i]-off[i])
		if p := b.prev[i]; p >= 0 {
			b.gaps = append(b.gaps, max(0, off[i]-end[p]))
		}
	}
	return median(b.gaps), median(b.sizes)
}

// advances reports whether a backbone of k of n requests is too long for requests in
// random order. Their backbone has a length of 2√n - 1.77·n^(1/6) with a standard
// deviation of 0.90·n^(1/6) (Baik, Deift, Johansson 1999). advances asks for four
// deviations more, and for a third of all requests. Of few requests all must be in the
// backbone, from seven on all but one, which happens by chance in one case of a
// hundred.
func advances(k, n int) bool {
	if n < 7 {
		return k == n
	}
	x := float64(n)
	sixth := math.Pow(x, 1.0/6)
	return float64(k) >= min(x-1, 2*math.Sqrt(x)-1.77*sixth+4*0.9*sixth) && 3*k >= n
}
