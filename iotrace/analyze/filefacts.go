package analyze

import (
	"math"
	"slices"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// mostlyForward is the share of requests behind a hole from which on reading over the holes
// may pay.
const mostlyForward = 0.5

func (a *analysis) fileFacts(r *File, of int) finding.File {
	c := &a.costs.files[of]
	x := finding.File{Name: r.Name, Ranks: r.Ranks, Writers: r.Writing.Ranks, Readers: r.Reading.Ranks, Touchers: r.touchers,
		SharedStripes: r.SharedStripes, OpenClose: work(c.openClose), Stats: work(c.stats), Others: work(c.others), Opens: c.opens, Fresh: c.fresh,
		Syncs: work(c.syncs), EagerSyncs: work(c.eager), Locks: work(c.locks), Storage: a.storage.of(int32(of), r.Name), Stripes: a.storage.stripes(int32(of))}
	for d := range 2 {
		var all, small sum
		for k, s := range c.class[d] {
			all.plus(s)
			if k < 2 {
				small.plus(s)
			}
		}
		x.Data[d] = finding.Class{Work: work(all), Medium: work(c.class[d][1]), Large: work(c.class[d][2]), Fit: c.fit[d]}
		x.Data[d].Wall = c.data[d].time
		x.Small[d] = work(small)
		x.Small[d].Wall = c.small[d].time
		if n := [2]*Direction{&r.Writing, &r.Reading}[d]; x.Data[d].Count == 0 && n.Requests > 0 {
			x.Data[d], x.Small[d] = countedWork(n)
		}
		x.Random[d] = randomShare(r, d)
	}
	if a.countedOther(of) {
		countedMetadata(&x, r, a.options.Thresholds.SyncBytes)
	}
	if len(a.records.list) > 0 && !a.records.only {
		syncTime(&x, r)
		goOn(&x, r)
	}
	for _, l := range r.Layers {
		if l.Layer == "STDIO" {
			x.STDIO = finding.Work{Count: iotrace.Sum(l.Writes, l.Reads), Bytes: iotrace.Sum(l.BytesWritten, l.BytesRead), Time: l.WriteTime + l.ReadTime}
		}
	}
	if o := &r.Offsets; r.Writes == 0 && o.Forward > mostlyForward && r.ReadSpatial != pattern.RandomAccess {
		hole := o.HoleMean
		if o.Stride > 0 && o.Hole > 0 { // a jump elsewhere is no hole
			hole = float64(o.Hole)
		}
		x.Hole = o.Forward * hole
	}
	x.ReadModifyWrite = r.ReadModifyWrite.BytesRead
	x.Again = [2]int64{r.Redundant.Overwritten, iotrace.Sum(r.Redundant.BytesReread, r.Redundant.SharedBytes)}
	if m := r.MPIIO; m != nil && m.Calls != nil {
		x.Under, x.Asked = [2]int64{m.PosixWrites, m.PosixReads}, [2]int64{m.BytesWritten, m.BytesRead}
		for d := range 2 {
			x.Collective[d], x.Independent[d] = m.Calls.kinds(d)
		}
	}
	return x
}

// syncTime takes the time that counters have beyond the same number of writes for that
// of the syncs, which they add to it.
func syncTime(x *finding.File, r *File) {
	for _, l := range r.Layers {
		if l.Layer == moduleNames[iotrace.POSIX] && l.Writes == x.Data[0].Count && x.Syncs.Count > 0 && x.Syncs.Time == 0 {
			x.Syncs.Time = max(0, l.WriteTime-x.Data[0].Time)
			x.EagerSyncs.Time = x.Syncs.Time * share(x.EagerSyncs.Count, x.Syncs.Count)
		}
	}
}

// goOn takes the requests of a file from its counters, where these have more than the
// events: the memory for those was full. All are taken to be like those seen.
func goOn(x *finding.File, r *File) {
	for _, l := range r.Layers {
		if l.Layer != moduleNames[iotrace.POSIX] {
			continue
		}
		whole := [2]finding.Work{{Count: l.Writes, Bytes: l.BytesWritten, Time: l.WriteTime}, {Count: l.Reads, Bytes: l.BytesRead, Time: l.ReadTime}}
		for d := range 2 {
			seen := x.Data[d].Work
			if seen.Count == 0 || whole[d].Count <= seen.Count || whole[d].Bytes < seen.Bytes || whole[d].Time < seen.Time {
				continue
			}
			requests, bytes, time := share(whole[d].Count, seen.Count), share(whole[d].Bytes, seen.Bytes), ratio(whole[d].Time, seen.Time)
			for _, w := range []*finding.Work{&x.Data[d].Work, &x.Data[d].Medium, &x.Data[d].Large, &x.Small[d]} {
				w.Count, w.Bytes = times(w.Count, requests), times(w.Bytes, bytes)
				w.Time, w.Wall = w.Time*time, w.Wall*time
			}
		}
	}
}

// times multiplies a number, and saturates.
func times(n int64, factor float64) int64 {
	return int64(min(math.Round(float64(n)*factor), math.MaxInt64/2))
}

// countedOther reports whether the operations of a file that move no bytes come from
// counters: no event shows them. DXT has reads and writes only.
func (a *analysis) countedOther(of int) bool {
	return len(a.records.list) > 0 && a.records.shown[of]&shownOther == 0
}

// countedMetadata fills in the operations that move no bytes from counters. These have
// one time for all; each operation gets its part.
func countedMetadata(x *finding.File, r *File, syncBytes int64) {
	each := ratio(r.MetadataTime, float64(r.Metadata))
	x.Opens = r.Opens
	x.OpenClose = finding.Work{Count: r.Opens, Time: each * float64(r.Opens)}
	x.Stats = finding.Work{Count: r.stats, Time: each * float64(r.stats)}
	others := r.Metadata - r.Opens - r.stats
	x.Others = finding.Work{Count: others, Time: each * float64(others)}
	x.Syncs.Count = r.Syncs
	if r.Syncs > 0 && r.BytesWritten/r.Syncs < syncBytes {
		x.EagerSyncs = finding.Work{Count: max(0, r.Syncs-int64(r.Writing.Ranks)), Bytes: r.BytesWritten}
	}
}

func randomShare(f *File, d int) float64 {
	x := [2]*Direction{&f.Writing, &f.Reading}[d]
	return share(x.Random, x.Requests)
}

// largely reports whether requests to a file are as large as requests of an
// aggregator, in the direction that moves most.
func largely(x *finding.File) bool {
	d := direction(x.Data[1].Bytes > x.Data[0].Bytes)
	return share(x.Data[d].Bytes, x.Data[d].Count) > mediumBytes
}

// fewSmall is the share of small requests, or of their bytes, below which the bandwidth of
// the large ones is the least that all could have.
const fewSmall = 0.1

// countedWork returns the requests of counters. Ranks are taken to make theirs side
// by side.
func countedWork(n *Direction) (all finding.Class, small finding.Work) {
	ranks := float64(max(1, n.Ranks))
	all.Work = finding.Work{Count: n.Requests, Bytes: n.Bytes, Time: n.Time, Wall: n.Time / ranks}
	small = finding.Work{Count: n.Small, Bytes: n.SmallBytes, Time: n.SmallTime, Wall: n.SmallTime / ranks}
	switch {
	case share(n.Small, n.Requests) < fewSmall, float64(n.SmallBytes) < fewSmall*float64(n.Bytes):
		all.Large = all.Work // the small ones are few, or move few of the bytes
	case n.Mean > mediumBytes:
		all.Medium = all.Work
	}
	return all, small
}

// facts gathers what findings are made from. Files of the report are in the order of
// a.order.
func (a *analysis) facts(r *Report) *finding.Run {
	f := &finding.Run{Wall: r.Wall, Time: r.Wall, Ours: ours(r), Layout: layoutOf(r), Codec: a.options.Codec,
		Gathers: r.operation(iotrace.Gather).Count > 0, OneCheckpoint: a.load.checkpoint != 0,
		Ranks: r.Ranks, ActiveRanks: r.ActiveRanks, Nodes: r.Nodes, Busy: r.Busy, Bursts: a.phases,
		Concurrency: r.Concurrency.Mean}
	if t := a.trace.Runtime.Seconds(); t > 0 {
		f.Time = max(f.Time, t)
	}
	if f.Nodes == 0 && (r.Source == "strace" || r.Source == "eBPF") {
		f.Nodes = 1 // these record the machine that they run on
	}
	if r.Period.Periodic {
		f.Period = r.Period.Period
	}
	f.MPI, f.Library = parallel(a.trace)
	c := &a.costs
	synchronous, direct := warned(a.trace, iotrace.WarnSyncWrites), warned(a.trace, iotrace.WarnDirectIO)
	inRequests := a.inRequests()
	var counted [5]float64 // time of opens and closes, stats, others, syncs and eager ones
	for i, of := range a.order {
		x := a.fileFacts(&r.Files[i], of)
		exchangeFacts(&x, &r.Files[i], inRequests[int32(of)])
		x.Synchronous = x.Data[0].Count > 0 && 2*synchronous[int32(of)] >= x.Data[0].Count
		x.Direct = direct[int32(of)] > 0 && 2*direct[int32(of)] >= x.Data[0].Count+x.Data[1].Count
		f.Renames += c.files[of].renamed
		f.Files = append(f.Files, x)
		if a.countedOther(of) {
			for k, w := range [...]finding.Work{x.OpenClose, x.Stats, x.Others, x.Syncs, x.EagerSyncs} {
				counted[k] += w.Time
			}
		}
	}
	for i := range f.Files {
		x := &f.Files[i]
		for d := range 2 {
			f.Data[d].Work = plus(f.Data[d].Work, x.Data[d].Work)
			f.Data[d].Medium = plus(f.Data[d].Medium, x.Data[d].Medium)
			f.Data[d].Large = plus(f.Data[d].Large, x.Data[d].Large)
			f.Small[d] = plus(f.Small[d], x.Small[d])
		}
		f.OpenClose, f.Stats, f.Others = plus(f.OpenClose, x.OpenClose), plus(f.Stats, x.Stats), plus(f.Others, x.Others)
		f.Syncs, f.EagerSyncs = plus(f.Syncs, x.Syncs), plus(f.EagerSyncs, x.EagerSyncs)
		f.Locks = plus(f.Locks, x.Locks)
	}
	for d := range 2 {
		f.Data[d].Wall, f.Small[d].Wall = c.data[d].time, c.small[d].time
		for i, of := range a.order { // see goOn
			more := f.Files[i].Data[d].Wall - c.files[of].data[d].time
			f.Data[d].Wall = min(f.Data[d].Wall+max(0, more), f.Time)
		}
	}
	// Writes of the coordinator to files that are not known count here.
	f.Data[0].Wall = max(f.Data[0].Wall, c.write.time)
	f.OpenClose.Wall, f.Stats.Wall, f.Others.Wall = c.openClose.time, c.stats.time, c.others.time
	f.Metadata, f.Syncs.Wall, f.EagerSyncs.Wall = c.metadata.time, c.syncs.time, c.eager.time
	sideBySide(f, &counted)
	if a.records.only && r.Ranks > 0 {
		f.Counted = true
		// One file after the other, but no longer than anything is read or written.
		for i := range f.Files {
			for d := range 2 {
				f.Data[d].Wall = min(f.Data[d].Wall+f.Files[i].Data[d].Wall, r.Busy)
				f.Small[d].Wall = min(f.Small[d].Wall+f.Files[i].Small[d].Wall, r.Busy)
			}
		}
	}
	f.Locks.Wall, f.LockOnly = c.locks.time, max(0, c.lockOrMove.time-r.Busy)
	f.Encode = work(c.encodes)
	f.Encode.Wall = c.encode.time
	f.EncodeOnly = max(0, c.encodeOrWrite.time-c.write.time)
	f.Timed = c.encodes.ns > 0 || c.recorder > 0 || f.Data[0].Time+f.Data[1].Time+f.OpenClose.Time+f.Stats.Time+f.Others.Time+f.Syncs.Time+f.Locks.Time > 0
	f.Balance = a.balanceFacts(r, f)
	f.Misaligned = a.misalignedFacts(r, f)
	return f
}

// warned returns the numbers of operations of each file that warnings of a code are about.
func warned(t *iotrace.Trace, code string) map[int32]int64 {
	out := make(map[int32]int64)
	for _, w := range t.Warnings {
		if w.Code != code {
			continue
		}
		for _, f := range w.Files {
			out[f.File] = iotrace.Sum(out[f.File], f.Count)
		}
	}
	return out
}

// untimed counts the reads and writes whose durations are unknown.
func untimed(t *iotrace.Trace) (n int64) {
	for _, count := range warned(t, iotrace.WarnNoDurations) {
		n += count
	}
	return n
}

// sideBySide adds the wall time of operations that only counters have. The ranks do
// them side by side; processes of one rank that do, too, are no longer at it than the
// run takes.
func sideBySide(f *finding.Run, counted *[5]float64) {
	ranks := float64(max(f.Ranks, 1))
	for k, w := range [...]*float64{&f.OpenClose.Wall, &f.Stats.Wall, &f.Others.Wall, &f.Syncs.Wall, &f.EagerSyncs.Wall} {
		*w += counted[k] / ranks
		if k < 3 {
			f.Metadata += counted[k] / ranks
		}
	}
	if f.Metadata > f.Time && f.Time > 0 {
		for _, w := range [...]*float64{&f.OpenClose.Wall, &f.Stats.Wall, &f.Others.Wall} {
			*w *= f.Time / f.Metadata
		}
		f.Metadata = f.Time
	}
}

func work(s sum) finding.Work {
	return finding.Work{Count: s.count, Bytes: s.bytes, Time: float64(s.ns) / 1e9}
}

func plus(a, b finding.Work) finding.Work {
	return finding.Work{Count: a.Count + b.Count, Bytes: iotrace.Sum(a.Bytes, b.Bytes), Time: a.Time + b.Time}
}

// operation returns the count and time of an operation.
func (r *Report) operation(op iotrace.Op) Operation {
	for _, o := range r.Operations {
		if o.Op == op.String() {
			return o
		}
	}
	return Operation{}
}

func (a *analysis) balanceFacts(r *Report, f *finding.Run) finding.Balance {
	b := finding.Balance{Imbalance: r.Balance.Imbalance, Active: a.load.active.time, Slow: a.slowFacts(), Late: a.begins.facts(a.trace)}
	var bytes, most int64
	var n float64
	var each []int64
	for i := range a.work {
		w := &a.work[i]
		if !w.begun || !isRank(a.trace, i) {
			continue
		}
		n++
		b.Mean += w.time
		bytes = iotrace.Sum(bytes, w.bytes)
		each = append(each, w.bytes)
		if i < len(a.trace.Ranks) && w.bytes > most {
			most, b.LargestRank, b.LargestTime = w.bytes, a.trace.Ranks[i].Rank, w.time
		}
	}
	b.Mean, b.LargestShare = ratio(b.Mean, n), share(most, bytes)
	// Two-phase I/O: all ranks open a file, and a few move large requests for all; or
	// a few move nearly all bytes, beside small requests of all ranks.
	var gathered int64
	few := fewMove(each, bytes)
	for i := range f.Files {
		x := &f.Files[i]
		if x.Touchers > 1 && 2*x.Touchers >= r.Ranks && (x.Ranks < x.Touchers && largely(x) || few && x.Collective[0]+x.Collective[1] > 0) {
			gathered = iotrace.Sum(gathered, iotrace.Sum(x.Data[0].Bytes, x.Data[1].Bytes))
		}
	}
	b.Aggregated = f.Gathers || 2*float64(gathered) > float64(f.Data[0].Bytes)+float64(f.Data[1].Bytes)
	return b
}

// fewMove reports whether several ranks, but at most half, move nearly all of the bytes.
func fewMove(each []int64, bytes int64) bool {
	slices.Sort(each)
	var rest int64
	n := len(each)
	for ; n > 0 && float64(rest)+float64(each[len(each)-n]) <= fewSmall*float64(bytes); n-- {
		rest += each[len(each)-n]
	}
	return n > 1 && 2*n <= len(each)
}

func (a *analysis) misalignedFacts(r *Report, f *finding.Run) finding.Misaligned {
	local := len(f.Files) > 0 && !slices.ContainsFunc(f.Files, func(x finding.File) bool { return x.Storage != finding.Local })
	m := finding.Misaligned{Unit: a.options.StripeSize}
	x := &a.total.align[0]
	if local {
		x, m.Unit = &a.total.align[1], pageSize
	}
	if a.records.only {
		m.Unit = a.commonAlignment(local)
	}
	m.Count = min(x.misaligned, r.placed) // counters may contradict each other
	m.Share, m.Touched, m.Least = share(m.Count, r.placed), x.touched, x.least
	m.Time = f.Busy * share(x.starts, r.placed)
	return m
}

// commonAlignment returns the block or stripe against which most requests of counters
// were measured, a page of local storage.
func (a *analysis) commonAlignment(local bool) int64 {
	of := map[int64]int64{}
	var most int64
	for _, c := range a.records.list {
		if c.Module == iotrace.POSIX && c.Alignment > 0 && local == (c.Alignment <= pageSize) {
			of[c.Alignment] = iotrace.Sum(of[c.Alignment], known(c.Unaligned))
			if n := of[c.Alignment]; most == 0 || n > of[most] || n == of[most] && c.Alignment < most {
				most = c.Alignment
			}
		}
	}
	return most
}
