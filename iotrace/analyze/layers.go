package analyze

import (
	"slices"

	"ckpt/iotrace"
)

// modules in the order of a report: programs call MPI-IO, MPI-IO calls POSIX.
var modules = [...]iotrace.Module{iotrace.MPIIO, iotrace.POSIX, iotrace.STDIO}

const moduleCount = 3

var moduleNames = [moduleCount]string{iotrace.POSIX: "POSIX", iotrace.MPIIO: "MPI-IO", iotrace.STDIO: "STDIO"}

// A layerSum is the I/O of a file, or of all files, through one interface.
type layerSum struct {
	files           int
	requests, bytes [2]int64
	time            [2]float64
	opens           int64
	metaTime        float64
	ranks, idle     rankSet // that read or write, that do other operations
	// shared counts the ranks of records of all ranks; it is unknown which
	// read or write; estimated is set if their number comes from a variance.
	shared    int
	estimated bool
	idlers    int  // ranks of records of all ranks without reads and writes
	traced    bool // events tell the ranks
	used      bool
}

// A rankSet has indexes of ranks. Events of one rank often follow each other.
type rankSet struct {
	in   map[int32]struct{}
	last int32
}

func (s *rankSet) add(rank int32) {
	if s.in != nil && s.last == rank {
		return
	}
	if s.in == nil {
		s.in = map[int32]struct{}{}
	}
	s.in[rank], s.last = struct{}{}, rank
}

func (s *rankSet) merge(o *rankSet) {
	for r := range o.in {
		s.add(r)
	}
}

// layers are the interfaces of a file, by module.
type layers struct {
	sums  [moduleCount]layerSum
	calls callSum
	// below are the POSIX requests of files that MPI-IO uses.
	below layerSum
}

// addEvent adds a read, a write or another operation on a file.
func (l *layers) addEvent(e *iotrace.Event, rank int, ofRank bool, took float64) {
	if int(e.Module) >= moduleCount {
		return
	}
	s := &l.sums[e.Module]
	s.used = true
	switch {
	case e.Op.Data():
		d := direction(e.Op == iotrace.Read)
		s.requests[d]++
		s.bytes[d] = iotrace.Sum(s.bytes[d], max(e.Bytes, 0))
		s.time[d] += took
		if ofRank {
			s.ranks.add(int32(rank))
		}
		return
	case e.Op == iotrace.Open:
		s.opens++
	}
	if e.Op != iotrace.Sync {
		s.metaTime += took
	}
	if ofRank {
		s.idle.add(int32(rank))
	}
}

// addRecords replaces what events tell by the counters of the file, which are the
// whole. Events know better which ranks read and write.
func (l *layers) addRecords(r *records, all []*iotrace.Counters) {
	var known [moduleCount]bool
	for _, c := range all {
		s := &l.sums[c.Module]
		if !known[c.Module] {
			known[c.Module] = true
			*s = layerSum{ranks: s.ranks, idle: s.idle, used: true, traced: len(s.ranks.in) > 0}
		}
		s.addRecord(r, c)
		if c.Module == iotrace.MPIIO {
			l.calls.addCounters(c)
		}
	}
}

func (s *layerSum) addRecord(r *records, c *iotrace.Counters) {
	for d, h := range halves(c) {
		s.requests[d], s.bytes[d] = iotrace.Sum(s.requests[d], h.requests), iotrace.Sum(s.bytes[d], h.bytes)
		s.time[d] += h.time
	}
	s.opens = iotrace.Sum(s.opens, max(c.Opens, 0))
	s.metaTime += max(c.MetaTime, 0).Seconds()
	switch n, only, estimated := r.movers(c); {
	case n == 0 && c.Rank >= 0:
		s.idle.add(c.Rank)
	case n == 0:
		s.idlers = max(s.idlers, r.ranks)
	case s.traced:
	case only >= 0:
		s.ranks.add(only)
	case n > s.shared:
		s.shared, s.estimated = n, estimated
	}
}

// merge adds the layer of another file.
func (s *layerSum) merge(o *layerSum) {
	if !o.used {
		return
	}
	s.used = true
	s.files += max(o.files, 1)
	for d := range 2 {
		s.requests[d] = iotrace.Sum(s.requests[d], o.requests[d])
		s.bytes[d] = iotrace.Sum(s.bytes[d], o.bytes[d])
		s.time[d] += o.time[d]
	}
	s.opens = iotrace.Sum(s.opens, o.opens)
	s.metaTime += o.metaTime
	s.ranks.merge(&o.ranks)
	s.idle.merge(&o.idle)
	s.idlers = max(s.idlers, o.idlers)
	if o.shared > s.shared {
		s.shared, s.estimated = o.shared, o.estimated
	}
}

// settle computes what lies below MPI-IO, of a file.
func (l *layers) settle() {
	if l.sums[iotrace.MPIIO].used {
		l.below.merge(&l.sums[iotrace.POSIX])
	}
}

// merge adds the layers of another file, which is settled.
func (l *layers) merge(o *layers) {
	for m := range l.sums {
		l.sums[m].merge(&o.sums[m])
	}
	l.below.merge(&o.below)
	l.calls.merge(&o.calls)
}

// count returns the ranks that read or write, and whether that is an estimate.
func (s *layerSum) count() (n int, estimated bool) {
	if s.shared > len(s.ranks.in) {
		return s.shared, s.estimated
	}
	return len(s.ranks.in), false
}

func (s *layerSum) report(m iotrace.Module) Layer {
	ranks, _ := s.count()
	if ranks == 0 {
		ranks = max(len(s.idle.in), s.idlers)
	}
	return layerOf(m, max(s.files, 1), ranks, Totals{s.opens, s.requests[0], s.requests[1],
		s.bytes[0], s.bytes[1], s.time[0], s.time[1], s.metaTime})
}

// report fills in the layers of a file, or of the job.
func (l *layers) report(tr *iotrace.Trace, r *Activity) {
	r.Layers = []Layer{}
	for _, m := range modules {
		if l.sums[m].used {
			r.Layers = append(r.Layers, l.sums[m].report(m))
		}
	}
	top, below := &l.sums[iotrace.MPIIO], &l.below
	if !top.used {
		return
	}
	x := &MPIIO{Files: max(top.files, 1), Writes: top.requests[0], Reads: top.requests[1], BytesWritten: top.bytes[0], BytesRead: top.bytes[1],
		PosixWrites: below.requests[0], PosixReads: below.requests[1], PosixBytesWritten: below.bytes[0], PosixBytesRead: below.bytes[1],
		Calls: l.calls.report(), Aggregators: []int{}}
	x.Callers, _ = top.count()
	x.PosixRanks, x.Estimated = below.count()
	if n := len(below.ranks.in); n > 0 && n == x.PosixRanks && n < x.Callers && n <= namedAggregators && x.mayAggregate() {
		for i := range below.ranks.in {
			if uint(i) < uint(len(tr.Ranks)) {
				x.Aggregators = append(x.Aggregators, tr.Ranks[i].Rank)
			}
		}
		slices.Sort(x.Aggregators)
	}
	if below.requests != [2]int64{} {
		x.WriteAmplification, x.ReadAmplification = quotient(below.bytes[0], top.bytes[0]), quotient(below.bytes[1], top.bytes[1])
		x.RequestsPerWrite, x.RequestsPerRead = quotient(below.requests[0], top.requests[0]), quotient(below.requests[1], top.requests[1])
		x.ExtraRead = max(0, below.bytes[1]-top.bytes[1])
	}
	r.MPIIO = x
}

const namedAggregators = 16

// mayAggregate reports whether ranks that call POSIX do so for others. Independent
// calls have no aggregators.
func (x *MPIIO) mayAggregate() bool {
	c := x.Calls
	return c == nil || c.CollectiveWrites+c.CollectiveReads+c.SplitWrites+c.SplitReads > 0
}

// quotient returns a/b, or nil if b is 0.
func quotient(a, b int64) *float64 {
	if b == 0 {
		return nil
	}
	q := share(a, b)
	return &q
}

// reportLayers reports the layers of a file, and adds them to the job.
func (a *analysis) reportLayers(file int32, records []*iotrace.Counters, r *Activity) {
	if !a.layered {
		r.Layers = []Layer{a.onlyLayer(r)}
		return
	}
	l := &a.layers[file]
	l.addRecords(&a.records, records)
	l.settle()
	l.report(a.trace, r)
	a.allLayers.merge(l)
}

// reportAllLayers reports the layers of the job.
func (a *analysis) reportAllLayers(r *Report) {
	if a.layered {
		a.allLayers.report(a.trace, &r.Activity)
		return
	}
	r.Layers = []Layer{}
	if len(r.Files) > 0 {
		l := a.onlyLayer(&r.Activity)
		l.Files = len(r.Files)
		r.Layers = append(r.Layers, l)
	}
}

// onlyLayer returns the layer of a trace with POSIX only.
func (a *analysis) onlyLayer(r *Activity) Layer {
	return layerOf(iotrace.POSIX, 1, r.Ranks, r.Totals)
}

func layerOf(m iotrace.Module, files, ranks int, sums Totals) Layer {
	return Layer{Layer: moduleNames[m], Files: files, Ranks: ranks, Totals: sums,
		MeanWrite: share(sums.BytesWritten, sums.Writes), MeanRead: share(sums.BytesRead, sums.Reads)}
}

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
	one := callSum{Calls: Calls{Calls: c.Calls}, known: true}
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
