package container

import (
	"strconv"
	"time"

	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/zones"
)

// Tracing says where the operations of a Write are recorded, and as whose; nil records nothing.
type Tracing struct {
	Recorder   *iotrace.Recorder
	Rank       int32 // as Recorder.Rank numbers it
	Checkpoint int
	// Held, if not nil, returns when the file system, which may keep it back, began an
	// operation asked for at start that has ended now.
	Held func(start time.Time) time.Time
}

// began is Held, which may be nil.
func (t *Tracing) began(start time.Time) time.Time {
	if t.Held == nil {
		return start
	}
	return t.Held(start)
}

// tracer records the operations on one file.
type tracer struct {
	*Tracing
	file int32
}

func (t *Tracing) of(name string) tracer {
	if t == nil {
		return tracer{}
	}
	return tracer{t, t.Recorder.File(JobPath(name))}
}

// Waited records that operations on a file were kept back, for a time.
func (t *Tracing) Waited(name string, from, to time.Time) {
	if t == nil {
		return
	}
	t.Recorder.Record(iotrace.Event{Op: iotrace.LockWait, Rank: t.Rank, Peer: iotrace.None, Checkpoint: int32(t.Checkpoint),
		File: t.Recorder.File(JobPath(name)), Offset: iotrace.None, Start: t.Recorder.Since(from), End: t.Recorder.Since(to)})
}

// On returns a file system that records what is written to it.
func (t *Tracing) On(fsys vfs.FS) vfs.FS {
	if t == nil {
		return fsys
	}
	return tracedFS{vfs.Through(fsys), t}
}

type tracedFS struct {
	vfs.Buffered
	trace *Tracing
}

func (f tracedFS) Create(name string) (vfs.File, error) {
	t := f.trace.of(name)
	start := t.now()
	file, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	t.opened(true, start)
	return tracedFile{vfs.Only(file), t}, nil
}

func (f tracedFS) Rename(from, to string) error {
	t := f.trace.of(from)
	start := t.now()
	err := f.FS.Rename(from, to)
	t.record(iotrace.Rename, 0, iotrace.None, 0, start)
	return err
}

type tracedFile struct {
	vfs.Plain
	trace tracer
}

// Reads returns a file system that records what is read from it, also around the page cache.
func (t *Tracing) Reads(fsys vfs.FS) vfs.FS { return readFS{fsys, t} }

type readFS struct {
	vfs.FS
	trace *Tracing
}

func (f readFS) Open(name string) (vfs.File, error)       { return f.open(name, vfs.FS.Open) }
func (f readFS) OpenDirect(name string) (vfs.File, error) { return f.open(name, vfs.FS.OpenDirect) }

func (f readFS) open(name string, open vfs.Opener) (vfs.File, error) {
	t := f.trace.of(name)
	start := t.now()
	file, err := open(f.FS, name)
	if err != nil {
		return nil, err
	}
	t.opened(false, start)
	return readFile{file, t}, nil
}

type readFile struct {
	vfs.File
	trace tracer
}

func (f readFile) ReadAt(b []byte, off int64) (int, error) {
	start := f.trace.now()
	n, err := f.File.ReadAt(b, off)
	f.trace.record(iotrace.Read, 0, off, int64(n), start)
	return n, err
}

func (f readFile) ReadV(into [][]byte, off int64) (int64, error) {
	start := f.trace.now()
	n, err := f.File.ReadV(into, off)
	if n > 0 || err == nil { // else it is read in another way
		f.trace.record(iotrace.Read, 0, off, n, start)
	}
	return n, err
}

func (f readFile) Close() error {
	start := f.trace.now()
	err := f.File.Close()
	f.trace.record(iotrace.Close, 0, iotrace.None, 0, start)
	return err
}

func (f tracedFile) WriteAt(b []byte, off int64) (int, error) {
	start := f.trace.now()
	n, err := f.File.WriteAt(b, off)
	f.trace.record(iotrace.Write, 0, off, int64(n), start)
	return n, err
}

func (f tracedFile) Sync() error {
	start := f.trace.now()
	err := f.File.Sync()
	f.trace.record(iotrace.Sync, 0, iotrace.None, 0, start)
	return err
}

func (f tracedFile) Close() error {
	start := f.trace.now()
	err := f.File.Close()
	f.trace.record(iotrace.Close, 0, iotrace.None, 0, start)
	return err
}

// steps records what concerns no file.
func (t *Tracing) steps() tracer { return tracer{t, iotrace.None} }

// now is the beginning of an operation.
func (t tracer) now() time.Time {
	if t.Tracing == nil {
		return time.Time{}
	}
	return time.Now()
}

// record records an operation that began at start and ends now. Zone 0 means no zone.
func (t tracer) record(op iotrace.Op, zone iotrace.Zone, off, n int64, start time.Time) {
	t.event(op, false, zone, off, n, start)
}

// opened records that the file was opened, or made.
func (t tracer) opened(create bool, start time.Time) {
	t.event(iotrace.Open, create, 0, iotrace.None, 0, start)
}

func (t tracer) event(op iotrace.Op, create bool, zone iotrace.Zone, off, n int64, start time.Time) {
	if t.Tracing == nil {
		return
	}
	if op == iotrace.Write || op == iotrace.Sync {
		start = t.began(start)
	}
	t.Recorder.Record(iotrace.Event{Op: op, Zone: zone, Create: create, Rank: t.Rank, File: t.file, Peer: iotrace.None,
		Checkpoint: int32(t.Checkpoint), Offset: off, Bytes: n,
		Start: t.Recorder.Since(start), End: t.Recorder.Since(time.Now())})
}

// TraceRank names a rank in a trace.
func TraceRank(rank, node int) iotrace.Rank {
	return iotrace.Rank{Rank: rank, Node: strconv.Itoa(node)}
}

func traceZone(z zones.Zone) iotrace.Zone { return iotrace.Zone(z) + 1 }
