package pattern

import (
	"ckpt/iotrace"
	"math"
	"slices"
)

// A chain is a run of requests that follow a rule: each begins where the one before
// ended, or a fixed step after its start. Other requests may come between, and
// neighbours may be swapped, so noise does not break a chain.
type chain struct {
	start, next int64 // first offset, and the expected next one
	bytes       int64
	count       int32
	first       int32 // the earliest request
	into        int32 // the chain that it was merged into, or -1
}

// lookback is the number of open chains. The least recently extended one is closed.
const lookback = 8

// A chainer finds chains. It reuses its memory.
type chainer struct {
	chains []chain
	member []int32 // chain of each request when it joined
}

// link finds the chains among the requests todo of a block. With contiguous the
// requests of a chain touch, otherwise their starts are step apart.
func (c *chainer) link(off, end []int64, todo []int32, contiguous bool, step int64) {
	c.chains = c.chains[:0]
	if len(c.member) < len(off) {
		c.member = make([]int32, len(off))
	}
	var open [lookback]int32 // the most recent first
	n := 0
	for _, i := range todo {
		o, next := off[i], off[i]+step
		if contiguous {
			next = end[i]
		}
		at := -1
		for j := range n {
			if c.chains[open[j]].next == o {
				at = j
				break
			}
		}
		var id int32
		if at >= 0 {
			id = open[at]
		} else {
			id = int32(len(c.chains))
			c.chains = append(c.chains, chain{start: o, first: i, into: -1})
			if n < lookback {
				n++
			}
			at = n - 1
		}
		copy(open[1:at+1], open[:at])
		open[0] = id
		ch := &c.chains[id]
		ch.next = next
		ch.count++
		ch.bytes = iotrace.Sum(ch.bytes, end[i]-o)
		c.member[i] = id
		// A request may close the gap to an earlier chain.
		for j := 1; j < n; j++ {
			if k := open[j]; c.chains[k].start == next {
				late := &c.chains[k]
				late.into = id
				ch.next, ch.count, ch.bytes, ch.first = late.next, ch.count+late.count, iotrace.Sum(ch.bytes, late.bytes), min(ch.first, late.first)
				copy(open[j:], open[j+1:n])
				n--
				break
			}
		}
	}
}

// of returns the chain of a request.
func (c *chainer) of(i int32) *chain {
	id := c.member[i]
	for c.chains[id].into >= 0 {
		id = c.chains[id].into
	}
	return &c.chains[id]
}

// long appends to buf the chains of at least count requests, in the order of their
// beginnings, and returns the number of their requests.
func (c *chainer) long(buf []chain, count int32) (out []chain, requests int) {
	for i := range c.chains {
		if ch := &c.chains[i]; ch.into < 0 && ch.count >= count {
			buf = append(buf, *ch)
			requests += int(ch.count)
		}
	}
	return buf, requests
}

// A backbone is a longest subsequence of requests with increasing offsets. Requests
// out of order, or of other patterns, stay outside.
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

// median reorders s. For an even count it returns the lower middle value.
func median[T int64 | float64](s []T) T {
	if len(s) == 0 {
		return 0
	}
	return nth(s, (len(s)-1)/2)
}

// nth reorders s and returns s[k] of the sorted order, by Hoare's selection: it
// continues only with the side that contains k.
func nth[T int64 | float64](s []T, k int) T {
	low, high := 0, len(s)-1
	for low < high {
		pivot := s[low+(high-low)/2]
		i, j := low, high
		for i <= j {
			for s[i] < pivot {
				i++
			}
			for s[j] > pivot {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return s[k]
		}
	}
	return s[k]
}

// mode sorts s. It returns the commonest value, the smallest of several, with its
// count.
func mode(s []int64) (value int64, count int) {
	slices.Sort(s)
	for i := 0; i < len(s); {
		j := i + 1
		for j < len(s) && s[j] == s[i] {
			j++
		}
		if j-i > count {
			value, count = s[i], j-i
		}
		i = j
	}
	return value, count
}

// ratio returns a/b, or 0 if that is no number.
func ratio(a, b float64) float64 {
	if q := a / b; !math.IsNaN(q) && !math.IsInf(q, 0) {
		return q
	}
	return 0
}
