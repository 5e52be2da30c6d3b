package pattern

import (
	"math"
	"slices"
)

// Limits of the Classifier. A pattern is clear if it explains ClearShare of the
// requests. A second pattern counts from MinorShare on.
const (
	BlockOps   = 4096 // requests of a block
	ClearShare = 0.75
	MinorShare = 0.20
	Regular    = 0.60 // share of groups that must agree in a nested stride
	seeksShare = 0.25 // from this share of backward seeks on, a pattern is not sequential
	// OnwardShare of the requests must be in the backbone of a forward pattern. It is
	// a little less than ClearShare, because requests out of order are not in the
	// backbone.
	OnwardShare = 0.70
)

// A Verdict is the pattern of a block of requests.
type Verdict struct {
	Detail Detail
	Stride int64 // of strided requests: the commonest step between starts
	Outer  int64 // of nested requests: the step between groups
	Inner  int64 // requests of a group
	// forward is set if only increasing offsets are known. gap is then the ratio of
	// the median hole to the median size.
	forward bool
	gap     float64
}

// A Classifier finds the pattern of the requests of one rank to one file in one
// direction. Its memory is bounded and reused.
type Classifier struct {
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

// Classify judges a block of at least one request.
func (c *Classifier) Classify(off, end []int64) Verdict {
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
func (c *Classifier) clear(todo []int32) (Verdict, bool) {
	n := len(todo)
	switch {
	case n == 1:
		return Verdict{Detail: Contiguous}, true
	case n == 2:
		return c.pair(todo[0], todo[1]), true
	}
	direct, same, back := c.steps(todo)
	if same >= Regular {
		return Verdict{Detail: StridedSimple}, true // always the same place
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
	if back >= Regular || direct < max(0.4, byChance(1, places, n)) && (places < 64 || covered < 16*len(c.long)) {
		contiguous = 0 // by chance, or backwards
	}
	if contiguous >= ClearShare {
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
	case strided >= ClearShare:
		return v, true
	case contiguous+strided >= ClearShare && contiguous >= MinorShare && strided >= MinorShare:
		return Verdict{Detail: Mixed}, true
	}
	// One part forms long chains. Judge the other part.
	if s := float64(inLong+stepped) / float64(n); s >= MinorShare && s < ClearShare && len(c.rest) >= n/5 {
		first := Contiguous
		if stepped > inLong {
			first = v.Detail
		}
		second := c.loose(c.rest)
		if c.revisits(c.rest) {
			return Verdict{Detail: StridedVariable}, true
		}
		if second.Detail.Spatial() != first.Spatial() {
			return Verdict{Detail: Mixed}, true
		}
	}
	// Each request outside of the backbone makes at most one step back.
	if back <= 1-OnwardShare {
		if k := c.backbone.length(c.off, todo); float64(k) >= OnwardShare*float64(n) && advances(k, n) {
			return c.onward(back), true
		}
	}
	if 1-back-same <= 1-OnwardShare && c.backwards(todo) {
		return Verdict{Detail: StridedVariable}, true
	}
	return Verdict{Detail: Random}, false
}

// pair judges two requests.
func (c *Classifier) pair(i, j int32) Verdict {
	gap := c.off[j] - c.end[i]
	switch {
	case gap == 0:
		return Verdict{Detail: Contiguous}
	case gap > 0 && gap <= c.end[j]-c.off[j]:
		return Verdict{Detail: Sequential}
	}
	return Verdict{Detail: StridedSimple, Stride: c.off[j] - c.off[i]}
}

// steps returns the shares of requests that touch the one before, that begin at the
// same offset, and that begin before it.
func (c *Classifier) steps(todo []int32) (direct, same, back float64) {
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
func (c *Classifier) touching(todo []int32) Verdict {
	if v, ok := c.nested(c.long); ok {
		v.Stride = (c.long[0].bytes + int64(c.long[0].count) - 1) / int64(c.long[0].count)
		return v
	}
	requests := 0
	for _, ch := range c.long {
		requests += int(ch.count)
	}
	if len(c.long) <= 2 || requests >= 8*len(c.long) {
		return Verdict{Detail: Contiguous}
	}
	// The starts of short groups decide.
	starts := c.todo[:0]
	for _, ch := range c.long {
		starts = append(starts, ch.first)
	}
	slices.Sort(starts)
	c.todo = starts
	if k := c.backbone.length(c.off, starts); !advances(k, len(starts)) {
		return Verdict{Detail: Random}
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
		return Verdict{Detail: StridedVariable}
	}
	return Verdict{Detail: Sequential}
}

// revisits reports whether requests go to a few places repeatedly, such as headers.
func (c *Classifier) revisits(todo []int32) bool {
	c.scratch = c.scratch[:0]
	for _, i := range todo {
		c.scratch = append(c.scratch, c.off[i])
	}
	slices.Sort(c.scratch)
	return 10*len(slices.Compact(c.scratch)) <= 3*len(todo)
}

// onward judges forward requests by the backbone found before.
func (c *Classifier) onward(back float64) Verdict {
	gap, size := c.backbone.holes(c.off, c.end)
	v := Verdict{Detail: Sequential, forward: true, gap: ratio(float64(gap), float64(size))}
	if back >= seeksShare || gap > size {
		v.Detail = StridedVariable
	}
	return v
}

// backwards reports whether requests go from the end of the file to its start.
func (c *Classifier) backwards(todo []int32) bool {
	c.todo = append(c.todo[:0], todo...)
	slices.Reverse(c.todo)
	k := c.backbone.length(c.off, c.todo)
	return float64(k) >= OnwardShare*float64(len(todo)) && advances(k, len(todo))
}

// loose judges requests without a clear pattern: they advance, or are random.
func (c *Classifier) loose(todo []int32) Verdict {
	c.backbone.length(c.off, todo)
	return c.looseAlong(todo)
}

// looseAlong is loose with the backbone found before.
func (c *Classifier) looseAlong(todo []int32) Verdict {
	if !advances(len(c.backbone.tails), len(todo)) {
		return Verdict{Detail: Random}
	}
	_, _, back := c.steps(todo)
	return c.onward(back)
}

// parts judges requests piece by piece: a pattern may restart, or another may follow.
// whole is the Verdict on all of them.
func (c *Classifier) parts(todo []int32, whole Verdict) Verdict {
	n := len(todo)
	if !whole.forward {
		whole = c.loose(todo)
	}
	if n < 32 {
		return whole
	}
	var counts Counts
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
		counts.Add(v.Detail, int64(len(piece)))
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
	return Verdict{Detail: counts.Detail()}
}

// nested reports whether chains are equally spaced groups with the same number of
// requests.
func (c *Classifier) nested(chains []chain) (Verdict, bool) {
	m := len(chains)
	if m < 3 {
		return Verdict{}, false
	}
	c.scratch = c.scratch[:0]
	for _, ch := range chains {
		c.scratch = append(c.scratch, int64(ch.count))
	}
	inner, k := mode(c.scratch)
	if float64(k) < Regular*float64(m) {
		return Verdict{}, false
	}
	c.scratch = c.scratch[:0]
	for i := 1; i < m; i++ {
		c.scratch = append(c.scratch, chains[i].start-chains[i-1].start)
	}
	outer, k := mode(c.scratch)
	if outer == 0 || float64(k) < Regular*float64(m-1) {
		return Verdict{}, false
	}
	return Verdict{Detail: StridedNested, Outer: outer, Inner: inner}, true
}

// strided finds chains of equal steps among c.rest, from n requests of a block to so
// many different places, and leaves the requests in no chain there. It returns the
// share of the n in chains, the share in chains of eight and more or in nested chains,
// and the Verdict.
func (c *Classifier) strided(n, places int) (covered float64, stepped int, v Verdict) {
	requests := 0
	if c.steady(c.rest) < byChance(2, places, len(c.rest)) {
		return 0, 0, Verdict{}
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
			v = Verdict{Detail: StridedSimple}
			if groups {
				v = nested
			}
			v.Stride = step
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
func (c *Classifier) places(todo []int32) int {
	c.sample = c.sample[:0]
	for _, i := range todo[:min(256, len(todo))] {
		c.sample = append(c.sample, c.off[i])
	}
	slices.Sort(c.sample)
	return len(slices.Compact(c.sample))
}

// steady returns the share of steps that equal the step before, or the one before
// that, as in groups of two.
func (c *Classifier) steady(todo []int32) float64 {
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
func (c *Classifier) commonStep(todo []int32) (step int64, count int) {
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
