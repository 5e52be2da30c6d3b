package analyze

import (
	"math"
	"strconv"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

// costs measure what findings weigh: the time of each kind of operation, summed over
// the ranks, and the wall time, in which any rank is at it.
type costs struct {
	files            []fileCost
	data, small      [2]union
	openClose, stats union
	others, metadata union
	syncs, eager     union
	locks            union
	lockOrMove       union
	encode           union
	encodeOrWrite    union
	write            union // also of steps and unknown files
	encodes          sum
	smallBytes       int64
	syncBytes        int64
	recorder         int64 // ns of each operation that are the recorder's
}

// fileCost is about one file.
type fileCost struct {
	class            [2][3]sum // below 100 KiB, below Thresholds.SmallBytes, larger
	fit              [2]finding.Fit
	data, small      [2]union
	openClose, stats sum
	others           sum
	syncs, eager     sum
	locks            sum
	opens, unsynced  int64
	synced           bool
	// A file that takes this name by a renaming is another one: since the last of so many
	// renamings, each rank opens it for the first time once.
	renamed, fresh int64
	opened         map[int32]int64 // renamed, at the last open by each rank; after the first renaming
}

// mediumBytes is where a bin of Darshan ends, which medium requests are above.
const mediumBytes = 100 << 10

type sum struct{ count, bytes, ns int64 }

func (s *sum) add(bytes, ns int64) {
	s.count++
	s.bytes = iotrace.Sum(s.bytes, bytes)
	s.ns = iotrace.Sum(s.ns, ns)
}

func (s *sum) plus(o sum) {
	s.count += o.count
	s.bytes = iotrace.Sum(s.bytes, o.bytes)
	s.ns = iotrace.Sum(s.ns, o.ns)
}

// recorderTime is what recording adds to the time of each operation, in ns. Of a trace that
// was merged from several it is the least of theirs.
func recorderTime(t *iotrace.Trace) (least int64) {
	for _, p := range t.Properties {
		if ns, err := strconv.ParseInt(p.Value, 10, 64); p.Name == iotrace.RecorderTime && err == nil && ns > 0 && (least == 0 || ns < least) {
			least = ns
		}
	}
	return least
}

// add adds an event, without the time of its recorder. moves is set if it counts as a read
// or write, rank if a rank did it.
func (c *costs) add(e *iotrace.Event, file int, moves, rank bool) {
	if c.recorder > 0 {
		own := *e
		own.End = max(e.Start, e.End-c.recorder)
		e = &own
	}
	ns := max(0, e.End-e.Start)
	switch e.Op {
	case iotrace.Encode:
		c.encode.add(e.Start, e.End)
		c.encodes.add(max(e.Bytes, 0), ns)
		c.encodeOrWrite.add(e.Start, e.End)
	case iotrace.Write:
		c.write.add(e.Start, e.End)
		c.encodeOrWrite.add(e.Start, e.End)
	}
	if e.Op == iotrace.LockWait && file < len(c.files) && rank {
		c.files[file].locks.add(0, ns)
		c.locks.add(e.Start, e.End)
		c.lockOrMove.add(e.Start, e.End)
	}
	if file >= len(c.files) || e.Op.Step() || !e.Op.Valid() {
		return
	}
	f := &c.files[file]
	switch {
	case moves:
		c.request(f, e, ns)
	case e.Op.Data() || !rank: // of another layer, or of a launcher or coordinator
	case e.Op == iotrace.Sync:
		c.sync(f, e, ns)
	default:
		c.metadata.add(e.Start, e.End)
		switch e.Op {
		case iotrace.Open, iotrace.Close:
			if e.Op == iotrace.Open {
				f.open(e.Rank)
			}
			f.openClose.add(0, ns)
			c.openClose.add(e.Start, e.End)
		case iotrace.Stat:
			f.stats.add(0, ns)
			c.stats.add(e.Start, e.End)
		default:
			if e.Op == iotrace.Rename {
				f.renamed++
				f.synced = false
			}
			f.others.add(0, ns)
			c.others.add(e.Start, e.End)
		}
	}
}

func (f *fileCost) open(rank int32) {
	f.opens++
	if f.renamed == 0 {
		return
	}
	if f.opened[rank] < f.renamed {
		f.fresh++
	}
	if f.opened == nil {
		f.opened = make(map[int32]int64)
	}
	f.opened[rank] = f.renamed
}

func (c *costs) request(f *fileCost, e *iotrace.Event, ns int64) {
	d := direction(e.Op == iotrace.Read)
	size := max(e.Bytes, 0)
	if d == 0 {
		f.unsynced = iotrace.Sum(f.unsynced, size)
	}
	class := 2
	if size < c.smallBytes {
		class = 0
		if size > mediumBytes {
			class = 1
		}
		f.small[d].add(e.Start, e.End)
		c.small[d].add(e.Start, e.End)
	}
	c.lockOrMove.add(e.Start, e.End)
	f.class[d][class].add(size, ns)
	f.fit[d].Add(float64(size), float64(ns)/1e9)
	f.data[d].add(e.Start, e.End)
	c.data[d].add(e.Start, e.End)
}

func (c *costs) sync(f *fileCost, e *iotrace.Event, ns int64) {
	f.syncs.add(f.unsynced, ns)
	c.syncs.add(e.Start, e.End)
	if f.synced && f.unsynced < c.syncBytes {
		f.eager.add(f.unsynced, ns)
		c.eager.add(e.Start, e.End)
	}
	f.synced, f.unsynced = true, 0
}

// alignment counts requests that do not continue the one before: those that begin within
// a unit, the units that they touch, and the least number that as many bytes need.
type alignment struct {
	starts, misaligned int64
	touched, least     int64
}

func (a *alignment) add(off, size, unit int64) {
	a.starts++
	least := max(1, (size-1)/unit+1)
	a.least += least
	if off%unit == 0 {
		a.touched += least
		return
	}
	a.misaligned++
	a.touched += max(least, (end(off, size)-1)/unit-off/unit+1)
}

func (a *alignment) merge(o *alignment) {
	a.starts += o.starts
	a.misaligned += o.misaligned
	a.touched += o.touched
	a.least += o.least
}

// fileWork collects the findings about a file, or about all files, from the events in
// their order.
type fileWork struct {
	bursts          bursts
	metadata, opens int64
	seeks, syncs    int64
	stats           int64      // of counters
	time            [2]float64 // of writes, and of reads
	smallTime       [2]float64 // of small ones
	metaTime        float64
	syncTime        float64
	start, end      int64 // ns
	begun           bool
	correlation     [2]moments
	emptied         []int32 // events that leave the file empty
}

// add adds an event that took so many seconds. moves is set if it counts as a read or
// write.
func (f *fileWork) add(e *iotrace.Event, took float64, moves bool) {
	if !f.begun {
		f.start, f.end, f.begun = math.MaxInt64, math.MinInt64, true
	}
	f.start, f.end = min(f.start, e.Start), max(f.end, e.Start, e.End)
	size := max(e.Bytes, 0)
	switch {
	case moves:
		d := direction(e.Op == iotrace.Read)
		f.time[d] += took
		f.correlation[d].add(float64(size), took)
	case e.Op.Data(): // of MPI-IO above POSIX; see layers
	case e.Op == iotrace.Sync:
		f.syncs++
		f.syncTime += took
	case e.Op == iotrace.Seek:
		f.seeks++
		f.metaTime += took
	default:
		f.metadata++
		f.metaTime += took
		if e.Op == iotrace.Open {
			f.opens++
		}
	}
}

// direction is the index of writes or reads in pairs of numbers.
func direction(read bool) int {
	if read {
		return 1
	}
	return 0
}

// merge adds the findings about another file, except its bursts.
func (f *fileWork) merge(o *fileWork) {
	if !o.begun {
		return
	}
	if !f.begun {
		f.start, f.end, f.begun = o.start, o.end, true
	}
	f.start, f.end = min(f.start, o.start), max(f.end, o.end)
	f.metadata += o.metadata
	f.opens += o.opens
	f.seeks += o.seeks
	f.syncs += o.syncs
	f.stats += o.stats
	f.metaTime += o.metaTime
	f.syncTime += o.syncTime
	for d := range 2 {
		f.time[d] += o.time[d]
		f.smallTime[d] += o.smallTime[d]
		f.correlation[d].merge(&o.correlation[d])
	}
}

// report fills in the findings.
func (f *fileWork) report(r *Activity) {
	r.Correlation = Correlation{Write: f.correlation[0].pearson(), Read: f.correlation[1].pearson()}
	r.Metadata, r.Opens, r.Seeks, r.Syncs, r.stats = f.metadata, f.opens, f.seeks, f.syncs, f.stats
	r.WriteTime, r.ReadTime, r.MetadataTime, r.SyncTime = f.time[0], f.time[1], f.metaTime, f.syncTime
	for d, x := range []*Direction{&r.Writing, &r.Reading} {
		x.Time, x.SmallTime = f.time[d], f.smallTime[d]
		x.RandomTime = min(x.RandomTime, x.Time) // the time of a request is rounded
	}
	r.Start, r.End = float64(f.start)/1e9, float64(f.end)/1e9
}
