package analyze

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"ckpt/iotrace"
)

// A readRun is a part of a file that a process has read last, and not written since, by
// requests that follow each other in the stream and in the file.
type readRun struct {
	from, to    int64
	first, last int // requests
}

// maxReadRuns is how many runs are remembered of a stream.
const maxReadRuns = 8

// A rewriteFinder finds reads whose bytes are soon written by the same process.
type rewriteFinder struct {
	runs    []readRun // without common bytes, the last one at the end
	counted []uint64  // bits of the reads
}

// find adds the findings about a stream to those about its file.
func (f *rewriteFinder) find(x *activity, s *stream) {
	f.runs = f.runs[:0]
	f.counted = slices.Grow(f.counted[:0], (len(s.requests)+63)/64)[:(len(s.requests)+63)/64]
	clear(f.counted)
	for i := range s.requests {
		q := &s.requests[i]
		if q.off < 0 || q.size == 0 {
			continue
		}
		to := end(q.off, q.size)
		if !q.read() {
			f.write(x, s, q, to)
			continue
		}
		f.forget(q.off, to)
		if n := len(f.runs); n > 0 && i > 0 && f.runs[n-1].last == i-1 && f.runs[n-1].to == q.off && end(s.requests[i-1].off, s.requests[i-1].size) == q.off {
			f.runs[n-1].to, f.runs[n-1].last = to, i
			continue
		}
		f.runs = append(f.runs, readRun{q.off, to, i, i})
		f.limit()
	}
}

// write counts the bytes of a write that were read, and the reads.
func (f *rewriteFinder) write(x *activity, s *stream, q *request, to int64) {
	m := &x.modify
	var bytes int64
	events := x.a.trace.Events
	start := events[q.event()].Start
	for k := range f.runs {
		run := &f.runs[k]
		low, high := max(run.from, q.off), min(run.to, to)
		if low >= high {
			continue
		}
		of := s.requests[run.first : run.last+1]
		for i := sort.Search(len(of), func(i int) bool { return end(of[i].off, of[i].size) > low }); i < len(of) && of[i].off < high; i++ {
			r := &of[i]
			n := min(end(r.off, r.size), high) - max(r.off, low)
			if n <= 0 || after(events[r.event()].End, start, int64(x.a.options.BurstGap)) {
				continue
			}
			bytes += n
			m.ReadTime += float64(r.took) * (float64(n) / float64(r.size))
			if at := run.first + i; f.counted[at/64]>>(at%64)&1 == 0 {
				f.counted[at/64] |= 1 << (at % 64)
				m.Reads++
			}
		}
	}
	if bytes > 0 {
		m.Writes++
		m.BytesRead, m.BytesWritten = iotrace.Sum(m.BytesRead, bytes), iotrace.Sum(m.BytesWritten, bytes)
		m.WriteTime += float64(q.took) * (float64(bytes) / float64(q.size))
	}
	f.forget(q.off, to)
}

// forget removes a range from the runs.
func (f *rewriteFinder) forget(from, to int64) {
	for k := 0; k < len(f.runs); k++ {
		switch r := &f.runs[k]; {
		case r.to <= from || to <= r.from:
		case r.from < from && to < r.to:
			rest := *r
			r.to, rest.from = from, to
			f.runs = slices.Insert(f.runs, k+1, rest)
			k++
		case r.from < from:
			r.to = from
		case to < r.to:
			r.from = to
		default:
			f.runs = slices.Delete(f.runs, k, k+1)
			k--
		}
	}
	f.limit()
}

// limit drops the oldest runs.
func (f *rewriteFinder) limit() {
	if n := len(f.runs) - maxReadRuns; n > 0 {
		f.runs = slices.Delete(f.runs, 0, n)
	}
}

func (m *ReadModifyWrite) merge(o *ReadModifyWrite) {
	m.Writes += o.Writes
	m.Reads += o.Reads
	m.BytesWritten, m.BytesRead = iotrace.Sum(m.BytesWritten, o.BytesWritten), iotrace.Sum(m.BytesRead, o.BytesRead)
	m.WriteTime += o.WriteTime
	m.ReadTime += o.ReadTime
}

// The memory of DXT for requests may be full before the job ends, while the counters go
// on. Requests beyond the events of a file and rank count as a record of their own.

// countBeyond adds the requests of a record that no event shows, if events show others
// of the same interface.
func (x *activity) countBeyond(c *iotrace.Counters, of []stream) {
	if x.a.records.shown[c.File]&(1<<c.Module) == 0 || c.Module == iotrace.MPIIO && x.a.posix[c.File] {
		return
	}
	rest, ok := beyond(x.a.trace, c, ofRank(of, c.Rank))
	if !ok {
		return
	}
	first := x.first
	x.countData(&rest, 0, c.Rank)
	x.first = first // events know where requests begin
	x.a.untraced(&rest)
	if c.Rank >= 0 {
		x.a.countRanks(&rest, c.Rank)
		return
	}
	for d, h := range halves(&rest) {
		if w := &x.directions[d]; len(w.processes) == 0 {
			w.shared = max(w.shared, int(min(int64(len(x.ranks)), h.requests)))
		}
	}
	// Ranks that have events have the rest in equal parts.
	n := int64(len(x.ranks))
	for rank := range x.ranks {
		w := &x.a.work[rank]
		w.begun, w.time = true, w.time+(rest.ReadTime+rest.WriteTime).Seconds()/float64(n)
		w.bytes = iotrace.Sum(w.bytes, iotrace.Sum(rest.BytesRead, rest.BytesWritten)/n)
		w.requests = iotrace.Sum(w.requests, (rest.Reads+rest.Writes)/n)
	}
}

// ofRank returns the streams of a rank, or all of them.
func ofRank(of []stream, rank int32) []stream {
	if rank < 0 {
		return of
	}
	if i, ok := slices.BinarySearchFunc(of, rank, func(s stream, rank int32) int { return cmp.Compare(s.rank, rank) }); ok {
		return of[i : i+1]
	}
	return nil
}

// beyond takes the events of some streams off a record. It takes the others to be in the
// same order, and as well aligned.
func beyond(tr *iotrace.Trace, c *iotrace.Counters, of []stream) (rest iotrace.Counters, ok bool) {
	n := int64(0)
	for i := range of {
		n += int64(len(of[i].requests))
	}
	if n >= iotrace.Sum(known(c.Reads), known(c.Writes)) {
		return rest, false
	}
	rest = *c
	rest.MetaTime, rest.Slowest, rest.Fastest = 0, iotrace.RankWork{Rank: iotrace.None}, iotrace.RankWork{Rank: iotrace.None}
	var seen [2]half
	var sizes [2][10]int64
	var took [2]time.Duration
	for i := range of {
		for j := range of[i].requests {
			q := &of[i].requests[j]
			d := direction(q.read())
			seen[d].requests++
			seen[d].bytes = iotrace.Sum(seen[d].bytes, q.size)
			sizes[d][binOf(q.size)]++
			e := &tr.Events[q.event()]
			took[d] += time.Duration(max(0, e.End-e.Start))
			for k := range rest.Common {
				if rest.Common[k].Size == q.size {
					rest.Common[k].Count--
				}
			}
		}
	}
	for d, to := range [2]struct {
		requests, bytes, consecutive, sequential *int64
		sizes                                    *[10]int64
		time                                     *time.Duration
	}{{&rest.Writes, &rest.BytesWritten, &rest.ConsecutiveWrites, &rest.SequentialWrites, &rest.WriteSizes, &rest.WriteTime},
		{&rest.Reads, &rest.BytesRead, &rest.ConsecutiveReads, &rest.SequentialReads, &rest.ReadSizes, &rest.ReadTime}} {
		all := known(*to.requests)
		left := max(0, all-seen[d].requests)
		*to.requests, *to.bytes, *to.time = left, max(0, *to.bytes-seen[d].bytes), max(0, *to.time-took[d])
		if left == 0 {
			*to.bytes, *to.time = 0, 0
		}
		for i := range to.sizes {
			to.sizes[i] = max(0, to.sizes[i]-sizes[d][i])
		}
		for _, n := range []*int64{to.consecutive, to.sequential} {
			if *n > 0 {
				*n = part(*n, left, all-left)
			}
		}
		ok = ok || left > 0
	}
	left := rest.Reads + rest.Writes
	for i := range rest.Strides {
		rest.Strides[i].Count = part(known(rest.Strides[i].Count), left, n)
	}
	rest.Unaligned, rest.UnalignedMemory = part(known(c.Unaligned), left, n), part(known(c.UnalignedMemory), left, n)
	return rest, ok
}

// untraced notes requests for which DXT had no memory. The job reads or writes longer
// than events tell: in proportion to the time of such requests.
func (a *analysis) untraced(c *iotrace.Counters) {
	for _, h := range halves(c) {
		a.untracedTime += h.time
	}
}

// busyTime returns the time in which some process reads or writes.
func (a *analysis) busyTime(wall float64) float64 {
	return max(a.busy.time, min(wall, a.busy.time*(1+ratio(a.untracedTime, a.tracedTime))))
}
