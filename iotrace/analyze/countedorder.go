package analyze

import (
	"ckpt/iotrace"
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
// MPI-IO counts none of that. STDIO counts calls that seek: a stream without any is
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
		return pattern.Verdict{Detail: pattern.Sequential} // the median hole is none
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
