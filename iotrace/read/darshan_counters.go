package read

import (
	"io"
	"math"
	"time"

	"ckpt/iotrace"
)

// readCounters reads the records of POSIX, MPI-IO or STDIO.
func (l *reading) readCounters(g *region, mod int, version uint32) error {
	y := layoutOf(mod, version)
	b := make([]byte, y.bytes())
	r := record{counters: make([]int64, y.newest), times: make([]float64, y.newTimes)}
	for {
		if err := g.fill(b); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		y.decode(b, l.head.order, &r)
		if r.fopens > 0 { // its other counters mix both interfaces
			l.oldSTDIO.add(l.file(r.id), 0)
			continue
		}
		rank, err := l.rank(r.rank, g.at())
		if err != nil {
			return err
		}
		l.negative += negatives(mod, r.times)
		c := iotrace.UnknownCounters
		c.Rank, c.File = rank, l.file(r.id)
		switch mod {
		case posix:
			posixRecord(&c, &r)
			if from := uint64(r.counters[posixRenamedFrom]); r.counters[posixRenameTargets] > 0 && l.names[from] != "" {
				l.renamed = append(l.renamed, renamed{from, c.File})
			}
		case mpiio:
			mpiioRecord(&c, &r)
		default:
			stdioRecord(&c, &r)
		}
		l.t.Counters = append(l.t.Counters, c)
	}
}

func posixRecord(c *iotrace.Counters, r *record) {
	n := r.counters
	c.Module = iotrace.POSIX
	c.Opens, c.Reads, c.Writes = n[posixOpens], n[posixReads], n[posixWrites]
	c.Seeks, c.Stats, c.Maps = n[posixSeeks], n[posixStats], n[posixMmaps]
	c.Syncs = sum(n[posixFsyncs], n[posixFdsyncs])
	c.BytesRead, c.BytesWritten = n[posixBytesRead], n[posixBytesWritten]
	c.LastRead, c.LastWritten = n[posixMaxByteRead], n[posixMaxByteWritten]
	c.ConsecutiveReads, c.SequentialReads = n[posixConsecReads], n[posixSeqReads]
	c.ConsecutiveWrites, c.SequentialWrites = n[posixConsecWrites], n[posixSeqWrites]
	c.Switches = n[posixSwitches]
	c.Unaligned, c.UnalignedMemory, c.Alignment = n[posixFileNotAligned], n[posixMemNotAligned], n[posixFileAlignment]
	copy(c.ReadSizes[:], n[posixSizeRead:])
	copy(c.WriteSizes[:], n[posixSizeWrite:])
	c.Strides, c.Common = four(n[posixStride:]), four(n[posixAccess:])
	times(c, r.times)
	ranks(c, r, n[posixFastest:], r.times[fastestTime:])
}

func mpiioRecord(c *iotrace.Counters, r *record) {
	n := r.counters
	c.Module = iotrace.MPIIO
	c.IndependentOpens, c.CollectiveOpens = n[mpiioIndepOpens], n[mpiioCollOpens]
	c.Opens = sum(c.IndependentOpens, c.CollectiveOpens)
	c.IndependentReads, c.IndependentWrites = n[mpiioIndepReads], n[mpiioIndepWrites]
	c.CollectiveReads, c.CollectiveWrites = n[mpiioCollReads], n[mpiioCollWrites]
	c.SplitReads, c.SplitWrites = n[mpiioSplitReads], n[mpiioSplitWrites]
	c.NonblockingReads, c.NonblockingWrites = n[mpiioNBReads], n[mpiioNBWrites]
	c.Reads = sum(c.IndependentReads, c.CollectiveReads, c.SplitReads, c.NonblockingReads)
	c.Writes = sum(c.IndependentWrites, c.CollectiveWrites, c.SplitWrites, c.NonblockingWrites)
	c.Syncs, c.Hints, c.Views = n[mpiioSyncs], n[mpiioHints], n[mpiioViews]
	c.BytesRead, c.BytesWritten = n[mpiioBytesRead], n[mpiioBytesWritten]
	c.Switches = n[mpiioSwitches]
	copy(c.ReadSizes[:], n[mpiioSizeRead:])
	copy(c.WriteSizes[:], n[mpiioSizeWrite:])
	c.Common = four(n[mpiioAccess:])
	times(c, r.times)
	ranks(c, r, n[mpiioFastest:], r.times[fastestTime:])
}

func stdioRecord(c *iotrace.Counters, r *record) {
	n, f := r.counters, r.times
	c.Module = iotrace.STDIO
	c.Opens, c.Reads, c.Writes, c.Seeks = n[stdioOpens], n[stdioReads], n[stdioWrites], n[stdioSeeks]
	c.BytesRead, c.BytesWritten = n[stdioBytesRead], n[stdioBytesWritten]
	c.LastRead, c.LastWritten = n[stdioMaxByteRead], n[stdioMaxByteWritten]
	c.ReadTime, c.WriteTime, c.MetaTime = took(f[stdioReadTime]), took(f[stdioWriteTime]), took(f[stdioMetaTime])
	c.FirstOpen, c.FirstRead, c.FirstWrite, c.FirstClose = at(f[stdioFirstOpen]), at(f[stdioFirstRead]), at(f[stdioFirstWrite]), at(f[stdioFirstClose])
	c.LastOpen, c.LastReadEnd, c.LastWriteEnd, c.LastClose = at(f[stdioLastOpen]), at(f[stdioLastRead]), at(f[stdioLastWrite]), at(f[stdioLastClose])
	ranks(c, r, n[stdioFastest:], f[stdioFastestTime:])
}

// times fills in the times of POSIX and MPI-IO.
func times(c *iotrace.Counters, f []float64) {
	c.FirstOpen, c.FirstRead, c.FirstWrite, c.FirstClose = at(f[firstOpen]), at(f[firstRead]), at(f[firstWrite]), at(f[firstClose])
	c.LastOpen, c.LastReadEnd, c.LastWriteEnd, c.LastClose = at(f[lastOpen]), at(f[lastRead]), at(f[lastWrite]), at(f[lastClose])
	c.ReadTime, c.WriteTime, c.MetaTime = took(f[readTime]), took(f[writeTime]), took(f[metaTime])
	c.MaxReadTime, c.MaxWriteTime = took(f[maxRead]), took(f[maxWrite])
}

// ranks fills in what Darshan knows of a record of all ranks only: n has rank and bytes
// of the fastest and the slowest, f their times and the variances.
func ranks(c *iotrace.Counters, r *record, n []int64, f []float64) {
	if r.rank != iotrace.None {
		return
	}
	c.Fastest = iotrace.RankWork{Rank: n[0], Bytes: n[1], Time: max(took(f[0]), 0)}
	c.Slowest = iotrace.RankWork{Rank: n[2], Bytes: n[3], Time: max(took(f[1]), 0)}
	c.VarianceTime, c.VarianceBytes = variance(f[2]), variance(f[3])
}

// sum adds counters; it is None if all are unknown.
func sum(counters ...int64) int64 {
	total, known := int64(0), false
	for _, n := range counters {
		if n >= 0 {
			total, known = iotrace.Sum(total, n), true
		}
	}
	if !known {
		return iotrace.None
	}
	return total
}

// four reads four values and then their counts.
func four(n []int64) (s [4]iotrace.SizeCount) {
	for i := range s {
		s[i] = iotrace.SizeCount{Size: n[i], Count: n[i+4]}
	}
	return s
}

// nanoseconds converts seconds. It fails if they are out of the range of a trace.
func nanoseconds(s float64) (int64, bool) {
	ns := math.Round(s * 1e9)
	if !(ns >= -iotrace.MaxTime && ns <= iotrace.MaxTime) { // or not a number
		return 0, false
	}
	return int64(ns), true
}

// at converts the time of an operation. Darshan has 0 if it did not happen.
func at(s float64) int64 {
	if ns, ok := nanoseconds(s); ok && s > 0 {
		return ns
	}
	return iotrace.None
}

// negatives counts sums of times that are below zero. Darshan subtracts the time of
// inner calls, and now and then too much.
func negatives(mod int, f []float64) (n int64) {
	sums := f[readTime : metaTime+1]
	if mod == stdio {
		sums = f[stdioMetaTime : stdioReadTime+1]
	}
	for _, s := range sums {
		if s < 0 {
			n++
		}
	}
	return n
}

// took converts how long operations took. Impossible times are None.
func took(s float64) time.Duration {
	if ns, ok := nanoseconds(s); ok && s >= 0 {
		return time.Duration(ns)
	}
	return iotrace.None
}

// variance makes 0 of what is not a number.
func variance(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
