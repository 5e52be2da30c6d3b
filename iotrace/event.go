package iotrace

import (
	"fmt"
	"time"
)

// An Op is the kind of an event. The numbers are part of the file format.
type Op uint8

// The operations. Programs do those up to Mmap to files. Those from Gather on are
// steps of a checkpoint's write path and no system calls, but for a LockWait of other
// programs: a call that may wait for a lock, as those of ROMIO's data sieving.
const (
	Open     Op = 1 + iota // also creat; Create says which
	Read                   // all calls that read
	Write                  // all calls that write
	Sync                   // fsync, fdatasync, sync_file_range
	Seek                   // to Offset
	Stat                   // stat, access and the like
	Truncate               // and fallocate, to Bytes
	Rename                 // File is the name that goes away
	Unlink
	Close
	Mmap     // of a file
	Gather   // an aggregator pulls bytes of rank Peer
	LockWait // for a byte-range lock, or for another process
	Encode   // filter and compressor: Bytes come out of it
	Barrier  // all ranks wait for each other
	opEnd
)

var opNames = [...]string{Open: "open", Read: "read", Write: "write", Sync: "sync", Seek: "seek", Stat: "stat",
	Truncate: "truncate", Rename: "rename", Unlink: "unlink", Close: "close", Mmap: "mmap", Gather: "gather",
	LockWait: "lock-wait", Encode: "encode", Barrier: "barrier"}

// Valid reports whether op is known.
func (op Op) Valid() bool { return op >= Open && op < opEnd }

func (op Op) String() string {
	if op.Valid() {
		return opNames[op]
	}
	return fmt.Sprintf("op(%d)", uint8(op))
}

// Data reports whether op moves bytes of a file. The other operations of programs are
// metadata operations.
func (op Op) Data() bool { return op == Read || op == Write }

// Step reports whether op is a step of the write path, not a call on a file.
func (op Op) Step() bool { return op >= Gather && op < opEnd }

// A Module is the interface that an operation went through. The numbers are part
// of the file format.
type Module uint8

// The modules.
const (
	POSIX Module = iota
	MPIIO
	STDIO
)

// A Zone is the zone of memory that the bytes come from: the number of package zones
// plus one, or 0 if the zone is unknown.
type Zone uint8

// None stands for a rank, file or offset that an event does not have.
const None = -1

// An Event is one operation. Numbers count from 0. None stands for unknown values and
// for those that do not apply.
type Event struct {
	Op     Op
	Module Module
	Zone   Zone
	Create bool  // of Open: the file was made, or emptied as by O_TRUNC
	Rank   int32 // index into Trace.Ranks
	File   int32 // index into Trace.Files
	Peer   int32 // of Gather: index into Trace.Ranks of the rank whose bytes they are
	// Checkpoint is the number of the checkpoint, from 1; 0 outside of checkpoints.
	Checkpoint int32
	Round      int32 // of a two-phase write
	Offset     int64 // in the file
	Bytes      int64
	Start, End int64 // ns since Trace.Origin
}

// A Rank is a process, or a thread of one, that did I/O.
type Rank struct {
	Rank int    // its number as the trace gives it: MPI rank, or process id of other programs
	Node string // host name, or number of the node; may be empty
}

// RecorderTime names the property with the nanoseconds that recording adds to the time of
// each call, as strace does, which stops it.
const RecorderTime = "recording, ns in a call"

// A Trace is everything that a job did to its files. Events are sorted by Start;
// events with the same Start stay in the order of recording.
type Trace struct {
	Job    string    // name of the job, or command
	Source string    // the recorder: ckpt, strace, darshan
	Origin time.Time // time 0; zero if only relative times are known
	Ranks  []Rank
	Files  []string // paths
	Events []Event
	// Runtime is the time that the job ran, with what is in no event; 0 if unknown.
	Runtime time.Duration
	// Counters are the whole record of a job if it has no events. Beside events, they
	// add what those do not show. Events and Counters never add up: both tell of the
	// same operations.
	Counters   []Counters
	Renames    []Renaming // in the order of their times
	Striping   []Striping
	Warnings   []Warning
	Properties []Property
}
