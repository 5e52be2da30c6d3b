package analyze

import (
	"maps"
	"math"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// An activity collects the findings about a file, or about all files, from the
// requests rank by rank.
type activity struct {
	a             *analysis
	work          *fileWork
	shared, idle  int   // the same of records of all ranks: how many of them
	touch         int   // ranks that open the file, if all do
	offMemory     int64 // requests from memory that is not aligned, of counters
	first, last   int64 // offsets
	holeSum       float64
	stripes       *stripes
	sharedStripes float64
	align         [2]alignment // to stripes and to pages
	modify        ReadModifyWrite
	redundant     [redundantKinds]redundancy
	sampled       float64 // as in Redundant
	reused
}

// reused is what serves one file after the other.
type reused struct {
	ranks      map[int32]bool // processes that read or write
	idlers     map[int32]bool // processes that do only other things
	directions [2]directed    // writes and reads
	holes      *counter
	class      classifier
	sequence   pattern.Sequence
	phases     phases
	rewrites   rewriteFinder
	again      redundantFinder
	both       *counter // of sizes
}

func newActivity(a *analysis, job bool) *activity {
	x := &activity{a: a, first: math.MaxInt64, reused: reused{holes: newCounter(trackedHoles),
		ranks: map[int32]bool{}, idlers: map[int32]bool{}, again: redundantFinder{limit: fileSpans}}}
	for d := range x.directions {
		x.directions[d].init()
	}
	if job {
		x.directions[0].sizes.cap *= 4
		x.directions[1].sizes.cap *= 4
		x.work = new(fileWork)
	}
	return x
}

// reset prepares x for the next file.
func (x *activity) reset() {
	x.holes.reset()
	clear(x.ranks)
	clear(x.idlers)
	for d := range x.directions {
		x.directions[d].reset()
	}
	*x = activity{a: x.a, reused: x.reused, first: math.MaxInt64}
}

// read processes the streams of a file.
func (x *activity) read(all []stream) {
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
	x.again.find(x, all)
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
	x.sequence.Reset()
	var own [2]pattern.Counts
	var moved, requests [2]int64
	for d := range x.directions {
		w := &x.directions[d]
		w.block.begun, w.block.pass = false, pass{}
		own[d], moved[d], requests[d] = w.tally.Counts, w.Bytes, w.Requests
	}
	opens := 0
	for i := range s.requests {
		opens = s.opensBefore(&s.requests[i], opens)
		x.request(&s.requests[i], s.rank, opens)
	}
	for d := range x.directions {
		w := &x.directions[d]
		x.judge(w)
		if w.Requests > requests[d] {
			w.processes[s.rank] = true
		}
		moved[d] = w.Bytes - moved[d]
		for i, n := range w.tally.Counts {
			own[d][i] = n - own[d][i]
		}
	}
	x.phases.stream(x, s)
	if x.directions[0].Requests > requests[0] && x.directions[1].Requests > requests[1] {
		x.rewrites.find(x, s)
	}
	_, detail := overall(&own, &moved)
	x.a.grouper.Add(int(s.file), int(s.rank), &x.sequence, detail, int64(len(s.requests)), iotrace.Sum(moved[0], moved[1]))
}

// request processes a request of a rank that has opened the file so often.
func (x *activity) request(q *request, rank int32, opens int) {
	read := q.read()
	w := &x.directions[direction(read)]
	w.Requests++
	w.Bytes = iotrace.Sum(w.Bytes, q.size)
	w.bins.add(q.size)
	w.sizes.add(q.size, 1)
	w.Min, w.Max = min(w.Min, q.size), max(w.Max, q.size)
	switch t := x.a.options.Thresholds; {
	case q.size < t.SmallBytes:
		w.Small++
		w.SmallBytes = iotrace.Sum(w.SmallBytes, q.size)
	case q.size >= t.LargeBytes:
		w.Large++
	}
	switch {
	case q.size == 0: // as at the end of the file: it moves nothing, and has no place in an order
		return
	case q.off < 0:
		w.tally.add(pattern.Verdict{Detail: x.a.unplaced}, 1)
		return
	}
	to := end(q.off, q.size)
	w.placed++
	x.first, x.last = min(x.first, q.off), max(x.last, to)
	if q.off%pageSize != 0 {
		w.offPage++
	}
	if q.off%x.a.options.StripeSize != 0 {
		w.offStripe++
	}
	if x.stripes != nil && !read && q.size > 0 {
		x.stripes.add(rank, q.off, to)
	}
	b := &w.block
	if b.begun {
		w.links++
		switch {
		case q.off == b.last:
			w.consecutive++
		case q.off > b.last:
			w.forward++
			x.holeSum += float64(q.off - b.last)
			x.holes.add(q.off-b.last, 1)
		}
	}
	if !b.begun || q.off != b.last {
		x.align[0].add(q.off, q.size, x.a.options.StripeSize)
		x.align[1].add(q.off, q.size, pageSize)
	}
	b.last, b.begun = to, true
	x.class.pass(b, q.off, opens, &w.tally)
	b.bytes, b.took = iotrace.Sum(b.bytes, q.size), b.took+float64(q.took)
	if b.add(q.off, to) {
		x.judge(w)
	}
	x.sequence.Add(!read, q.off, q.size)
}

// judge classifies the block of a direction, and empties it.
func (x *activity) judge(w *directed) {
	b := &w.block
	if n, v := x.class.judge(b, &w.tally); v.Detail == pattern.Random {
		w.Random += n
		w.RandomBytes = iotrace.Sum(w.RandomBytes, b.bytes)
		w.RandomTime += b.took
	}
	b.bytes, b.took = 0, 0
}

// lossy reports whether the common sizes are not exact.
func (x *activity) lossy() bool { return x.directions[0].sizes.lossy || x.directions[1].sizes.lossy }

// recount counts the common sizes again, exactly: the candidates of both directions are
// known now.
func (x *activity) recount(all []stream) {
	var counts [2]map[int64]int64
	for d := range x.directions {
		x.directions[d].sizes.flush()
		counts[d] = x.directions[d].sizes.counts
	}
	candidates := maps.Clone(counts[0])
	maps.Copy(candidates, counts[1])
	for d := range counts {
		for size := range candidates {
			counts[d][size] = 0
		}
	}
	for i := range all {
		for j := range all[i].requests {
			q := &all[i].requests[j]
			of := counts[direction(q.read())]
			if n, ok := of[q.size]; ok {
				of[q.size] = n + 1
			}
		}
	}
	for d := range counts {
		for size, n := range x.directions[d].recorded {
			if _, ok := counts[d][size]; ok {
				counts[d][size] += n
			}
		}
		maps.DeleteFunc(counts[d], func(_, n int64) bool { return n == 0 })
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
	x.offMemory = iotrace.Sum(x.offMemory, o.offMemory)
	x.shared, x.idle, x.touch = max(x.shared, o.shared), max(x.idle, o.idle), max(x.touch, o.touch)
	for d := range x.directions {
		x.directions[d].merge(&o.directions[d])
	}
	x.first, x.last = min(x.first, o.first), max(x.last, o.last)
	x.holeSum += o.holeSum
	x.holes.merge(o.holes)
	x.sharedStripes = max(x.sharedStripes, o.sharedStripes)
	for i := range x.align {
		x.align[i].merge(&o.align[i])
	}
	x.modify.merge(&o.modify)
	for k := range x.redundant {
		x.redundant[k].merge(&o.redundant[k])
	}
	if x.sampled == 0 || o.sampled > 0 && o.sampled < x.sampled {
		x.sampled = o.sampled
	}
}

// report fills in everything but the bursts and the job's access mode.
func (x *activity) report() Activity {
	writes, reads := &x.directions[0], &x.directions[1]
	n, placed := writes.Requests+reads.Requests, writes.placed+reads.placed
	r := Activity{Access: Independent,
		Totals:    Totals{Writes: writes.Requests, Reads: reads.Requests, BytesWritten: writes.Bytes, BytesRead: reads.Bytes},
		Histogram: bins(&writes.bins, &reads.bins), SharedStripes: x.sharedStripes, Bursts: []Burst{},
		Writing: writes.report(x.a.trace), Reading: reads.report(x.a.trace), placed: placed}
	r.Spatial, r.Detail = overall(&[2]pattern.Counts{writes.tally.Counts, reads.tally.Counts}, &[2]int64{writes.Bytes, reads.Bytes})
	r.WriteSpatial, r.WriteDetail = writes.tally.pattern()
	r.ReadSpatial, r.ReadDetail = reads.tally.pattern()
	x.work.report(&r)
	x.reportTraffic(&r)
	by, more := x.ranks, x.shared
	if len(by) == 0 && more == 0 {
		by, more = x.idlers, x.idle
	}
	if max(len(by), more) > 1 {
		r.Access = Shared
	}
	for rank := range by {
		if isRank(x.a.trace, int(rank)) {
			r.Ranks++
		}
	}
	r.Ranks = max(r.Ranks, more)
	for rank := range x.ranks {
		if isRank(x.a.trace, int(rank)) {
			r.touchers++
		}
	}
	for rank := range x.idlers {
		if isRank(x.a.trace, int(rank)) && !x.ranks[rank] {
			r.touchers++
		}
	}
	r.touchers = max(r.touchers, r.Ranks, x.touch)
	common, bytes := x.common(), float64(writes.Bytes)+float64(reads.Bytes)
	r.CommonSizes = sizeCounts(common)
	r.Sizes = Sizes{Kind: kind(common, n, bytes), Max: max(writes.Max, reads.Max), Mean: ratio(bytes, float64(n)),
		Small: writes.Small + reads.Small, Large: writes.Large + reads.Large}
	r.Sizes.Medium = n - r.Sizes.Small - r.Sizes.Large
	if n > 0 {
		r.Sizes.Min = min(writes.Min, reads.Min)
	}
	r.Offsets = x.offsets()
	return r
}

// common returns the commonest sizes of writes and reads together.
func (x *activity) common() []counted {
	if x.both == nil { // a new one for each of many files would take much memory
		x.both = newCounter(2 * x.directions[0].sizes.cap) // lossless
	}
	both := x.both
	both.reset()
	both.merge(x.directions[0].sizes)
	both.merge(x.directions[1].sizes)
	return both.most(commonSizes)
}

func (x *activity) offsets() Offsets {
	w, r := &x.directions[0], &x.directions[1]
	links, placed := w.links+r.links, w.placed+r.placed
	consecutive, forward := w.consecutive+r.consecutive, w.forward+r.forward
	var steps tally
	steps.counters()
	steps.merge(&w.tally)
	steps.merge(&r.tally)
	o := Offsets{End: x.last, Consecutive: share(consecutive, links), Forward: share(forward, links),
		Backward: share(links-consecutive-forward, links),
		Hole:     x.holes.top().value, HoleMean: ratio(x.holeSum, float64(forward)),
		Stride: steps.strides.top().value, Outer: steps.outers.top().value, Inner: steps.inners.top().value,
		UnalignedPage: share(w.offPage+r.offPage, placed), UnalignedStripe: share(w.offStripe+r.offStripe, placed),
		UnalignedMemory: share(x.offMemory, placed)}
	if placed > 0 {
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
			b.Ranks = q.ranks
			b.Spatial, b.Detail = overall(&[2]pattern.Counts{q.tallies[0].Counts, q.tallies[1].Counts}, &list[i].bytes)
			b.Sizes = kind([]counted{{q.size, q.equal}}, b.Count, float64(b.Bytes))
		} else {
			b.Ranks, b.Spatial, b.Detail, b.Sizes = whole.Ranks, whole.Spatial, whole.Detail, whole.Sizes.Kind
		}
		out = append(out, b)
	}
	return out, x.work.bursts.total
}
