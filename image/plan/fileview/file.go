package fileview

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// DefaultBuffer is the size of the buffer that Zickler (thesis, 2015), appendix A.1, measured
// with, and ROMIO's default for reads.
const DefaultBuffer = 4 << 20

// maxBuffer is far beyond any gain, and saves the process from a number with too many digits.
const maxBuffer = 1 << 30

// ReadWriterAt is a file for several goroutines. If it is a Locker, that one is used unless
// Options name another.
type ReadWriterAt interface {
	io.ReaderAt
	io.WriterAt
}

// Options are the settings of a File. The zero value is usable.
type Options struct {
	Rule   Rule   // nil: Adaptive
	Buffer int64  // bytes, at most 1 GiB; 0: DefaultBuffer
	Device Device // what the rule knows of the storage
	// Locker keeps writers apart. Without one, and if the file is no Locker, only calls through
	// this File are kept apart.
	Locker Locker
}

// A File reads and writes a file through a view. Several goroutines may use it.
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

// NewFile returns file, which stays the caller's, as seen through the view. It fails if an
// option is out of range. For Plan alone the file may be nil.
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

// ReadAt reads len(p) bytes of the view from viewOff on, without a lock. If it read fewer it
// returns io.EOF where the view or the file ends, an *Error otherwise.
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

// WriteAt writes p to the view from viewOff on; nothing if that goes beyond its end. Errors are
// of type *Error; n counts the bytes that were certainly written.
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

// readWindow reads the wanted bytes of the window into p. An io.EOF says that some were
// missing.
func (f *File) readWindow(w *window, p []byte) (int, error) {
	if w.plain() {
		n, err := f.read(p, w.off)
		f.count(Stats{Useful: int64(n)})
		return n, err
	}
	f.bufMu.Lock()
	defer f.bufMu.Unlock()
	buf := f.sieve(w.len)
	got, err := f.read(buf, w.off)
	done := 0
	for pos, n := range w.pieces() {
		if pos >= int64(got) {
			break
		}
		done += copy(p[done:done+int(n)], buf[pos:got])
	}
	f.count(Stats{Useful: int64(done)})
	if err == io.EOF && len(p) > 0 && done == len(p) {
		// Only unwanted bytes are missing. Where there is nothing but hole the end of the file
		// is news.
		err = nil
	}
	return done, err
}

// writeWindow writes p to the blocks of the window. It returns the bytes of p written, and the
// operation that failed.
func (f *File) writeWindow(w *window, p []byte) (n int, op string, err error) {
	buf := p
	if !w.plain() {
		// The buffer before the lock, always: whoever has the lock waits for nothing.
		f.bufMu.Lock()
		defer f.bufMu.Unlock()
		buf = f.sieve(w.len)
	}
	f.count(Stats{Locks: 1})
	unlock, err := f.locker.LockRange(w.off, w.len)
	if err != nil {
		return 0, "lock", err
	}
	defer unlock()
	if !w.plain() {
		if err := f.overlay(w, buf, p); err != nil {
			return 0, "read before write", err
		}
	}
	f.count(Stats{Writes: 1})
	written, err := f.file.WriteAt(buf, w.off)
	for pos, m := range w.pieces() {
		n += int(min(m, max(0, int64(written)-pos)))
	}
	f.count(Stats{Written: int64(written), Useful: int64(n)})
	if err == nil && written < len(buf) {
		err = io.ErrShortWrite
	}
	return n, "write", err
}

// overlay fills buf with the bytes of the file, zeros beyond its end, and copies p over them.
func (f *File) overlay(w *window, buf, p []byte) error {
	f.count(Stats{Rewrites: 1})
	n, err := f.read(buf, w.off)
	if err != nil && err != io.EOF {
		return err
	}
	clear(buf[n:])
	for pos, m := range w.pieces() {
		copy(buf[pos:pos+m], p[:m])
		p = p[m:]
	}
	return nil
}

var errShortRead = errors.New("short read without an error")

// read is one call. Without an error it filled buf; io.EOF comes from the file only, since a
// hole taken to be beyond its end is overwritten.
func (f *File) read(buf []byte, off int64) (int, error) {
	f.count(Stats{Reads: 1})
	n, err := f.file.ReadAt(buf, off)
	f.count(Stats{Read: int64(n)})
	switch {
	case n == len(buf) && err == io.EOF:
		err = nil
	case n < len(buf) && err == nil:
		err = errShortRead
	}
	return n, err
}

// sieve returns n bytes of the buffer, which it enlarges if need be. The caller holds bufMu.
func (f *File) sieve(n int64) []byte {
	if n > int64(cap(f.buf)) {
		f.buf = make([]byte, max(n, min(2*int64(cap(f.buf)), f.buffer)))
	}
	return f.buf[:n]
}

// Stats counts what a File did, or would do, since it was made.
type Stats struct {
	Reads, Writes int64 // calls to the file
	Read, Written int64 // bytes that these calls moved, holes included
	Useful        int64 // bytes that the caller gave or got
	Locks         int64 // ranges locked
	Rewrites      int64 // read-modify-writes: one read, one write and one lock each
}

func (s *Stats) add(t Stats) {
	s.Reads += t.Reads
	s.Writes += t.Writes
	s.Read += t.Read
	s.Written += t.Written
	s.Useful += t.Useful
	s.Locks += t.Locks
	s.Rewrites += t.Rewrites
}

// Stats returns the sums so far: bytes when they have been moved, calls and locks when made.
func (f *File) Stats() Stats {
	f.statsMu.Lock()
	defer f.statsMu.Unlock()
	return f.stats
}

func (f *File) count(s Stats) {
	f.statsMu.Lock()
	defer f.statsMu.Unlock()
	f.stats.add(s)
}

// Plan returns what a request for the n bytes at viewOff would do, without access to the file,
// whose end it does not know. With a model of the storage, times follow from it.
func (f *File) Plan(a Access, viewOff, n int64) Stats {
	var s Stats
	p := f.planner(a, viewOff, n)
	for w, ok := p.next(); ok; w, ok = p.next() {
		s.Useful += w.data
		rewrite := a == Write && !w.plain()
		if a == Read || rewrite {
			s.Reads++
			s.Read += w.len
		}
		if a == Write {
			s.Locks++
			s.Writes++
			s.Written += w.len
		}
		if rewrite {
			s.Rewrites++
		}
	}
	return s
}
