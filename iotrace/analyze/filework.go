package analyze

import (
	"math"

	"ckpt/iotrace"
)

// fileWork collects the findings about a file, or about all files, from the events in
// their order.
type fileWork struct {
	bursts          bursts
	mpiio           ModuleCount
	metadata, opens int64
	seeks, syncs    int64
	time            [2]float64 // of writes, and of reads
	smallTime       float64    // of small writes
	metaTime        float64
	syncTime        float64
	start, end      int64 // ns
	begun           bool
	correlation     [2]moments
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
	case e.Op == iotrace.Write:
		f.mpiio.Writes++
		f.mpiio.BytesWritten = add(f.mpiio.BytesWritten, size)
	case e.Op == iotrace.Read:
		f.mpiio.Reads++
		f.mpiio.BytesRead = add(f.mpiio.BytesRead, size)
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

// isMetadata reports whether op counts as a metadata operation of a file.
func isMetadata(op iotrace.Op) bool {
	return !op.Data() && !op.Step() && op != iotrace.Sync && op != iotrace.Seek
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
	f.mpiio.Writes += o.mpiio.Writes
	f.mpiio.Reads += o.mpiio.Reads
	f.mpiio.BytesWritten = add(f.mpiio.BytesWritten, o.mpiio.BytesWritten)
	f.mpiio.BytesRead = add(f.mpiio.BytesRead, o.mpiio.BytesRead)
	f.metadata += o.metadata
	f.opens += o.opens
	f.seeks += o.seeks
	f.syncs += o.syncs
	f.metaTime += o.metaTime
	f.syncTime += o.syncTime
	f.smallTime += o.smallTime
	for d := range 2 {
		f.time[d] += o.time[d]
		f.correlation[d].merge(&o.correlation[d])
	}
}

// report fills in the findings.
func (f *fileWork) report(r *Activity) {
	r.Correlation = Correlation{Write: f.correlation[0].pearson(), Read: f.correlation[1].pearson()}
	r.Metadata, r.Opens, r.Seeks, r.Syncs = f.metadata, f.opens, f.seeks, f.syncs
	r.WriteTime, r.ReadTime, r.MetadataTime, r.SyncTime = f.time[0], f.time[1], f.metaTime, f.syncTime
	r.smallWriteTime = f.smallTime
	r.Start, r.End = float64(f.start)/1e9, float64(f.end)/1e9
	if f.mpiio != (ModuleCount{}) {
		count := f.mpiio
		r.MPIIO = &count
	}
}
