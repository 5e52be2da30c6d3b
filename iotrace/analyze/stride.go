package analyze

import (
	"math"
	"slices"
)

// nested reports whether chains are equally spaced groups with the same number of
// requests.
func (c *classifier) nested(chains []chain) (verdict, bool) {
	m := len(chains)
	if m < 3 {
		return verdict{}, false
	}
	c.scratch = c.scratch[:0]
	for _, ch := range chains {
		c.scratch = append(c.scratch, int64(ch.count))
	}
	inner, k := mode(c.scratch)
	if float64(k) < regular*float64(m) {
		return verdict{}, false
	}
	c.scratch = c.scratch[:0]
	for i := 1; i < m; i++ {
		c.scratch = append(c.scratch, chains[i].start-chains[i-1].start)
	}
	outer, k := mode(c.scratch)
	if outer == 0 || float64(k) < regular*float64(m-1) {
		return verdict{}, false
	}
	return verdict{detail: StridedNested, outer: outer, inner: inner}, true
}

// strided finds chains of equal steps among c.rest, from n requests of a block to so
// many different places, and leaves the requests in no chain there. It returns the
// share of the n in chains, the share in chains of eight and more or in nested chains,
// and the verdict.
func (c *classifier) strided(n, places int) (covered float64, stepped int, v verdict) {
	requests := 0
	if c.steady(c.rest) < byChance(2, places, len(c.rest)) {
		return 0, 0, verdict{}
	}
	for requests*20 < 19*n {
		step, count := c.commonStep(c.rest)
		if count < 2 || count*20 < n {
			break
		}
		c.chainer.link(c.off, c.end, c.rest, false, step)
		shortest := min(3, int32(n)-1)
		var got int
		c.long, got = c.chainer.long(c.long[:0], shortest)
		// Pairs form a pattern only in regular groups.
		var twos int
		if c.pairs, twos = c.chainer.long(c.pairs[:0], 2); 2*got < twos {
			if _, ok := c.nested(c.pairs); ok {
				c.long, got, shortest = append(c.long[:0], c.pairs...), twos, 2
			}
		}
		if got == 0 {
			break
		}
		nested, groups := c.nested(c.long)
		if requests == 0 {
			v = verdict{detail: StridedSimple}
			if groups {
				v = nested
			}
			v.stride = step
		}
		requests += got
		left := c.rest[:0]
		for _, i := range c.rest {
			if k := c.chainer.of(i).count; k < shortest {
				left = append(left, i)
			} else if k >= 8 || groups {
				stepped++
			}
		}
		c.rest = left
	}
	return float64(requests) / float64(n), stepped, v
}

// places estimates the number of different offsets from the first 256 requests.
func (c *classifier) places(todo []int32) int {
	c.sample = c.sample[:0]
	for _, i := range todo[:min(256, len(todo))] {
		c.sample = append(c.sample, c.off[i])
	}
	slices.Sort(c.sample)
	return len(slices.Compact(c.sample))
}

// steady returns the share of steps that equal the step before, or the one before
// that, as in groups of two.
func (c *classifier) steady(todo []int32) float64 {
	n, like := 0, 0
	var before [2]int64
	for k := 1; k < len(todo); k++ {
		step := c.off[todo[k]] - c.off[todo[k-1]]
		if k > 1 {
			n++
			if step == before[0] || k > 2 && step == before[1] {
				like++
			}
		}
		before = [2]int64{step, before[0]}
	}
	return ratio(float64(like), float64(n))
}

// byChance returns the share of n requests at random places that a pattern seems to
// explain, if each of so many places would fit: three standard deviations above the
// mean. With few requests it is at least 0.6.
func byChance(would, places, n int) float64 {
	p := float64(would) / float64(max(places, 1))
	return min(0.6, p+3*math.Sqrt(p/float64(max(n, 1))))
}

// commonStep returns the commonest distance between the starts of consecutive requests
// in todo that do not touch.
func (c *classifier) commonStep(todo []int32) (step int64, count int) {
	c.scratch = c.scratch[:0]
	for k := 1; k < len(todo); k++ {
		i, j := todo[k-1], todo[k]
		if c.off[j] != c.end[i] && c.off[j] != c.off[i] {
			c.scratch = append(c.scratch, c.off[j]-c.off[i])
		}
	}
	// A step with a share of one in twenty occurs twice in a sample of 256, with one
	// exception in 25,000.
	if n := len(c.scratch); n >= 1024 {
		c.sample = c.sample[:0]
		for k := range 256 {
			c.sample = append(c.sample, c.scratch[n*k/256])
		}
		if _, count := mode(c.sample); count < 2 {
			return 0, 0
		}
	}
	return mode(c.scratch)
}
