package iotrace

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// A Warning says what a trace lacks, or what its events do not show. It stays with the
// trace: in its events file, and in what is made of that.
type Warning struct {
	Code  string `json:"warning"` // for programs: io_uring, shared-mapping, unknown-descriptor, …
	Text  string `json:"text"`    // a sentence with the remedy, if there is one
	Count int64  `json:"count"`   // operations that it is about, if they were counted
	Bytes int64  `json:"bytes"`   // that those moved, if it is known
	// Files splits Count and Bytes by file, so that the warning goes where its files
	// go. Empty: it is of no certain files. Text then names no files and no numbers.
	Files []WarnedFile `json:"-"`
}

// The codes of warnings about reads and writes that are all in the trace.
const (
	WarnCountedElsewhere = "modules-counted-elsewhere" // by way of a module that was read
	WarnSyncWrites       = "sync-writes"               // a write and a sync in one
	WarnDirectIO         = "direct-io"                 // around the page cache
	WarnNoDurations      = "no-durations"              // it is known when they began only
	WarnNoOffsets        = "no-offsets"                // the format has no place for them
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

// Calls counts calls of MPI-IO by their kind. Split calls are collective as well. Reads and
// Writes of Counters are the sum of the four kinds.
type Calls struct {
	CollectiveOpens   int64 `json:"collective_opens"`
	IndependentOpens  int64 `json:"independent_opens"`
	CollectiveReads   int64 `json:"collective_reads"`
	CollectiveWrites  int64 `json:"collective_writes"`
	IndependentReads  int64 `json:"independent_reads"`
	IndependentWrites int64 `json:"independent_writes"`
	SplitReads        int64 `json:"split_reads"`
	SplitWrites       int64 `json:"split_writes"`
	NonblockingReads  int64 `json:"nonblocking_reads"`
	NonblockingWrites int64 `json:"nonblocking_writes"`
	Hints             int64 `json:"hints"` // calls that set hints
	Views             int64 `json:"views"` // calls that set a file view
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

	Calls // of MPI-IO

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

// The entries of a trace's tables and lists; see the package comment. Each has a
// function that appends it to a block, and a method of the decoder that reads it.

func appendRank(b []byte, r Rank) []byte {
	return appendString(binary.AppendVarint(b, int64(r.Rank)), r.Node)
}

func (d *decoder) rank() Rank { return Rank{Rank: int(d.sum(0)), Node: d.string()} }

func appendWarning(b []byte, w Warning) []byte {
	b = appendString(appendString(b, w.Code), w.Text)
	b = binary.AppendVarint(binary.AppendVarint(b, w.Count), w.Bytes)
	b = binary.AppendUvarint(b, uint64(len(w.Files)))
	for _, f := range w.Files {
		b = binary.AppendVarint(b, int64(f.File))
		b = binary.AppendVarint(binary.AppendVarint(b, f.Count), f.Bytes)
	}
	return b
}

func (d *decoder) warning() Warning {
	w := Warning{Code: d.string(), Text: d.string(), Count: d.sum(0), Bytes: d.sum(0)}
	for range d.length() {
		w.Files = append(w.Files, WarnedFile{File: d.int32(0), Count: d.sum(0), Bytes: d.sum(0)})
	}
	return w
}

// length reads the number of parts that follow, which take at least a byte each.
func (d *decoder) length() int {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail(errShort)
		return 0
	}
	return int(n)
}

func appendProperty(b []byte, p Property) []byte {
	return appendString(appendString(b, p.Name), p.Value)
}

func (d *decoder) property() Property { return Property{Name: d.string(), Value: d.string()} }

func appendRenaming(b []byte, r Renaming) []byte {
	b = binary.AppendVarint(binary.AppendVarint(b, int64(r.From)), int64(r.To))
	return binary.AppendVarint(b, r.At)
}

func (d *decoder) renaming() Renaming {
	return Renaming{From: d.int32(0), To: d.int32(0), At: d.sum(0)}
}

func appendStriping(b []byte, s Striping) []byte {
	b = binary.AppendVarint(binary.AppendVarint(b, int64(s.File)), s.Size)
	b = binary.AppendVarint(b, int64(s.Count))
	b = binary.AppendVarint(binary.AppendVarint(b, s.Start), s.End)
	b = binary.AppendUvarint(b, uint64(len(s.OSTs)))
	for _, n := range s.OSTs {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func (d *decoder) striping() Striping {
	s := Striping{File: d.int32(0), Size: d.sum(0), Count: d.int32(0), Start: d.sum(0), End: d.sum(0)}
	for range d.length() {
		s.OSTs = append(s.OSTs, d.sum(0))
	}
	return s
}

// numbers lists the whole numbers of counters in the order of the file. New ones come
// last: older files do not have them, and older programs skip them.
func (c *Counters) numbers() []*int64 {
	ns := []*int64{
		&c.Opens, &c.Reads, &c.Writes, &c.Seeks, &c.Stats, &c.Syncs, &c.Maps,
		&c.BytesRead, &c.BytesWritten, &c.LastRead, &c.LastWritten,
		&c.ConsecutiveReads, &c.SequentialReads, &c.ConsecutiveWrites, &c.SequentialWrites, &c.Switches,
		&c.Unaligned, &c.UnalignedMemory, &c.Alignment,
	}
	for i := range c.ReadSizes {
		ns = append(ns, &c.ReadSizes[i])
	}
	for i := range c.WriteSizes {
		ns = append(ns, &c.WriteSizes[i])
	}
	for i := range c.Common {
		ns = append(ns, &c.Common[i].Size, &c.Common[i].Count)
	}
	for i := range c.Strides {
		ns = append(ns, &c.Strides[i].Size, &c.Strides[i].Count)
	}
	return append(ns,
		(*int64)(&c.MaxReadTime), (*int64)(&c.MaxWriteTime),
		&c.CollectiveOpens, &c.IndependentOpens, &c.CollectiveReads, &c.CollectiveWrites,
		&c.IndependentReads, &c.IndependentWrites, &c.SplitReads, &c.SplitWrites,
		&c.NonblockingReads, &c.NonblockingWrites, &c.Hints, &c.Views,
		(*int64)(&c.ReadTime), (*int64)(&c.WriteTime), (*int64)(&c.MetaTime),
		&c.FirstOpen, &c.FirstRead, &c.FirstWrite, &c.FirstClose,
		&c.LastOpen, &c.LastReadEnd, &c.LastWriteEnd, &c.LastClose,
		&c.Fastest.Rank, &c.Fastest.Bytes, (*int64)(&c.Fastest.Time),
		&c.Slowest.Rank, &c.Slowest.Bytes, (*int64)(&c.Slowest.Time),
	)
}

// UnknownCounters has no number that is known, and empty lists.
var UnknownCounters = func() (c Counters) {
	for _, n := range c.numbers() {
		*n = None
	}
	c.ReadSizes, c.WriteSizes, c.Common, c.Strides = [10]int64{}, [10]int64{}, [4]SizeCount{}, [4]SizeCount{}
	c.Fastest, c.Slowest = RankWork{Rank: None}, RankWork{Rank: None}
	return c
}()

func (c *Counters) times() [8]*int64 {
	return [...]*int64{&c.FirstOpen, &c.FirstRead, &c.FirstWrite, &c.FirstClose,
		&c.LastOpen, &c.LastReadEnd, &c.LastWriteEnd, &c.LastClose}
}

// fractions lists the other numbers, with the same rule.
func (c *Counters) fractions() []*float64 { return []*float64{&c.VarianceTime, &c.VarianceBytes} }

func appendCounters(b []byte, c Counters) []byte {
	b = append(b, byte(c.Module))
	b = binary.AppendVarint(b, int64(c.Rank))
	b = binary.AppendVarint(b, int64(c.File))
	ns := c.numbers()
	b = binary.AppendUvarint(b, uint64(len(ns)))
	for i := 0; i < len(ns); i++ {
		n := *ns[i]
		b = binary.AppendVarint(b, n)
		if n != 0 && n != None {
			continue
		}
		run := 0
		for i+1 < len(ns) && *ns[i+1] == n {
			run++
			i++
		}
		b = binary.AppendUvarint(b, uint64(run))
	}
	fs := c.fractions()
	b = binary.AppendUvarint(b, uint64(len(fs)))
	for _, f := range fs {
		b = binary.AppendUvarint(b, bits.ReverseBytes64(math.Float64bits(*f)))
	}
	return b
}

// mostNumbers bounds the numbers of counters, with room for later versions.
const mostNumbers = 1 << 10

func (d *decoder) counters() Counters {
	c := Counters{Module: Module(d.byte()), Rank: d.int32(0), File: d.int32(0)}
	ns := c.numbers()
	left := d.uvarint()
	if left > mostNumbers {
		d.fail(errRange)
	}
	for d.err == nil && left > 0 {
		n, times := d.sum(0), uint64(1)
		if n == 0 || n == None {
			times += d.uvarint()
		}
		if times > left || times == 0 {
			d.fail(errRange)
			break
		}
		left -= times
		for ; times > 0 && len(ns) > 0; times-- {
			*ns[0] = n
			ns = ns[1:]
		}
	}
	fs := c.fractions()
	left = d.uvarint()
	if left > mostNumbers {
		d.fail(errRange)
	}
	for ; d.err == nil && left > 0; left-- {
		f := math.Float64frombits(bits.ReverseBytes64(d.uvarint()))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			d.fail(errRange)
		}
		if len(fs) > 0 {
			*fs[0] = f
			fs = fs[1:]
		}
	}
	return c
}
