package analyze

import (
	"math"
	"slices"
)

// Limits of the classifier. A pattern is clear if it explains clearShare of the
// requests; a second one counts as such from minorShare on.
const (
	blockOps   = 4096 // requests that are looked at together
	clearShare = 0.75
	minorShare = 0.20
	regular    = 0.60 // share of groups that must agree in a nested stride
	seeksShare = 0.25 // from this share of backward seeks on, forward is no longer sequential
	// onwardShare of the requests must be in the backbone of a forward pattern; a
	// little less than clearShare, as requests that are out of order fall out of it.
	onwardShare = 0.70
)

// A verdict is what a block of requests is.
type verdict struct {
	detail Detail
	stride int64 // of strided requests, the commonest step from start to start
	outer  int64 // of nested ones, from group to group
	inner  int64 // requests in a group
	// forward is set if all that is known is that offsets increase; gap is then the
	// median of the holes over that of the sizes.
	forward bool
	gap     float64
}

// A classifier says what pattern the requests of one rank to one file, in one
// direction, form. Its memory is bounded, and kept.
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

// classify judges a block of requests, of which there is at least one.
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

// clear judges requests that follow one pattern, if they do.
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
		return verdict{detail: StridedSimple}, true // the same place again and again
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
	// Chains of equal steps among those that are in no chain, or a very short one.
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
	// One part in long chains, the other not: what is the other?
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
	// What is not in the backbone makes one step back each, at most.
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

// steps returns which shares of the requests touch the one before them, begin
// where it began, and begin before it.
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

// touching judges requests of which most are in chains that touch: one chain, or
// groups.
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
	// Short groups: where they begin decides.
	starts := c.todo[:0]
	for _, ch := range c.long {
		starts = append(starts, ch.first)
	}
	slices.Sort(starts)
	c.todo = starts
	if k := c.backbone.length(c.off, starts); !advances(k, len(starts)) {
		return verdict{detail: Random}
	}
	// The holes that count are those between the groups, not within.
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

// revisits reports whether requests go to few places again and again, as to
// headers.
func (c *classifier) revisits(todo []int32) bool {
	c.scratch = c.scratch[:0]
	for _, i := range todo {
		c.scratch = append(c.scratch, c.off[i])
	}
	slices.Sort(c.scratch)
	return 10*len(slices.Compact(c.scratch)) <= 3*len(todo)
}

// onward judges requests that go forward, by the backbone just found.
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

// looseAlong is loose once the backbone has been found.
func (c *classifier) looseAlong(todo []int32) verdict {
	if !advances(len(c.backbone.tails), len(todo)) {
		return verdict{detail: Random}
	}
	_, _, back := c.steps(todo)
	return c.onward(back)
}

// parts judges requests piece by piece: a pattern may restart, or another follow.
// Whole is what they are as one.
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
		// Holes that are now a little smaller, now a little larger than requests
		// are no two patterns.
		return whole
	case whole.forward && !clear && fastest < 2*slowest:
		// It goes forth and back everywhere, and forth in the long run.
		return whole
	}
	return verdict{detail: tally.detail()}
}
