package read

import "math"

// Counters of POSIX, by their place in records of version 4.
const (
	posixOpens          = 0
	posixFilenos        = 1
	posixDups           = 2
	posixReads          = 3
	posixWrites         = 4
	posixSeeks          = 5
	posixStats          = 6
	posixMmaps          = 7
	posixFsyncs         = 8
	posixFdsyncs        = 9
	posixRenameSources  = 10
	posixRenameTargets  = 11
	posixRenamedFrom    = 12
	posixBytesRead      = 14
	posixBytesWritten   = 15
	posixMaxByteRead    = 16
	posixMaxByteWritten = 17
	posixConsecReads    = 18
	posixConsecWrites   = 19
	posixSeqReads       = 20
	posixSeqWrites      = 21
	posixSwitches       = 22
	posixMemNotAligned  = 23
	posixFileNotAligned = 25
	posixFileAlignment  = 26
	posixSizeRead       = 29 // ten bins
	posixSizeWrite      = 39
	posixStride         = 49 // four strides, then four counts
	posixAccess         = 57
	posixFastest        = 65 // rank and bytes of the fastest, then of the slowest
	posixCounters       = 69
)

// Counters of MPI-IO, by their place in records of version 3.
const (
	mpiioIndepOpens   = 0
	mpiioCollOpens    = 1
	mpiioIndepReads   = 2
	mpiioIndepWrites  = 3
	mpiioCollReads    = 4
	mpiioCollWrites   = 5
	mpiioSplitReads   = 6
	mpiioSplitWrites  = 7
	mpiioNBReads      = 8
	mpiioNBWrites     = 9
	mpiioSyncs        = 10
	mpiioHints        = 11
	mpiioViews        = 12
	mpiioBytesRead    = 14
	mpiioBytesWritten = 15
	mpiioSwitches     = 16
	mpiioSizeRead     = 19
	mpiioSizeWrite    = 29
	mpiioAccess       = 39
	mpiioFastest      = 47
	mpiioCounters     = 51
)

// Counters of STDIO, by their place in records of version 2.
const (
	stdioOpens          = 0
	stdioFdopens        = 1
	stdioReads          = 2
	stdioWrites         = 3
	stdioSeeks          = 4
	stdioBytesWritten   = 6
	stdioBytesRead      = 7
	stdioMaxByteRead    = 8
	stdioMaxByteWritten = 9
	stdioFastest        = 10
	stdioCounters       = 14
)

// Times of POSIX and MPI-IO, by their place in the newest records.
const (
	firstOpen     = 0
	firstRead     = 1
	firstWrite    = 2
	firstClose    = 3
	lastOpen      = 4
	lastRead      = 5
	lastWrite     = 6
	lastClose     = 7
	readTime      = 8
	writeTime     = 9
	metaTime      = 10
	maxRead       = 11
	maxWrite      = 12
	fastestTime   = 13
	slowestTime   = 14
	varianceTime  = 15
	varianceBytes = 16
	posixTimes    = 17
)

// Times of STDIO.
const (
	stdioMetaTime    = 0
	stdioWriteTime   = 1
	stdioReadTime    = 2
	stdioFirstOpen   = 3
	stdioFirstClose  = 4
	stdioFirstWrite  = 5
	stdioFirstRead   = 6
	stdioLastOpen    = 7
	stdioLastClose   = 8
	stdioLastWrite   = 9
	stdioLastRead    = 10
	stdioFastestTime = 11 // then of the slowest, and the variances
	stdioTimes       = 15
)

// missing is the value of numbers that an old version does not have.
const missing = -1

// A layout says for each number of a record which one it is in the newest version, or
// or missing.
type layout struct {
	counters, times  []int
	newest, newTimes int
}

// fopens is where records of POSIX, version 1, have the counters of fopen, fread,
// fwrite and fseek.
const fopens = 6

func layoutOf(mod int, version uint32) layout {
	switch mod {
	case posix:
		y := layout{without(posixCounters), without(posixTimes), posixCounters, posixTimes}
		if version < 4 {
			y.counters = without(posixCounters, posixFilenos, posixDups, posixRenameSources, posixRenameTargets, posixRenamedFrom)
		}
		if version < 3 {
			y.times = without(posixTimes, firstClose, lastOpen)
		}
		if version < 2 {
			all := append([]int(nil), y.counters[:fopens]...)
			all = append(all, missing, missing, missing, missing)
			y.counters = append(all, y.counters[fopens:]...)
		}
		return y
	case mpiio:
		y := layout{without(mpiioCounters), without(posixTimes), mpiioCounters, posixTimes}
		if version < 3 {
			y.times = without(posixTimes, firstClose, lastOpen)
		}
		return y
	}
	y := layout{without(stdioCounters), without(stdioTimes), stdioCounters, stdioTimes}
	if version < 2 {
		y.counters = without(stdioCounters, stdioFdopens)
	}
	return y
}

// without returns the numbers below n, some left out.
func without(n int, out ...int) []int {
	var list []int
	for i := range n {
		skip := false
		for _, o := range out {
			skip = skip || i == o
		}
		if !skip {
			list = append(list, i)
		}
	}
	return list
}

func (y *layout) bytes() int { return 8 * (2 + len(y.counters) + len(y.times)) }

// A record is one of POSIX, MPI-IO or STDIO, in the newest version.
type record struct {
	id       uint64
	rank     int64
	counters []int64
	times    []float64
	fopens   int64 // of POSIX, version 1
}

func (y *layout) decode(b []byte, order interface{ Uint64([]byte) uint64 }, r *record) {
	next := func() uint64 {
		n := order.Uint64(b)
		b = b[8:]
		return n
	}
	r.id, r.rank = next(), int64(next())
	for i := range r.counters {
		r.counters[i] = missing
	}
	for i := range r.times {
		r.times[i] = missing
	}
	for i, to := range y.counters {
		n := int64(next())
		if to != missing {
			r.counters[to] = n
		} else if i == fopens {
			r.fopens = n
		}
	}
	for _, to := range y.times {
		r.times[to] = math.Float64frombits(next())
	}
}
