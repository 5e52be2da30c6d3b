package analyze

import (
	"cmp"
	"slices"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// An order is the spatial pattern of the writes or reads of a record.
type order struct {
	pattern.Verdict
	known                       bool
	links, consecutive, forward int64
}

// orderOf finds the pattern of one direction of a record, of so many ranks. Darshan
// counts a request as sequential if it begins behind the last byte of the one before
// of its rank, and as consecutive if directly behind it; the first one of a rank may be
// sequential, too. Strides are the distances in between, of writes and reads.
//
// MPI-IO does not count that. STDIO counts calls that seek: a stream without any is
// contiguous.
func orderOf(c *iotrace.Counters, h *half, ranks int) order {
	n := h.requests
	streams := min(int64(max(ranks, 1)), n)
	switch c.Module {
	case iotrace.MPIIO:
		return order{}
	case iotrace.STDIO:
		if 4*max(c.Seeks, 0) <= n {
			return order{Verdict: pattern.Verdict{Detail: pattern.Contiguous}, known: true, links: n - streams, consecutive: n - streams}
		}
		return order{}
	}
	o := order{known: true, links: n - streams}
	if c.ConsecutiveReads < 0 && c.ConsecutiveWrites < 0 {
		return order{}
	}
	if o.links == 0 {
		o.Verdict = pattern.Verdict{Detail: pattern.Contiguous}
		return o
	}
	o.consecutive = min(h.consecutive, o.links)
	// Of several ranks, all but the one at offset 0 begin behind it.
	o.forward = max(0, min(h.sequential-(streams-1), o.links)-o.consecutive)
	o.Verdict = o.judge(c, h)
	return o
}

// judge classifies as the classifier of requests does, with what counters tell.
func (o *order) judge(c *iotrace.Counters, h *half) pattern.Verdict {
	touching := share(o.consecutive, o.links)
	onward := share(o.consecutive+o.forward, o.links)
	size := int64(h.bytes / h.requests)
	switch {
	case touching >= pattern.ClearShare:
		return pattern.Verdict{Detail: pattern.Contiguous}
	case onward >= pattern.OnwardShare:
		return o.ahead(c, h, touching, size)
	case onward <= 1-pattern.ClearShare && touching < pattern.MinorShare:
		if h.last >= 0 && h.last < 2*size {
			return pattern.Verdict{Detail: pattern.StridedSimple} // always the same place
		}
		return pattern.Verdict{Detail: pattern.StridedVariable} // backwards
	case touching < pattern.MinorShare:
		return pattern.Verdict{Detail: pattern.Random}
	}
	return pattern.Verdict{Detail: pattern.Mixed}
}

// ahead judges requests that advance.
func (o *order) ahead(c *iotrace.Counters, h *half, touching float64, size int64) pattern.Verdict {
	// The holes of both directions are together.
	var top iotrace.SizeCount
	var all int64
	var sum float64
	for _, s := range c.Strides {
		if s.Size <= 0 || s.Count <= 0 {
			continue
		}
		all = iotrace.Sum(all, s.Count)
		sum += float64(s.Size) * float64(s.Count)
		if s.Count > top.Count {
			top = s
		}
	}
	own := part(top.Count, o.forward, max(0, c.SequentialReads-c.ConsecutiveReads)+max(0, c.SequentialWrites-c.ConsecutiveWrites)-o.forward)
	regularly := o.forward > 0 && float64(own) >= pattern.Regular*float64(o.forward)
	switch {
	case regularly && touching >= pattern.MinorShare:
		group := max(1, h.requests/max(1, h.requests-o.consecutive))
		return pattern.Verdict{Detail: pattern.StridedNested, Stride: size, Outer: iotrace.Sum(top.Size, product(group, size)), Inner: group}
	case regularly:
		return pattern.Verdict{Detail: pattern.StridedSimple, Stride: iotrace.Sum(top.Size, size)}
	case touching >= 0.5:
		return pattern.Verdict{Detail: pattern.Sequential} // the median hole is 0
	}
	hole := ratio(sum, float64(all))
	if 2*all < o.forward && c.Rank >= 0 && h.last >= 0 {
		hole = ratio(max(0, float64(h.last)+1-float64(h.bytes)), float64(o.forward))
	}
	if hole <= float64(size) && (all > 0 || c.Rank >= 0) {
		return pattern.Verdict{Detail: pattern.Sequential}
	}
	return pattern.Verdict{Detail: pattern.StridedVariable}
}

// busyEstimate estimates the time in which some rank reads or writes, and counts the
// phases: parts of the time from the first read or write of any file to the last, with
// silences of the burst gap in between. A phase takes the time of the slowest rank in
// each file of all ranks, plus the time of the slowest rank in the other files, as
// darshan-parser estimates the performance; at most the time that its files span.
func (a *analysis) busyEstimate() (busy float64, phases int) {
	type window struct {
		from, to int64
		rank     int32
		took     float64
		bytes    int64
	}
	var windows []window
	for _, c := range a.records.list {
		if data, _ := a.adds(c); !data {
			continue
		}
		both := halves(c)
		all := both[0].time + both[1].time
		for d := range both {
			h := &both[d]
			if h.requests == 0 || h.from < 0 || h.to <= h.from {
				continue
			}
			w := window{h.from, h.to, c.Rank, h.time, h.bytes}
			switch {
			case c.Rank >= 0:
			case c.Slowest.Time > 0:
				w.took = min(h.time, c.Slowest.Time.Seconds()*ratio(h.time, all))
			default:
				w.took /= float64(max(a.records.ranks, 1))
			}
			windows = append(windows, w)
		}
	}
	slices.SortStableFunc(windows, func(x, y window) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to)) })
	own := map[int32]float64{}
	var slowest, alone float64
	var u union
	var moved []int64 // by phase
	end := func() {
		busy += min(u.time, slowest+alone)
		clear(own)
		slowest, alone, u.time = 0, 0, 0
	}
	for _, w := range windows {
		if !u.begun || after(u.until, w.from, int64(a.options.BurstGap)) {
			end()
			moved = append(moved, 0)
		}
		last := &moved[len(moved)-1]
		*last = iotrace.Sum(*last, w.bytes)
		u.add(w.from, w.to)
		if w.rank >= 0 {
			own[w.rank] += w.took
			alone = max(alone, own[w.rank])
		} else {
			slowest += w.took
		}
	}
	end()
	return busy, phasesAmong(moved)
}

// exchangeFacts fills in how long a rank is in the calls of MPI-IO on a file. Only
// counters tell: DXT does not say which calls were collective.
func exchangeFacts(x *finding.File, r *File, inRequests float64) {
	m := r.MPIIO
	if m == nil || m.Calls == nil || m.Callers == 0 || m.PosixWrites == 0 && m.PosixReads == 0 {
		return
	}
	for _, l := range r.Layers {
		if l.Layer == moduleNames[iotrace.MPIIO] {
			x.InCalls, x.InRequests = (l.WriteTime+l.ReadTime)/float64(m.Callers), inRequests
		}
	}
}

// inRequests returns by file how long its slowest rank reads and writes through POSIX,
// as far as counters tell.
func (a *analysis) inRequests() map[int32]float64 {
	type place struct{ file, rank int32 }
	own, slowest, all := map[place]float64{}, map[int32]float64{}, map[int32]float64{}
	for _, c := range a.records.list {
		if c.Module != iotrace.POSIX {
			continue
		}
		took := max(0, c.ReadTime.Seconds()) + max(0, c.WriteTime.Seconds())
		switch n, _, _ := a.records.movers(c); {
		case c.Rank >= 0:
			p := place{c.File, c.Rank}
			own[p] += took
			slowest[c.File] = max(slowest[c.File], own[p])
		case c.Slowest.Time > 0:
			all[c.File] += min(took, c.Slowest.Time.Seconds())
		default:
			all[c.File] += took / float64(max(n, 1))
		}
	}
	for file, took := range all {
		slowest[file] += took
	}
	return slowest
}
