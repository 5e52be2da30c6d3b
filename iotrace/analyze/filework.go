package analyze

import (
	"math"

	"ckpt/iotrace"
)

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
		x.RandomTime = min(x.RandomTime, x.Time) // that of a request is rounded
	}
	r.Start, r.End = float64(f.start)/1e9, float64(f.end)/1e9
}
