package analyze

import (
	"cmp"
	"slices"

	"ckpt/iotrace"
)

// The kinds of redundant requests.
const (
	rereading = iota
	sharing
	overwriting
	redundantKinds
)

// A redundancy collects one kind of redundant requests. Sums of a part of the file are
// estimates, and float64.
type redundancy struct {
	count, bytes         int64
	someCount, someBytes float64
	time                 float64
}

func (r *redundancy) merge(o *redundancy) {
	r.count += o.count
	r.bytes = iotrace.Sum(r.bytes, o.bytes)
	r.someCount += o.someCount
	r.someBytes += o.someBytes
	r.time += o.time
}

// report returns the sums, at most the sums of all requests.
func (r *redundancy) report(x *Direction) (count, bytes int64, time float64) {
	whole := func(exact int64, some float64, most int64) int64 {
		if some >= float64(most) {
			return most
		}
		return min(iotrace.Sum(exact, int64(some+0.5)), most)
	}
	return whole(r.count, r.someCount, x.Requests), whole(r.bytes, r.someBytes, x.Bytes), min(r.time, x.Time)
}

const (
	// fileSpans is how many parts of a file are kept. Beyond that half of its blocks are
	// left out.
	fileSpans = 1 << 14
	// spanBlocks is how many blocks a file is divided into for that, at most.
	spanBlocks = 1 << 14
	// spanWork is how many parts may be looked at per request on average, beside a
	// first million.
	spanWork = 16
)

// A redundantFinder finds redundant requests, file by file.
type redundantFinder struct {
	spans    spans
	readers  readers
	sampling sampling
	limit    int  // of spans
	apart    bool // the file is only written, or only read, and visited stream by stream
	work     int64
	queue    []queued
	emptied  []int32 // events to come that leave the file empty
	ranges   []span
	got      [redundantKinds]int64 // bytes of the present request
}

// queued is the next request of a stream.
type queued struct {
	event        int32
	stream, next int32
}

// find finds the redundant requests of a file, and adds them to x.
func (f *redundantFinder) find(x *activity, all []stream) {
	w, r := &x.directions[0], &x.directions[1]
	if w.placed+r.placed == 0 {
		return
	}
	x.sampled = 1
	f.emptied = renewals(x.work.emptied, all)
	f.apart = len(f.emptied) == 0 && (w.placed == 0 || r.placed == 0)
	if f.apart && f.disjoint(x, all) {
		return
	}
	f.spans.reset()
	f.readers.reset(len(all))
	f.sampling, f.work = sampling{}, 1<<20
	mean := (w.Bytes + r.Bytes) / (w.placed + r.placed) // of bytes with unknown offset, too, which does no harm
	if w.Bytes > 1<<62-r.Bytes {
		mean = 1 << 60
	}
	for f.sampling.shift = 12; f.sampling.shift < 62; f.sampling.shift++ {
		if b := int64(1) << f.sampling.shift; b/4 >= mean && b >= (x.last-x.first)/spanBlocks {
			break
		}
	}
	if f.apart {
		for i := range all {
			for j := range all[i].requests {
				f.request(x, &all[i].requests[j], i)
			}
		}
	} else {
		f.inOrder(x, all)
	}
	x.sampled = f.sampling.share()
	if f.spans.n == 0 && f.sampling.level > 0 {
		x.sampled = 0
	}
}

// disjoint reports whether no byte of a file that is only written, or only read, is in
// two requests: all streams go forward, each in a part of its own.
func (f *redundantFinder) disjoint(x *activity, all []stream) bool {
	for d := range x.directions {
		if w := &x.directions[d]; w.links > w.consecutive+w.forward {
			return false
		}
	}
	f.ranges = f.ranges[:0]
	// One that moves nothing is no link of the stream, wherever it lies.
	placed := func(q *request) bool { return q.off >= 0 && q.size > 0 }
	for i := range all {
		q := all[i].requests
		for len(q) > 0 && !placed(&q[0]) {
			q = q[1:]
		}
		for len(q) > 0 && !placed(&q[len(q)-1]) {
			q = q[:len(q)-1]
		}
		if len(q) > 0 {
			last := &q[len(q)-1]
			f.ranges = append(f.ranges, span{from: q[0].off, to: end(last.off, last.size)})
		}
	}
	slices.SortFunc(f.ranges, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	for i := 1; i < len(f.ranges); i++ {
		if f.ranges[i].from < f.ranges[i-1].to {
			return false
		}
	}
	return true
}

// renewals returns the events that leave a file empty, unless all come before its
// first request.
func renewals(emptied []int32, all []stream) []int32 {
	for i := range all {
		if n := len(emptied); n > 0 && len(all[i].requests) > 0 && all[i].requests[0].event() < emptied[n-1] {
			return emptied
		}
	}
	return nil
}

// inOrder visits the requests of all streams in the order of their events.
func (f *redundantFinder) inOrder(x *activity, all []stream) {
	q := f.queue[:0]
	for i := range all {
		if len(all[i].requests) > 0 {
			q = append(q, queued{event: all[i].requests[0].event(), stream: int32(i)})
		}
	}
	down := func(i int) {
		for {
			k := 2*i + 1
			if k >= len(q) {
				return
			}
			if k+1 < len(q) && q[k+1].event < q[k].event {
				k++
			}
			if q[i].event <= q[k].event {
				return
			}
			q[i], q[k] = q[k], q[i]
			i = k
		}
	}
	for i := len(q)/2 - 1; i >= 0; i-- {
		down(i)
	}
	for len(q) > 0 {
		top := &q[0]
		of := all[top.stream].requests
		f.request(x, &of[top.next], int(top.stream))
		if top.next++; int(top.next) < len(of) {
			top.event = of[top.next].event()
		} else {
			q[0] = q[len(q)-1]
			q = q[:len(q)-1]
		}
		down(0)
	}
	f.queue = q
}

// request counts what is redundant in a request of a stream.
func (f *redundantFinder) request(x *activity, q *request, stream int) {
	if q.off < 0 || q.size == 0 {
		return
	}
	for len(f.emptied) > 0 && f.emptied[0] < q.event() {
		f.emptied = f.emptied[1:]
		f.spans.reset() // nothing is in the file
	}
	from, to := q.off, end(q.off, q.size)
	if from == to {
		return // at the largest offset there is
	}
	f.got = [redundantKinds]int64{}
	f.work += spanWork
	if f.sampling.level == 0 {
		f.visit(from, to, q.read(), stream)
		for k, n := range f.got {
			if n > 0 {
				r := &x.redundant[k]
				r.count++
				r.bytes = iotrace.Sum(r.bytes, n)
				r.time += float64(q.took) * (float64(n) / float64(to-from))
			}
		}
	} else {
		f.sample(x, q, stream)
	}
	full := f.readers.full()
	if full {
		f.readers.keep(&f.spans)
	}
	for f.spans.n > 0 && (f.spans.n > f.limit || f.work < 0 || full && f.readers.crowded()) {
		f.thin()
		f.readers.keep(&f.spans)
	}
}

// sample does the same for the blocks that are kept, and multiplies.
func (f *redundantFinder) sample(x *activity, q *request, stream int) {
	from, to, read := q.off, end(q.off, q.size), q.read()
	var touched [redundantKinds]float64 // blocks
	blocks := f.sampling.cut(from, to, func(a, b int64) {
		before := f.got
		f.visit(a, b, read, stream)
		for k := range f.got {
			if f.got[k] > before[k] {
				touched[k]++
			}
		}
	})
	f.work -= blocks / 4
	times := 1 / f.sampling.share()
	for k, n := range f.got {
		if n > 0 {
			r := &x.redundant[k]
			r.someCount += times * touched[k] / float64(blocks)
			r.someBytes += times * float64(n)
			r.time += times * float64(q.took) * (float64(n) / float64(to-from))
		}
	}
}

// visit gives the bytes of a range their new state, and counts those that are redundant.
func (f *redundantFinder) visit(from, to int64, read bool, stream int) {
	s := &f.spans
	for from < to {
		f.work--
		p, i := s.find(from)
		x, ok := s.next(p, i)
		if !ok || x.from > from {
			upto := to
			if ok {
				upto = min(to, x.from)
			}
			s.insert(p, i, span{from, upto, f.after(0, read, stream)})
			from = upto
			continue
		}
		upto := min(to, x.to)
		n := upto - from
		switch {
		case !read && x.state == 0:
			f.got[overwriting] += n
		case !read || x.state == 0: // bytes that are needed
		case f.hasRead(x.state, stream):
			f.got[rereading] += n
		default:
			f.got[sharing] += n
		}
		s.change(p, i, from, upto, f.after(x.state, read, stream))
		from = upto
	}
}

// after returns the state after a request. In a file that is only read, stream by
// stream, the last reader is enough.
func (f *redundantFinder) after(state uint64, read bool, stream int) uint64 {
	switch {
	case !read:
		return 0
	case f.apart:
		return uint64(stream) + 1
	}
	return f.readers.add(state, stream)
}

func (f *redundantFinder) hasRead(state uint64, stream int) bool {
	if f.apart {
		return state == uint64(stream)+1
	}
	return f.readers.has(state, stream)
}

// thin leaves out half of the blocks.
func (f *redundantFinder) thin() {
	f.sampling.level++
	f.work = max(f.work, 1<<16)
	old := f.spans.all()
	s := &f.spans
	s.reset()
	for _, x := range old {
		f.sampling.cut(x.from, x.to, func(from, to int64) {
			p, i := s.find(from)
			s.insert(p, i, span{from, to, x.state})
		})
	}
}

// reportTraffic fills in what is read, modified and written, and what is redundant.
func (x *activity) reportTraffic(r *Activity) {
	r.ReadModifyWrite = x.modify
	m, d := &r.ReadModifyWrite, &r.Redundant
	m.WriteTime, m.ReadTime = min(m.WriteTime, r.WriteTime), min(m.ReadTime, r.ReadTime) // the time of a request is rounded
	d.Rereads, d.BytesReread, d.RereadTime = x.redundant[rereading].report(&r.Reading)
	d.SharedReads, d.SharedBytes, d.SharedTime = x.redundant[sharing].report(&r.Reading)
	d.Overwrites, d.Overwritten, d.OverwriteTime = x.redundant[overwriting].report(&r.Writing)
	d.Sampled = x.sampled
}
