package analyze

import (
	"cmp"
	"math"
	"slices"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// Counters add up what a rank, or all ranks together, did to a file. A trace may have
// them instead of events, or beside them: DXT records reads and writes through POSIX
// and MPI-IO only. So counters are used for what no event shows, file by file:
//
//   - Reads and writes of an interface count if the file has no events of them, and
//     the rest beyond the events if it has (see countBeyond). MPI-IO counts only
//     if nothing is known of POSIX on that file.
//   - Other operations count if the file has no events of other operations.

// records are the counters of a trace that name a file, sorted by file.
type records struct {
	list  []*iotrace.Counters
	ranks int // of the job
	// shown tells by file what events show: a bit for reads and writes by module, and
	// one for other operations.
	shown []uint8
	posix []bool          // files with counters of POSIX
	index map[int64]int32 // of a rank, by its number
	only  bool            // the trace has no events
}

const shownOther = 1 << moduleCount

// prepareRecords sorts the counters, and finds out what they add to the events.
func (a *analysis) prepareRecords() {
	tr, r := a.trace, &a.records
	if len(tr.Counters) == 0 {
		return
	}
	a.layered, r.only = true, len(tr.Events) == 0
	r.shown, r.posix = make([]uint8, len(a.files)), make([]bool, len(a.files))
	for i := range tr.Events {
		e := &tr.Events[i]
		switch file := fileOf(tr, e); {
		case file == len(a.files) || e.Op.Step():
		case !e.Op.Data():
			r.shown[file] |= shownOther
		case int(e.Module) < moduleCount:
			r.shown[file] |= 1 << e.Module
		}
	}
	for i := range tr.Counters {
		c := &tr.Counters[i]
		if uint(c.File) >= uint(len(a.files)) || int(c.Module) >= moduleCount {
			continue
		}
		r.list = append(r.list, c)
		if c.Module == iotrace.POSIX {
			r.posix[c.File] = true
			if known(c.Reads)+known(c.Writes) > 0 {
				a.posix[c.File] = true
			}
		}
	}
	slices.SortStableFunc(r.list, func(x, y *iotrace.Counters) int { return cmp.Compare(x.File, y.File) })
	r.ranks, _ = members(tr)
	r.index = make(map[int64]int32, len(tr.Ranks))
	for i := range tr.Ranks {
		if isRank(tr, i) {
			r.index[int64(tr.Ranks[i].Rank)] = int32(i)
		}
	}
}

// nextFile takes the streams and the records of the next file from those that are left.
func nextFile(streams *[]stream, counted *[]*iotrace.Counters) (of []stream, records []*iotrace.Counters, file int32) {
	file = math.MaxInt32
	if len(*streams) > 0 {
		file = (*streams)[0].file
	}
	if len(*counted) > 0 {
		file = min(file, (*counted)[0].File)
	}
	n := 0
	for n < len(*streams) && (*streams)[n].file == file {
		n++
	}
	of, *streams = (*streams)[:n], (*streams)[n:]
	n = 0
	for n < len(*counted) && (*counted)[n].File == file {
		n++
	}
	records, *counted = (*counted)[:n], (*counted)[n:]
	return of, records, file
}

// extend extends the time of all operations, and the time of reads and writes.
func (r *records) extend(from, to, dataFrom, dataTo int64) (int64, int64, int64, int64) {
	for _, c := range r.list {
		if first, last, ok := recordSpan(c); ok {
			from, to = min(from, first), max(to, last)
		}
		for _, h := range halves(c) {
			if r.only && h.from >= 0 && h.to >= h.from {
				dataFrom, dataTo = min(dataFrom, h.from), max(dataTo, h.to)
			}
		}
	}
	return from, to, dataFrom, dataTo
}

// adds reports whether the reads and writes of a record count, and whether its other
// operations do.
func (a *analysis) adds(c *iotrace.Counters) (data, other bool) {
	r := &a.records
	shown := r.shown[c.File]
	data, other = shown&(1<<c.Module) == 0, shown&shownOther == 0
	if c.Module == iotrace.MPIIO {
		data, other = data && !a.posix[c.File], other && !r.posix[c.File]
	}
	return data, other
}

// span returns the time from the first operation of a record to the end of its last.
func recordSpan(c *iotrace.Counters) (from, to int64, ok bool) {
	from, to = math.MaxInt64, math.MinInt64
	for _, at := range [...]int64{c.FirstOpen, c.FirstRead, c.FirstWrite, c.FirstClose, c.LastOpen, c.LastReadEnd, c.LastWriteEnd, c.LastClose} {
		if at >= 0 {
			from, to = min(from, at), max(to, at)
		}
	}
	return from, to, from <= to
}

// A half is the writes or the reads of a record.
type half struct {
	requests, bytes         int64
	last                    int64 // highest offset
	consecutive, sequential int64
	sizes                   *[10]int64
	time                    float64
	from, to                int64 // None if unknown
}

// mostRequests bounds what a record counts, so that sums over millions of them do not
// overflow.
const mostRequests = 1 << 40

// known returns a number of requests, 0 if it is unknown.
func known(n int64) int64 { return max(0, min(n, mostRequests)) }

// halves returns the writes and the reads of a record. Unknown numbers count as 0.
func halves(c *iotrace.Counters) [2]half {
	return [2]half{
		{known(c.Writes), max(c.BytesWritten, 0), c.LastWritten, max(c.ConsecutiveWrites, 0), max(c.SequentialWrites, 0), &c.WriteSizes,
			max(c.WriteTime, 0).Seconds(), c.FirstWrite, c.LastWriteEnd},
		{known(c.Reads), max(c.BytesRead, 0), c.LastRead, max(c.ConsecutiveReads, 0), max(c.SequentialReads, 0), &c.ReadSizes,
			max(c.ReadTime, 0).Seconds(), c.FirstRead, c.LastReadEnd}}
}

// movers returns how many ranks read or write, with the only one if that is known.
//
// A record of all ranks does not count them. There are no more than requests. If the
// slowest moves all bytes, it is the only one. If the fastest moves no bytes, not all ranks do:
// of n ranks of which k move equally much, and the others nothing, the bytes have the
// variance mean² · (n/k - 1). Otherwise k is a little less than their number.
func (r *records) movers(c *iotrace.Counters) (n int, only int32, estimated bool) {
	requests := known(c.Reads) + known(c.Writes)
	bytes := float64(max(c.BytesRead, 0)) + float64(max(c.BytesWritten, 0))
	switch {
	case requests == 0:
		return 0, iotrace.None, false
	case c.Rank >= 0:
		return 1, c.Rank, false
	}
	ranks := max(r.ranks, 1)
	if bytes > 0 && c.Slowest.Rank >= 0 && float64(c.Slowest.Bytes) >= bytes {
		if i, ok := r.index[c.Slowest.Rank]; ok {
			return 1, i, false
		}
		return 1, iotrace.None, false
	}
	if mean := bytes / float64(ranks); mean > 0 && c.Fastest.Rank >= 0 && c.Fastest.Bytes == 0 && c.VarianceBytes > 0 {
		k := math.Round(float64(ranks) / (1 + c.VarianceBytes/mean/mean))
		n, estimated = max(1, min(int(k), ranks-1)), true
	} else {
		n = ranks
	}
	if requests < int64(n) {
		return int(requests), iotrace.None, true
	}
	return n, iotrace.None, estimated
}

// count adds the records of the file, which has those streams.
func (x *activity) count(all []*iotrace.Counters, of []stream) {
	for _, c := range all {
		data, other := x.a.adds(c)
		n, only, _ := x.a.records.movers(c)
		if from, to, ok := recordSpan(c); ok {
			x.work.during(from, to)
		}
		switch {
		case !data:
			x.countBeyond(c, of)
		case n > 0:
			x.countData(c, n, only)
			x.a.countRanks(c, only)
			if c.Module != iotrace.STDIO { // which DXT does not record
				x.a.untraced(c)
			}
		}
		if other {
			x.work.countOther(c)
			x.a.countOther(c)
		}
		switch {
		case c.Rank < 0: // there is such a record if all ranks open the file
			x.touch = max(x.touch, x.a.records.ranks)
			if n == 0 {
				x.idle = x.a.records.ranks
			}
		case n == 0 || !data:
			x.idlers[c.Rank] = true
		}
	}
}

// countData adds the reads and writes of a record of so many ranks.
func (x *activity) countData(c *iotrace.Counters, ranks int, only int32) {
	both := halves(c)
	common := commonOf(c, &both)
	ofWrites := part(known(c.Unaligned), both[0].requests, both[1].requests)
	unaligned := [2]int64{ofWrites, known(c.Unaligned) - ofWrites}
	if only >= 0 {
		x.ranks[only] = true
	} else {
		x.shared = max(x.shared, ranks)
	}
	if c.Module == iotrace.POSIX {
		x.offMemory = iotrace.Sum(x.offMemory, min(known(c.UnalignedMemory), both[0].requests+both[1].requests))
		x.countAlignment(c, &both)
	}
	for d := range both {
		h := &both[d]
		if h.requests == 0 {
			continue
		}
		w := &x.directions[d]
		w.Requests, w.Bytes = iotrace.Sum(w.Requests, h.requests), iotrace.Sum(w.Bytes, h.bytes)
		if only >= 0 {
			w.processes[only] = true
		} else {
			w.shared = max(w.shared, int(min(int64(ranks), h.requests)))
		}
		small := w.countSizes(h, common[d], x.a.options.Thresholds)
		x.work.time[d] += h.time
		x.work.smallTime[d] += small * h.time
		o := orderOf(c, h, ranks)
		w.links, w.consecutive, w.forward = iotrace.Sum(w.links, o.links), iotrace.Sum(w.consecutive, o.consecutive), iotrace.Sum(w.forward, o.forward)
		if o.known {
			w.tally.add(o.Verdict, h.requests)
		}
		if o.Verdict.Detail == pattern.Random {
			w.Random, w.RandomBytes = iotrace.Sum(w.Random, h.requests), iotrace.Sum(w.RandomBytes, h.bytes)
			w.RandomTime += h.time
		}
		if c.Module == iotrace.POSIX {
			w.placed = iotrace.Sum(w.placed, h.requests)
			x.first = 0
			// Requests off a page are off a stripe, too.
			w.offStripe = iotrace.Sum(w.offStripe, min(unaligned[d], h.requests))
			if c.Alignment <= pageSize {
				w.offPage = iotrace.Sum(w.offPage, min(unaligned[d], h.requests))
			}
		}
		if h.last >= 0 {
			x.last = max(x.last, iotrace.Sum(h.last, 1))
		}
		x.a.countRequests(d, h)
	}
	for _, s := range c.Strides {
		if s.Size > 0 && s.Count > 0 {
			x.holes.add(s.Size, known(s.Count))
			x.holeSum += float64(s.Size) * float64(s.Count)
		}
	}
}

// countAlignment estimates what requests that begin within a stripe, or a page, cost.
// Those that continue the one before may be among the counted, so they are taken off;
// a small request touches one unit more than it needs in proportion to its size.
func (x *activity) countAlignment(c *iotrace.Counters, both *[2]half) {
	unit := c.Alignment
	if unit <= 0 || unit > maxAlignment {
		return
	}
	requests := both[0].requests + both[1].requests
	starts := requests - min(requests, both[0].consecutive+both[1].consecutive)
	off := max(0, min(known(c.Unaligned)-(requests-starts), starts))
	size := share(iotrace.Sum(both[0].bytes, both[1].bytes), requests)
	least := math.Ceil(size/float64(unit)) * float64(starts)
	if starts == 0 || !(least < float64(mostRequests)) {
		return
	}
	a := alignment{starts: starts, misaligned: off, least: max(starts, int64(least))}
	a.touched = iotrace.Sum(a.least, int64(float64(off)*min(1, size/float64(unit))))
	x.align[direction(unit <= pageSize)].merge(&a)
}

// maxAlignment is above all blocks and stripes that a file system reports.
const maxAlignment = 1 << 30

// part returns the share of n that belongs to a out of a+b.
func part(n, a, b int64) int64 {
	if b <= 0 {
		return n
	}
	return max(0, min(n, int64(math.Round(float64(n)*ratio(float64(a), float64(a)+float64(b))))))
}

// countRequests adds the writes or reads of a record to the operations of the job.
func (a *analysis) countRequests(d int, h *half) {
	o := &a.operations[iotrace.Write]
	op := iotrace.Write
	if d == direction(true) {
		op = iotrace.Read
		o = &a.operations[op]
	}
	o.Count, o.Bytes, o.Time = iotrace.Sum(o.Count, h.requests), iotrace.Sum(o.Bytes, h.bytes), o.Time+h.time
	if a.records.only && h.from >= 0 && h.to >= h.from {
		a.timeline.add(op, h.from, h.to, h.bytes)
	}
}

// countOther adds the other operations of a record to the job.
func (a *analysis) countOther(c *iotrace.Counters) {
	for _, o := range [...]struct {
		op iotrace.Op
		n  int64
	}{{iotrace.Open, c.Opens}, {iotrace.Sync, c.Syncs}, {iotrace.Seek, c.Seeks}, {iotrace.Stat, c.Stats}, {iotrace.Mmap, c.Maps}} {
		a.operations[o.op].Count = iotrace.Sum(a.operations[o.op].Count, max(o.n, 0))
	}
}

// during extends the time of the file.
func (f *fileWork) during(from, to int64) {
	if !f.begun {
		f.start, f.end, f.begun = from, to, true
	}
	f.start, f.end = min(f.start, from), max(f.end, to)
}

// countOther adds the operations of a record that move no bytes. Darshan
// counts the time of syncs as time of writes.
func (f *fileWork) countOther(c *iotrace.Counters) {
	f.metadata = iotrace.Sum(f.metadata, iotrace.Sum(max(c.Opens, 0), iotrace.Sum(max(c.Stats, 0), max(c.Maps, 0))))
	f.opens = iotrace.Sum(f.opens, max(c.Opens, 0))
	f.seeks = iotrace.Sum(f.seeks, max(c.Seeks, 0))
	f.syncs = iotrace.Sum(f.syncs, max(c.Syncs, 0))
	f.stats = iotrace.Sum(f.stats, max(c.Stats, 0))
	f.metaTime += max(c.MetaTime, 0).Seconds()
}

// countRanks adds a record to the work of its ranks. Of a record of all ranks, the
// slowest and the fastest are known; the others get equal parts of the rest.
func (a *analysis) countRanks(c *iotrace.Counters, only int32) {
	bytes := iotrace.Sum(max(c.BytesRead, 0), max(c.BytesWritten, 0))
	took := (max(c.ReadTime, 0) + max(c.WriteTime, 0) + max(c.MetaTime, 0)).Seconds()
	give := func(rank int32, requests, bytes int64, time float64) {
		if uint(rank) < uint(len(a.trace.Ranks)) {
			w := &a.work[rank]
			w.begun, w.time, w.bytes, w.requests = true, w.time+time, iotrace.Sum(w.bytes, bytes), iotrace.Sum(w.requests, requests)
		}
	}
	if only >= 0 {
		give(only, iotrace.Sum(known(c.Reads), known(c.Writes)), bytes, took)
		return
	}
	others := a.records.ranks
	seen := map[int32]bool{}
	for _, one := range []*iotrace.RankWork{&c.Slowest, &c.Fastest} {
		i, ok := a.records.index[one.Rank]
		if !ok || seen[i] {
			continue
		}
		seen[i] = true
		b, t := max(0, min(one.Bytes, bytes)), max(0, min(one.Time.Seconds(), took))
		bytes, took, others = bytes-b, took-t, others-1
		if b > 0 {
			give(i, 0, b, t)
		}
	}
	if others <= 0 || bytes == 0 {
		return
	}
	for i := range a.trace.Ranks {
		if isRank(a.trace, i) && !seen[int32(i)] {
			give(int32(i), 0, bytes/int64(others), took/float64(others))
		}
	}
}

// finishCounted fills in what a trace without events cannot have measured.
func (a *analysis) finishCounted(r *Report) {
	r.Counted = true
	r.Concurrency, r.Period.Periodic = Concurrency{}, false
	r.Busy, a.phases = a.busyEstimate()
	a.load.active.time = r.Busy
}

// stripings returns the striping of the widest part of each file.
func stripings(tr *iotrace.Trace) map[int32]*Striping {
	all := map[int32]*Striping{}
	for _, s := range tr.Striping {
		if old := all[s.File]; old == nil || int(s.Count) > old.Count {
			all[s.File] = &Striping{Size: s.Size, Count: int(s.Count)}
		}
	}
	return all
}
