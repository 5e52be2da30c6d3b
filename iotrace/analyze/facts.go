package analyze

import (
	"slices"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

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
