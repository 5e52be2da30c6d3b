package analyze

import (
	"math"
	"slices"
)

// Limits of the classifier. A pattern is clear if it explains clearShare of the
// requests. A second pattern counts from minorShare on.
const (
	blockOps   = 4096 // requests of a block
	clearShare = 0.75
	minorShare = 0.20
	regular    = 0.60 // share of groups that must agree in a nested stride
	seeksShare = 0.25 // from this share of backward seeks on, a pattern is not sequential
	// onwardShare of the requests must be in the backbone of a forward pattern. It is
	// a little less than clearShare, because requests out of order are not in the
	// backbone.
	onwardShare = 0.70
)

// A verdict is the pattern of a block of requests.
type verdict struct {
	detail Detail
	stride int64 // of strided requests: the commonest step between starts
	outer  int64 // of nested requests: the step between groups
	inner  int64 // requests of a group
	// forward is set if only increasing offsets are known. gap is then the ratio of
	// the median hole to the median size.
	forward bool
	gap     float64
}

// A classifier finds the pattern of the requests of one rank to one file in one
// direction. Its memory is bounded and reused.
type classifier struct {
	off, end []int64 // the block
	all      []int32
	todo     []int32
	rest     []int32
	chainer  chainer
	backbone backbone
	long     []chain
	pairs    []chain
	scratch  []int64
	sample   []int64
}

// classify judges a block of at least one request.
func (c *classifier) classify(off, end []int64) verdict {
	c.off, c.end = off, end
	c.all = c.all[:0]
	for i := range off {
		c.all = append(c.all, int32(i))
	}
	v, clear := c.clear(c.all)
	if clear && !v.forward {
		return v
	}
	return c.parts(c.all, v)
}

// clear judges requests that follow one clear pattern.
func (c *classifier) clear(todo []int32) (verdict, bool) {
	n := len(todo)
	switch {
	case n == 1:
		return verdict{detail: Contiguous}, true
	case n == 2:
		return c.pair(todo[0], todo[1]), true
	}
	direct, same, back := c.steps(todo)
	if same >= regular {
		return verdict{detail: StridedSimple}, true // always the same place
	}
	// Chains of requests that touch.
	shortest := int32(3)
	if n < 8 {
		shortest = 2
	}
	c.chainer.link(c.off, c.end, todo, true, 0)
	var covered int
	c.long, covered = c.chainer.long(c.long[:0], shortest)
	contiguous := float64(covered) / float64(n)
	places := c.places(todo)
	if back >= regular || direct < max(0.4, byChance(1, places, n)) && (places < 64 || covered < 16*len(c.long)) {
		contiguous = 0 // by chance, or backwards
	}
	if contiguous >= clearShare {
		return c.touching(todo), true
	}
	// Chains of equal steps among the requests in no chain, or in a very short one.
	alone := int32(4)
	if contiguous == 0 {
		alone = int32(n) + 1 // all
	}
	rest, inLong := c.rest[:0], 0
	for _, i := range todo {
		switch k := c.chainer.of(i).count; {
		case k < alone:
			rest = append(rest, i)
		case k >= 8:
			inLong++
		}
	}
	c.rest = rest
	strided, stepped, v := c.strided(n, places)
	switch {
	case strided >= clearShare:
		return v, true
	case contiguous+strided >= clearShare && contiguous >= minorShare && strided >= minorShare:
		return verdict{detail: Mixed}, true
	}
	// One part forms long chains. Judge the other part.
	if s := float64(inLong+stepped) / float64(n); s >= minorShare && s < clearShare && len(c.rest) >= n/5 {
		first := Contiguous
		if stepped > inLong {
			first = v.detail
		}
		second := c.loose(c.rest)
		if c.revisits(c.rest) {
			return verdict{detail: StridedVariable}, true
		}
		if coarse(second.detail) != coarse(first) {
			return verdict{detail: Mixed}, true
		}
	}
	// Each request outside of the backbone makes at most one step back.
	if back <= 1-onwardShare {
		if k := c.backbone.length(c.off, todo); float64(k) >= onwardShare*float64(n) && advances(k, n) {
			return c.onward(back), true
		}
	}
	if 1-back-same <= 1-onwardShare && c.backwards(todo) {
		return verdict{detail: StridedVariable}, true
	}
	return verdict{detail: Random}, false
}

// pair judges two requests.
func (c *classifier) pair(i, j int32) verdict {
	gap := c.off[j] - c.end[i]
	switch {
	case gap == 0:
		return verdict{detail: Contiguous}
	case gap > 0 && gap <= c.end[j]-c.off[j]:
		return verdict{detail: Sequential}
	}
	return verdict{detail: StridedSimple, stride: c.off[j] - c.off[i]}
}

// steps returns the shares of requests that touch the one before, that begin at the
// same offset, and that begin before it.
func (c *classifier) steps(todo []int32) (direct, same, back float64) {
	var d, s, b int
	for k := 1; k < len(todo); k++ {
		i, j := todo[k-1], todo[k]
		switch {
		case c.off[j] == c.off[i]:
			s++
		case c.off[j] < c.off[i]:
			b++
		}
		if c.off[j] == c.end[i] {
			d++
		}
	}
	n := float64(len(todo) - 1)
	return float64(d) / n, float64(s) / n, float64(b) / n
}

// touching judges requests that are mostly in touching chains: one chain, or groups.
func (c *classifier) touching(todo []int32) verdict {
	if v, ok := c.nested(c.long); ok {
		v.stride = (c.long[0].bytes + int64(c.long[0].count) - 1) / int64(c.long[0].count)
		return v
	}
	requests := 0
	for _, ch := range c.long {
		requests += int(ch.count)
	}
	if len(c.long) <= 2 || requests >= 8*len(c.long) {
		return verdict{detail: Contiguous}
	}
	// The starts of short groups decide.
	starts := c.todo[:0]
	for _, ch := range c.long {
		starts = append(starts, ch.first)
	}
	slices.Sort(starts)
	c.todo = starts
	if k := c.backbone.length(c.off, starts); !advances(k, len(starts)) {
		return verdict{detail: Random}
	}
	// Only the holes between groups count.
	c.scratch = c.scratch[:0]
	for i := 1; i < len(c.long); i++ {
		c.scratch = append(c.scratch, max(0, c.long[i].start-c.long[i-1].next))
	}
	hole := median(c.scratch)
	c.backbone.length(c.off, todo)
	_, size := c.backbone.holes(c.off, c.end)
	if _, _, back := c.steps(todo); back >= seeksShare || hole > size {
		return verdict{detail: StridedVariable}
	}
	return verdict{detail: Sequential}
}

// revisits reports whether requests go to a few places repeatedly, such as headers.
func (c *classifier) revisits(todo []int32) bool {
	c.scratch = c.scratch[:0]
	for _, i := range todo {
		c.scratch = append(c.scratch, c.off[i])
	}
	slices.Sort(c.scratch)
	return 10*len(slices.Compact(c.scratch)) <= 3*len(todo)
}

// onward judges forward requests by the backbone found before.
func (c *classifier) onward(back float64) verdict {
	gap, size := c.backbone.holes(c.off, c.end)
	v := verdict{detail: Sequential, forward: true, gap: ratio(float64(gap), float64(size))}
	if back >= seeksShare || gap > size {
		v.detail = StridedVariable
	}
	return v
}

// backwards reports whether requests go from the end of the file to its start.
func (c *classifier) backwards(todo []int32) bool {
	c.todo = append(c.todo[:0], todo...)
	slices.Reverse(c.todo)
	k := c.backbone.length(c.off, c.todo)
	return float64(k) >= onwardShare*float64(len(todo)) && advances(k, len(todo))
}

// loose judges requests without a clear pattern: they advance, or are random.
func (c *classifier) loose(todo []int32) verdict {
	c.backbone.length(c.off, todo)
	return c.looseAlong(todo)
}

// looseAlong is loose with the backbone found before.
func (c *classifier) looseAlong(todo []int32) verdict {
	if !advances(len(c.backbone.tails), len(todo)) {
		return verdict{detail: Random}
	}
	_, _, back := c.steps(todo)
	return c.onward(back)
}

// parts judges requests piece by piece: a pattern may restart, or another may follow.
// whole is the verdict on all of them.
func (c *classifier) parts(todo []int32, whole verdict) verdict {
	n := len(todo)
	if !whole.forward {
		whole = c.loose(todo)
	}
	if n < 32 {
		return whole
	}
	var tally tally
	pieces := min(8, n/16)
	onward, clear := whole.forward, false
	least, most := math.Inf(1), 0.0 // holes
	slowest, fastest := n, 0        // progress, in percent
	for p := range pieces {
		piece := todo[n*p/pieces : n*(p+1)/pieces]
		v, ok := c.clear(piece)
		progress := 100 * c.backbone.length(c.off, piece) / len(piece)
		if !ok {
			v = c.looseAlong(piece)
		}
		tally.add(v, int64(len(piece)))
		onward, clear = onward && v.forward, clear || ok
		least, most = min(least, v.gap), max(most, v.gap)
		slowest, fastest = min(slowest, progress), max(fastest, progress)
	}
	switch {
	case onward && most < 4*max(least, 0.1):
		// Holes slightly above and slightly below the size of requests are one
		// pattern.
		return whole
	case whole.forward && !clear && fastest < 2*slowest:
		// The offsets go back and forth, and forth in the long run.
		return whole
	}
	return verdict{detail: tally.detail()}
}
