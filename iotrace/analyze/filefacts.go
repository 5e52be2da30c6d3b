package analyze

import (
	"math"

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
