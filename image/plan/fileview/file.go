package fileview

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// DefaultBuffer is the size of the buffer if Options do not say otherwise. It is
// the one that Zickler (thesis, 2015), appendix A.1, measured with, and the
// default of ROMIO for reads.
const DefaultBuffer = 4 << 20

// maxBuffer is far beyond any gain, and saves the process from a number with too
// many digits.
const maxBuffer = 1 << 30

// ReadWriterAt is a file. Both methods may be called by several goroutines at
// once. If it is a Locker as well, that one is used unless Options name another.
type ReadWriterAt interface {
	io.ReaderAt
	io.WriterAt
}

// Options are the settings of a File. The zero value is usable.
type Options struct {
	Rule   Rule   // nil: Adaptive
	Buffer int64  // bytes, at most 1 GiB; 0: DefaultBuffer
	Device Device // what the rule knows of the storage
	// Locker keeps writers apart. If it is nil and the file is no Locker, the
	// File makes a lock of its own, and only calls through this File are kept
	// apart.
	Locker Locker
}

// A File reads and writes a file through a view. It may be used by several
// goroutines at once.
type File struct {
	file   ReadWriterAt
	view   *View
	rule   Rule
	buffer int64
	device Device
	locker Locker

	bufMu sync.Mutex
	buf   []byte // as large as was needed so far; Options.Buffer at most

	statsMu sync.Mutex
	stats   Stats
}

// NewFile returns file as seen through the view. It fails if an option is out of
// range. The file stays the caller's, to sync and to close. Plan alone works with
// a nil file.
func NewFile(file ReadWriterAt, v *View, o Options) (*File, error) {
	f := &File{file: file, view: v, rule: o.Rule, buffer: o.Buffer, device: o.Device, locker: o.Locker}
	if f.rule == nil {
		f.rule = Adaptive
	}
	if f.buffer == 0 {
		f.buffer = DefaultBuffer
	}
	if f.buffer < 1 || f.buffer > maxBuffer {
		return nil, fmt.Errorf("file view: buffer of %d bytes: must be between 1 byte and 1 GiB", f.buffer)
	}
	if err := f.device.check(); err != nil {
		return nil, fmt.Errorf("file view: %w", err)
	}
	if f.locker == nil {
		var ok bool
		if f.locker, ok = file.(Locker); !ok {
			f.locker = new(RangeLock)
		}
	}
	return f, nil
}

// An Error is a failed access to the file.
type Error struct {
	Op         string // read, write, lock, or "read before write" of a read-modify-write
	ViewOffset int64  // of the first wanted byte of the access
	Offset     int64  // of the access in the file; -1 if the request was refused
	Len        int64  // bytes of the access, or of the refused request
	Err        error
}

func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s %d bytes at view offset %d: %v", e.Op, e.Len, e.ViewOffset, e.Err)
	}
	return fmt.Sprintf("%s %d bytes at offset %d (view offset %d): %v", e.Op, e.Len, e.Offset, e.ViewOffset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

var (
	errNegative = errors.New("the offset is negative")
	errBeyond   = errors.New("the view ends before that")
)

// ReadAt reads len(p) bytes of the view from viewOff on. As io.ReaderAt wants
// it, it returns an error if it read fewer: io.EOF where the view or the file
// ends, an *Error otherwise. It takes no lock.
func (f *File) ReadAt(p []byte, viewOff int64) (int, error) {
	if viewOff < 0 {
		return 0, &Error{Op: "read", ViewOffset: viewOff, Offset: -1, Len: int64(len(p)), Err: errNegative}
	}
	done := 0
	plan := f.planner(Read, viewOff, int64(len(p)))
	for w, ok := plan.next(); ok; w, ok = plan.next() {
		n, err := f.readWindow(&w, p[done:done+int(w.data)])
		done += n
		if err == io.EOF {
			return done, err
		}
		if err != nil {
			return done, f.fail("read", &w, viewOff+int64(done-n), err)
		}
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// WriteAt writes p to the view from viewOff on. It writes nothing if that goes
// beyond the end of the view. Errors are of type *Error; n counts the bytes that
// were certainly written.
func (f *File) WriteAt(p []byte, viewOff int64) (n int, err error) {
	refused := &Error{Op: "write", ViewOffset: viewOff, Offset: -1, Len: int64(len(p))}
	if viewOff < 0 {
		refused.Err = errNegative
		return 0, refused
	}
	if int64(len(p)) > max(0, f.view.size-viewOff) {
		refused.Err = errBeyond
		return 0, refused
	}
	plan := f.planner(Write, viewOff, int64(len(p)))
	for w, ok := plan.next(); ok; w, ok = plan.next() {
		m, op, err := f.writeWindow(&w, p[n:n+int(w.data)])
		n += m
		if err != nil {
			return n, f.fail(op, &w, viewOff+int64(n-m), err)
		}
	}
	return n, nil
}

func (f *File) fail(op string, w *window, viewOff int64, err error) error {
	return &Error{Op: op, ViewOffset: viewOff, Offset: w.off, Len: w.len, Err: err}
}

// planner returns the plan of the part of a request that is within the view.
func (f *File) planner(a Access, viewOff, n int64) planner {
	p := planner{rule: f.rule, access: a, buffer: f.buffer, device: f.device, end: -1}
	if viewOff >= 0 && viewOff < f.view.size && n > 0 {
		p.at = f.view.at(viewOff)
		p.left = min(n, f.view.size-viewOff)
	}
	return p
}
