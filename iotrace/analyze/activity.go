package analyze

import "math"

// An activity collects the findings about a file, or about all files, from the
// requests rank by rank.
type activity struct {
	a        *analysis
	work     *fileWork
	ranks    map[int32]bool // processes that read or write
	idlers   map[int32]bool // processes that do only other things
	writers  int            // ranks that write; not set for the job
	requests [2]int64       // writes and reads
	bytes    [2]int64

	bins          [2]histogram
	sizes         *counter
	small, large  int64
	smallWrites   int64
	least, most   int64 // size
	first, last   int64 // offsets
	placed        int64 // requests with a known offset
	links         int64 // those with a predecessor
	consecutive   int64
	forward       int64
	holeSum       float64
	holes         *counter
	offPage       int64 // not aligned
	offStripe     int64
	tally         tally
	stripes       *stripes
	sharedStripes float64

	// Reused for one file after the other:
	class    classifier
	blocks   [2]block
	sequence sequence
	phases   phases
}

// A block collects requests of one direction for the classifier.
type block struct {
	off, end []int64
	last     int64 // end of the last request
	begun    bool
}

// add adds a request and reports whether the block is full.
func (b *block) add(off, end int64) bool {
	b.off, b.end = append(b.off, off), append(b.end, end)
	return len(b.off) == blockOps
}

func newActivity(a *analysis, job bool) *activity {
	x := &activity{a: a, sizes: newCounter(trackedSizes), holes: newCounter(trackedHoles),
		ranks: map[int32]bool{}, idlers: map[int32]bool{}}
	if job {
		x.sizes.cap *= 4
		x.work = new(fileWork)
	}
	x.tally.counters()
	x.least, x.first = math.MaxInt64, math.MaxInt64
	return x
}

// reset prepares x for the next file.
func (x *activity) reset() {
	x.sizes.reset()
	x.holes.reset()
	x.tally.reset()
	clear(x.ranks)
	clear(x.idlers)
	*x = activity{a: x.a, ranks: x.ranks, idlers: x.idlers, sizes: x.sizes, holes: x.holes, tally: x.tally,
		class: x.class, blocks: x.blocks, sequence: x.sequence, phases: x.phases,
		least: math.MaxInt64, first: math.MaxInt64}
}

// read processes the streams of a file.
func (x *activity) read(all []stream) {
	x.work = &x.a.files[all[0].file]
	writers := 0
	for i := range all {
		if len(all[i].requests) > 0 {
			writers++
		}
	}
	if writers > 1 {
		x.stripes = newStripes(x.a.options.StripeSize)
	}
	x.phases.reset(&x.work.bursts)
	for i := range all {
		x.stream(&all[i])
	}
	x.phases.finish(all)
	if x.stripes != nil {
		x.sharedStripes = x.stripes.shared()
	}
}

// stream processes the requests of one rank to a file.
func (x *activity) stream(s *stream) {
	if len(s.requests) == 0 {
		x.idlers[s.rank] = true
		return
	}
	x.ranks[s.rank] = true
	x.sequence.reset()
	for d := range x.blocks {
		x.blocks[d].begun = false
	}
	before, bytes, writes := x.tally.requests, x.bytes, x.requests[0]
	for i := range s.requests {
		x.request(&s.requests[i], s.rank)
	}
	if x.requests[0] > writes && isRank(x.a.trace, int(s.rank)) {
		x.writers++
	}
	x.judge(&x.blocks[0], &x.tally)
	x.judge(&x.blocks[1], &x.tally)
	x.phases.stream(x, s)
	var own tally
	for i := range own.requests {
		own.requests[i] = x.tally.requests[i] - before[i]
	}
	moved := add(x.bytes[0]-bytes[0], x.bytes[1]-bytes[1])
	x.a.grouper.add(int(s.file), int(s.rank), &x.sequence, own.detail(), int64(len(s.requests)), moved)
}

func (x *activity) request(q *request, rank int32) {
	d := direction(q.read)
	x.requests[d]++
	x.bytes[d] = add(x.bytes[d], q.size)
	x.bins[d].add(q.size)
	x.sizes.add(q.size, 1)
	x.least, x.most = min(x.least, q.size), max(x.most, q.size)
	switch t := x.a.options.Thresholds; {
	case q.size < t.SmallBytes:
		x.small++
		if !q.read {
			x.smallWrites++
		}
	case q.size >= t.LargeBytes:
		x.large++
	}
	if q.off < 0 {
		x.tally.add(verdict{detail: Sequential}, 1)
		return
	}
	to := end(q.off, q.size)
	x.placed++
	x.first, x.last = min(x.first, q.off), max(x.last, to)
	if q.off%pageSize != 0 {
		x.offPage++
	}
	if q.off%x.a.options.StripeSize != 0 {
		x.offStripe++
	}
	if x.stripes != nil && !q.read && q.size > 0 {
		x.stripes.add(rank, q.off, to)
	}
	b := &x.blocks[d]
	if b.begun {
		x.links++
		switch {
		case q.off == b.last:
			x.consecutive++
		case q.off > b.last:
			x.forward++
			x.holeSum += float64(q.off - b.last)
			x.holes.add(q.off-b.last, 1)
		}
	}
	b.last, b.begun = to, true
	if b.add(q.off, to) {
		x.judge(b, &x.tally)
	}
	x.sequence.add(!q.read, q.off, q.size)
}

// judge classifies the requests of a block, and empties it.
func (x *activity) judge(b *block, t *tally) {
	if len(b.off) > 0 {
		t.add(x.class.classify(b.off, b.end), int64(len(b.off)))
	}
	b.off, b.end = b.off[:0], b.end[:0]
}

// recount counts the common sizes again, exactly: the candidates are known now.
func (x *activity) recount(all []stream) {
	x.sizes.flush()
	for size := range x.sizes.counts {
		x.sizes.counts[size] = 0
	}
	for i := range all {
		for j := range all[i].requests {
			size := all[i].requests[j].size
			if n, ok := x.sizes.counts[size]; ok {
				x.sizes.counts[size] = n + 1
			}
		}
	}
}

// merge adds the findings about a file to those about the job.
func (x *activity) merge(o *activity) {
	x.work.merge(o.work)
	for r := range o.ranks {
		x.ranks[r] = true
	}
	for r := range o.idlers {
		x.idlers[r] = true
	}
	for d := range 2 {
		x.requests[d] += o.requests[d]
		x.bytes[d] = add(x.bytes[d], o.bytes[d])
		for i, n := range o.bins[d] {
			x.bins[d][i] += n
		}
	}
	x.sizes.merge(o.sizes)
	x.small += o.small
	x.smallWrites += o.smallWrites
	x.large += o.large
	x.least, x.most = min(x.least, o.least), max(x.most, o.most)
	x.first, x.last = min(x.first, o.first), max(x.last, o.last)
	x.placed += o.placed
	x.links += o.links
	x.consecutive += o.consecutive
	x.forward += o.forward
	x.holeSum += o.holeSum
	x.holes.merge(o.holes)
	x.offPage += o.offPage
	x.offStripe += o.offStripe
	x.tally.merge(&o.tally)
	x.sharedStripes = max(x.sharedStripes, o.sharedStripes)
}

// report fills in everything but the bursts and the job's access mode.
func (x *activity) report() Activity {
	n := x.requests[0] + x.requests[1]
	r := Activity{Access: Independent, Spatial: x.tally.spatial(), Detail: x.tally.detail(),
		Writes: x.requests[0], Reads: x.requests[1], BytesWritten: x.bytes[0], BytesRead: x.bytes[1],
		CommonSizes: []SizeCount{}, Histogram: bins(&x.bins[0], &x.bins[1]), SharedStripes: x.sharedStripes, Bursts: []Burst{},
		writers: x.writers, smallWrites: x.smallWrites, placed: x.placed}
	x.work.report(&r)
	by := x.ranks
	if len(by) == 0 {
		by = x.idlers
	}
	if len(by) > 1 {
		r.Access = Shared
	}
	for rank := range by {
		if isRank(x.a.trace, int(rank)) {
			r.Ranks++
		}
	}
	common, bytes := x.sizes.most(commonSizes), float64(x.bytes[0])+float64(x.bytes[1])
	for _, c := range common {
		r.CommonSizes = append(r.CommonSizes, SizeCount{c.value, c.count})
	}
	r.Sizes = Sizes{Kind: kind(common, n, bytes), Max: x.most, Mean: ratio(bytes, float64(n)),
		Small: x.small, Medium: n - x.small - x.large, Large: x.large}
	if n > 0 {
		r.Sizes.Min = x.least
	}
	r.Offsets = x.offsets()
	return r
}

func (x *activity) offsets() Offsets {
	o := Offsets{End: x.last, Consecutive: share(x.consecutive, x.links), Forward: share(x.forward, x.links),
		Backward: share(x.links-x.consecutive-x.forward, x.links),
		Hole:     x.holes.top().value, HoleMean: ratio(x.holeSum, float64(x.forward)),
		Stride: x.tally.strides.top().value, Outer: x.tally.outers.top().value, Inner: x.tally.inners.top().value,
		UnalignedPage: share(x.offPage, x.placed), UnalignedStripe: share(x.offStripe, x.placed)}
	if x.placed > 0 {
		o.First = x.first
	}
	return o
}

// reportBursts reports the bursts of the last file, each with its own pattern.
func (x *activity) reportBursts(whole *Activity) ([]Burst, int) {
	out := []Burst{}
	list := x.work.bursts.list
	for i := range list {
		b := list[i].report()
		if p := &x.phases; len(p.list) > 0 {
			q := &p.list[i]
			b.Ranks, b.Spatial, b.Detail = q.ranks, q.tally.spatial(), q.tally.detail()
			b.Sizes = kind([]counted{{q.size, q.equal}}, b.Count, float64(b.Bytes))
		} else {
			b.Ranks, b.Spatial, b.Detail, b.Sizes = whole.Ranks, whole.Spatial, whole.Detail, whole.Sizes.Kind
		}
		out = append(out, b)
	}
	return out, x.work.bursts.total
}
