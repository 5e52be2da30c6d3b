package analyze

import (
	"cmp"
	"slices"
	"time"

	"ckpt/iotrace"
)

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
