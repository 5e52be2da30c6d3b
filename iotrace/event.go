package iotrace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// An Op is the kind of an event. The numbers are part of the file format.
type Op uint8

// The operations. Programs do those up to Mmap to files. Those from Gather on are
// steps of a checkpoint's write path and no system calls, but for a LockWait of other
// programs: a call that may wait for a lock, as in ROMIO's data sieving.
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

// Property returns the value of a property, or "" if the trace lacks it.
func (t *Trace) Property(name string) string {
	for _, p := range t.Properties {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

var moduleNames = [...]string{POSIX: "POSIX", MPIIO: "MPIIO", STDIO: "STDIO"}

func (m Module) valid() bool { return int(m) < len(moduleNames) }

func (m Module) String() string {
	if m.valid() {
		return moduleNames[m]
	}
	return fmt.Sprintf("module(%d)", uint8(m))
}

// zoneNames repeats the names of package zones, which a leaf cannot import.
var zoneNames = [...]string{"", "library", "data", "shared", "iobuffer"}

// String returns the name of the zone, "" for an unknown zone, or the number of a zone
// without a name.
func (z Zone) String() string {
	if int(z) < len(zoneNames) {
		return zoneNames[z]
	}
	return strconv.Itoa(int(z))
}

// ParseOp reads the name of an operation.
func ParseOp(name string) (Op, error) {
	if i := slices.Index(opNames[1:], name); i >= 0 {
		return Op(i + 1), nil
	}
	return 0, fmt.Errorf("operation %q is unknown", name)
}

// ParseZone reads what Zone.String returns.
func ParseZone(name string) (Zone, error) {
	if i := slices.Index(zoneNames[:], name); i >= 0 {
		return Zone(i), nil
	}
	if n, err := strconv.ParseUint(name, 10, 8); err == nil && int(n) >= len(zoneNames) && strconv.Itoa(int(n)) == name {
		return Zone(n), nil
	}
	return 0, fmt.Errorf("zone %q is unknown", name)
}

// MaxTime bounds the times of events in either direction: 146 years in ns, so that
// differences do not overflow.
const MaxTime = 1<<62 - 1

// Check returns an error if the event is impossible in a trace with so many ranks and
// files.
func (e *Event) Check(ranks, files int) error {
	switch {
	case !e.Op.Valid():
		return fmt.Errorf("%v is unknown", e.Op)
	case !e.Module.valid():
		return fmt.Errorf("%v is unknown", e.Module)
	case e.Rank < None || int(e.Rank) >= ranks:
		return fmt.Errorf("rank %d of %d", e.Rank, ranks)
	case e.File < None || int(e.File) >= files:
		return fmt.Errorf("file %d of %d", e.File, files)
	case e.Peer < None || int(e.Peer) >= ranks:
		return fmt.Errorf("peer %d of %d", e.Peer, ranks)
	case e.Checkpoint < 0:
		return fmt.Errorf("checkpoint %d is negative", e.Checkpoint)
	case e.Round < 0:
		return fmt.Errorf("round %d is negative", e.Round)
	case e.Offset < None:
		return fmt.Errorf("offset %d is negative", e.Offset)
	case e.Bytes < 0:
		return fmt.Errorf("length %d is negative", e.Bytes)
	case e.Offset > math.MaxInt64-e.Bytes:
		return fmt.Errorf("%d bytes at offset %d end beyond what a file can hold", e.Bytes, e.Offset)
	case e.Start < -MaxTime || e.Start > MaxTime || e.End > MaxTime:
		return fmt.Errorf("time %d..%d ns is out of range", e.Start, e.End)
	case e.End < e.Start:
		return fmt.Errorf("ends %d ns before it starts", e.Start-e.End)
	}
	return nil
}

// validTables returns an error if anything but the events is invalid.
func (t *Trace) validTables() error {
	if err := validOrigin(t.Origin); err != nil {
		return err
	}
	if len(t.Ranks) > math.MaxInt32 || len(t.Files) > math.MaxInt32 {
		return errors.New("too many ranks or files")
	}
	ranks := make(map[Rank]bool, len(t.Ranks))
	for i, r := range t.Ranks {
		if ranks[r] {
			return fmt.Errorf("rank %d: %d of node %q is listed twice", i, r.Rank, r.Node)
		}
		ranks[r] = true
	}
	files := make(map[string]bool, len(t.Files))
	for i, name := range t.Files {
		if name == "" {
			return fmt.Errorf("file %d has no name", i)
		}
		if files[name] {
			return fmt.Errorf("file %d: %q is listed twice", i, name)
		}
		files[name] = true
	}
	return nil
}

// Sort sorts the events by Start and keeps the order of those that start together.
func (t *Trace) Sort() { sortEvents(t.Events) }

func sortEvents(events []Event) {
	byStart := func(a, b Event) int { return cmp.Compare(a.Start, b.Start) }
	if slices.IsSortedFunc(events, byStart) {
		return
	}
	if uint64(len(events)) > math.MaxUint32 {
		slices.SortStableFunc(events, byStart)
		return
	}
	// Moving keys of 16 bytes is several times faster than moving events. The position
	// in the key makes the sort stable.
	type key struct {
		start int64
		at    uint32
	}
	keys := make([]key, len(events))
	for i := range events {
		keys[i] = key{events[i].Start, uint32(i)}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Compare(a.at, b.at)
	})
	// Carry out the permutation cycle by cycle, without a second copy.
	const done = math.MaxUint32
	for i := range keys {
		if keys[i].at == done {
			continue
		}
		first := events[i]
		at := uint32(i)
		for {
			from := keys[at].at
			keys[at].at = done
			if from == uint32(i) {
				events[at] = first
				break
			}
			events[at] = events[from]
			at = from
		}
	}
}

// validParts returns an error if something beside tables and events is impossible.
func (t *Trace) validParts() error {
	ranks, files := len(t.Ranks), len(t.Files)
	if t.Runtime < 0 || t.Runtime > MaxTime {
		return fmt.Errorf("run time of %d ns is out of range", t.Runtime)
	}
	for i := range t.Counters {
		if err := t.Counters[i].check(ranks, files); err != nil {
			return fmt.Errorf("record %d of counters: %w", i, err)
		}
	}
	for i, s := range t.Striping {
		switch {
		case s.File < 0 || int(s.File) >= files:
			return fmt.Errorf("striping %d: file %d of %d", i, s.File, files)
		case s.Size < None || s.Count < None:
			return fmt.Errorf("striping %d: %d stripes of %d bytes", i, s.Count, s.Size)
		case s.Start < None || s.End < None:
			return fmt.Errorf("striping %d: part from %d to %d", i, s.Start, s.End)
		}
	}
	for i, r := range t.Renames {
		switch {
		case r.From < 0 || int(r.From) >= files || r.To < 0 || int(r.To) >= files:
			return fmt.Errorf("rename %d: file %d to %d of %d", i, r.From, r.To, files)
		case r.At < -MaxTime || r.At > MaxTime:
			return fmt.Errorf("rename %d: time %d ns is out of range", i, r.At)
		}
	}
	for i, w := range t.Warnings {
		if w.Code == "" || w.Count < 0 || w.Bytes < 0 {
			return fmt.Errorf("warning %d: code %q, %d operations, %d bytes", i, w.Code, w.Count, w.Bytes)
		}
		for _, f := range w.Files {
			if f.File < 0 || int(f.File) >= files || f.Count < 0 || f.Bytes < 0 {
				return fmt.Errorf("warning %d: file %d of %d, %d operations, %d bytes", i, f.File, files, f.Count, f.Bytes)
			}
		}
	}
	for i, p := range t.Properties {
		if p.Name == "" {
			return fmt.Errorf("property %d has no name", i)
		}
	}
	return nil
}

// check returns an error if counters are impossible in a trace with so many ranks and
// files. It bounds the times, so that Merge can shift them.
func (c *Counters) check(ranks, files int) error {
	switch {
	case !c.Module.valid():
		return fmt.Errorf("%v is unknown", c.Module)
	case c.Rank < None || int(c.Rank) >= ranks:
		return fmt.Errorf("rank %d of %d", c.Rank, ranks)
	case c.File < None || int(c.File) >= files:
		return fmt.Errorf("file %d of %d", c.File, files)
	}
	for _, t := range c.times() {
		if *t < None || *t > MaxTime {
			return errors.New("a time is out of range")
		}
	}
	return nil
}

// Sum adds two amounts that are not negative. Traces may have any numbers: a sum that
// is too large is the largest number.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
