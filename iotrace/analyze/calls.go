package analyze

import "ckpt/iotrace"

// A callSum counts calls of MPI-IO by their kind.
type callSum struct {
	Calls
	bytes  [2]int64 // of collective writes and reads
	opaque [2]bool  // collective and other calls share a counter of bytes
	known  bool
}

// addCounters adds the calls of a record.
func (s *callSum) addCounters(c *iotrace.Counters) {
	s.known = true
	one := callSum{Calls: Calls{CollectiveOpens: c.CollectiveOpens, IndependentOpens: c.IndependentOpens,
		CollectiveWrites: c.CollectiveWrites, CollectiveReads: c.CollectiveReads, IndependentWrites: c.IndependentWrites, IndependentReads: c.IndependentReads,
		SplitWrites: c.SplitWrites, SplitReads: c.SplitReads, NonblockingWrites: c.NonblockingWrites, NonblockingReads: c.NonblockingReads,
		Hints: c.Hints, Views: c.Views}, known: true}
	for d, bytes := range [2]int64{c.BytesWritten, c.BytesRead} {
		switch together, alone := one.kinds(d); {
		case together > 0 && alone > 0:
			one.opaque[d] = bytes > 0
		case together > 0:
			one.bytes[d] = max(bytes, 0)
		}
	}
	s.merge(&one)
}

// kinds returns the number of writes or reads by all ranks together, and of the others.
func (c *Calls) kinds(d int) (together, alone int64) {
	if d == direction(true) {
		return iotrace.Sum(max(c.CollectiveReads, 0), max(c.SplitReads, 0)), iotrace.Sum(max(c.IndependentReads, 0), max(c.NonblockingReads, 0))
	}
	return iotrace.Sum(max(c.CollectiveWrites, 0), max(c.SplitWrites, 0)), iotrace.Sum(max(c.IndependentWrites, 0), max(c.NonblockingWrites, 0))
}

func (s *callSum) merge(o *callSum) {
	if !o.known {
		return
	}
	s.known = true
	mine, theirs := s.numbers(), o.numbers()
	for i := range mine {
		*mine[i] = iotrace.Sum(*mine[i], max(*theirs[i], 0))
	}
	for d := range 2 {
		s.bytes[d] = iotrace.Sum(s.bytes[d], o.bytes[d])
		s.opaque[d] = s.opaque[d] || o.opaque[d]
	}
}

func (c *Calls) numbers() [12]*int64 {
	return [...]*int64{&c.CollectiveOpens, &c.IndependentOpens, &c.CollectiveWrites, &c.CollectiveReads, &c.IndependentWrites, &c.IndependentReads,
		&c.SplitWrites, &c.SplitReads, &c.NonblockingWrites, &c.NonblockingReads, &c.Hints, &c.Views}
}

// report returns the calls with their shares, or nil if they are unknown.
func (s *callSum) report() *Calls {
	if !s.known {
		return nil
	}
	c := s.Calls
	for d, to := range [2]struct {
		share **float64
		bytes **int64
	}{{&c.CollectiveWriteShare, &c.CollectiveBytesWritten}, {&c.CollectiveReadShare, &c.CollectiveBytesRead}} {
		together, alone := c.kinds(d)
		*to.share = quotient(together, iotrace.Sum(together, alone))
		if !s.opaque[d] {
			bytes := s.bytes[d]
			*to.bytes = &bytes
		}
	}
	return &c
}
