package iotrace

import "time"

// A Warning says what a trace lacks, or what its events do not show, so that nobody takes it for the whole. It stays
// with the trace: in its events file, and in what is made of that.
type Warning struct {
	Code  string // for programs: io_uring, shared-mapping, unknown-descriptor, …
	Text  string // a sentence with the remedy, if there is one
	Count int64  // operations that it is about, if they were counted
	Bytes int64  // that those moved, if it is known
	// Files splits Count and Bytes by file, so that the warning goes where its files
	// go. Empty: it is of no certain files. Text then names neither files nor numbers.
	Files []WarnedFile
}

// The codes of warnings about reads and writes that are all in the trace.
const (
	WarnCountedElsewhere = "modules-counted-elsewhere" // by way of a module that was read
	WarnSyncWrites       = "sync-writes"               // a write and a sync in one
	WarnDirectIO         = "direct-io"                 // around the page cache
)

// Lacking reports whether the trace lacks something that the warning is about.
func (w Warning) Lacking() bool {
	return w.Code != WarnCountedElsewhere && w.Code != WarnSyncWrites && w.Code != WarnDirectIO
}

// A WarnedFile is the share of one file in a warning.
type WarnedFile struct {
	File         int32 // index into Trace.Files
	Count, Bytes int64
}

// A Property is something else that a recorder says of a job: the version of its MPI
// library, or the type of a file system by the directory where it is mounted. Names
// that begin with a slash are such directories.
type Property struct {
	Name, Value string
}

// A Renaming gives a file another name. The event Rename beside it has no place for the
// new one.
type Renaming struct {
	From, To int32 // indexes into Trace.Files
	At       int64 // ns since Trace.Origin
}

// Striping says how a file is spread over the targets of a parallel file system. A
// file has several if its parts are spread differently (Lustre's progressive layouts).
type Striping struct {
	File  int32 // index into Trace.Files
	Size  int64 // of a stripe, in bytes
	Count int32 // of stripes
	OSTs  []int64
	// Start and End bound the part of the file, in bytes. End is None if the part goes
	// on to the end of the file.
	Start, End int64
}

// Counters are what one rank, or all ranks together, did to one file through one
// interface, in sum, as Darshan keeps it. Numbers that a recorder did not count are
// None. Darshan's manual (darshan-util, "Guide to darshan-parser output") explains
// the counters of the same names.
type Counters struct {
	Module Module
	Rank   int32 // index into Trace.Ranks; None: all ranks together
	File   int32 // index into Trace.Files

	Opens, Reads, Writes, Seeks, Stats, Syncs, Maps int64
	BytesRead, BytesWritten                         int64
	// LastRead and LastWritten are the highest offsets read and written.
	LastRead, LastWritten int64
	// Consecutive requests begin where the one before ended, sequential ones there or
	// behind. Switches are changes from reading to writing and back.
	ConsecutiveReads, SequentialReads   int64
	ConsecutiveWrites, SequentialWrites int64
	Switches                            int64
	// Unaligned requests begin at no multiple of Alignment bytes.
	Unaligned, UnalignedMemory, Alignment int64
	// Sizes counts requests in Darshan's ten bins, reads and writes apart. All are 0 for
	// STDIO, where Darshan does not count them.
	ReadSizes, WriteSizes [10]int64
	// Common are the commonest request sizes, Strides the commonest distances, of POSIX
	// and for the sizes of MPI-IO.
	Common, Strides [4]SizeCount
	MaxReadTime     time.Duration
	MaxWriteTime    time.Duration

	// Of MPI-IO. Reads and Writes are the sum of these four kinds.
	CollectiveOpens, IndependentOpens   int64
	CollectiveReads, CollectiveWrites   int64
	IndependentReads, IndependentWrites int64
	SplitReads, SplitWrites             int64
	NonblockingReads, NonblockingWrites int64
	Hints, Views                        int64

	// Times that the operations took, added up over the ranks.
	ReadTime, WriteTime, MetaTime time.Duration
	// The time of the first operation of a kind, and the end of the last, since
	// Trace.Origin; None if there was no such operation.
	FirstOpen, FirstRead, FirstWrite, FirstClose int64
	LastOpen, LastReadEnd, LastWriteEnd          int64
	LastClose                                    int64

	// Of records of all ranks, for others there is nothing: the ranks that took the shortest and the longest, and
	// the variances between the ranks.
	Fastest, Slowest            RankWork
	VarianceTime, VarianceBytes float64
}

// RankWork is what one rank did, in sum. Rank is its number in the job, None if unknown.
type RankWork struct {
	Rank  int64
	Bytes int64
	Time  time.Duration
}

// A SizeCount is a size in bytes, and how often it occurs.
type SizeCount struct {
	Size  int64 `json:"request_bytes"`
	Count int64 `json:"count"`
}
