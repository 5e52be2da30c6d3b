package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
)

// An output is a container file that is being written. It goes around the page cache
// where the file system lets it, and through it from the first write that does not
// work so. Several goroutines may write to it.
type output struct {
	fs      vfs.FS
	path    string
	trace   tracer
	created bool // by us: it is removed if it cannot be completed
	direct  bool
	file    vfs.File
	cached  atomic.Pointer[vfs.File] // used instead of file, once it is there
	space   reservation
}

// createOutput creates a file that becomes no longer than limit; 0 if that is not
// known.
func createOutput(fsys vfs.FS, path string, trace tracer, buffered bool, limit int64) (*output, error) {
	o := &output{fs: fsys, path: path, trace: trace, created: true}
	var direct func(string) (vfs.File, error)
	if dc, ok := fsys.(vfs.DirectCreator); ok && !buffered {
		direct = dc.CreateDirect
	}
	if err := o.open("create", direct, fsys.Create); err != nil {
		return nil, err
	}
	if limit > 0 {
		o.space.f, _ = o.file.(vfs.Preallocator)
		o.space.limit = limit
	}
	return o, nil
}

// openOutput opens a file that several ranks fill.
func openOutput(fsys vfs.FS, path string, trace tracer, buffered bool) (*output, error) {
	o := &output{fs: fsys, path: path, trace: trace}
	var direct func(string) (vfs.File, error)
	if dw, ok := fsys.(vfs.DirectWriter); ok && !buffered {
		direct = dw.OpenWriteDirect
	}
	return o, o.open("open", direct, fsys.OpenWrite)
}

func (o *output) open(op string, direct, buffered func(string) (vfs.File, error)) error {
	start := o.trace.now()
	err := errors.ErrUnsupported
	if direct != nil {
		o.file, err = direct(o.path)
		o.direct = err == nil
	}
	if notDirect(err) {
		o.file, err = buffered(o.path)
	}
	if err != nil {
		return durable.Op(op, o.path, -1, err)
	}
	o.trace.opened(o.created, start)
	return nil
}

// notDirect reports whether an error says that there is no direct I/O here.
func notDirect(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL)
}

// WriteAt implements io.WriterAt.
func (o *output) WriteAt(b []byte, off int64) (int, error) {
	o.space.reach(off + int64(len(b)))
	f := o.file
	if cached := o.cached.Load(); cached != nil {
		f = *cached
	}
	n, err := f.WriteAt(b, off)
	if err != nil && o.direct && o.cached.Load() == nil && notDirect(err) {
		if f, err = o.fs.OpenWrite(o.path); err != nil {
			return 0, err
		}
		if !o.cached.CompareAndSwap(nil, &f) {
			f.Close() // another write was faster
			f = *o.cached.Load()
		}
		n, err = f.WriteAt(b, off)
	}
	if fl, ok := f.(vfs.Flusher); ok && err == nil && (!o.direct || o.cached.Load() != nil) {
		// Only a hint: the disk should work while we go on.
		_ = fl.Flush(off, int64(n))
	}
	return n, err
}

// write is WriteAt, recorded and with an error that names the file.
func (o *output) write(b []byte, off int64) error {
	start := o.trace.now()
	n, err := o.WriteAt(b, off)
	o.trace.record(iotrace.Write, 0, off, int64(n), start)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return durable.Op("write", o.path, off, err)
}

// complete writes the tail of a file whose header and payload are there, and checks
// the length: a shorter file is no container.
func (o *output) complete(tail []byte, t trailer) error {
	if err := o.write(tail, t.indexOffset); err != nil {
		return err
	}
	if err := o.space.release(t.fileLen); err != nil {
		return durable.Op("write", o.path, -1, err)
	}
	size, err := o.file.Size()
	if err == nil && size != t.fileLen {
		err = fmt.Errorf("file is %d bytes long after writing %d", size, t.fileLen)
	}
	return durable.Op("write", o.path, -1, err)
}

// sync makes the file durable, but not its name.
func (o *output) sync() error {
	start := o.trace.now()
	if err := o.file.Sync(); err != nil {
		return durable.Op("sync", o.path, -1, err)
	}
	o.trace.record(iotrace.Sync, 0, iotrace.None, 0, start)
	return nil
}

// close closes the file, and removes it after an error if it is ours. It returns all
// errors.
func (o *output) close(err error) error {
	start := o.trace.now()
	var cached error
	if f := o.cached.Load(); f != nil {
		cached = (*f).Close()
	}
	cerr := durable.Op("close", o.path, -1, errors.Join(o.file.Close(), cached))
	o.trace.record(iotrace.Close, 0, iotrace.None, 0, start)
	if err == nil {
		err = cerr
	}
	if err == nil || !o.created {
		return err
	}
	if rerr := o.remove(); rerr != nil {
		err = fmt.Errorf("%w; then %w", err, rerr)
	}
	return err
}

func (o *output) remove() error {
	if err := o.fs.Remove(o.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return durable.Op("remove", o.path, -1, err)
	}
	return nil
}

// discard closes and removes the file, whatever closing it would say.
func (o *output) discard() error {
	_ = o.close(nil)
	return o.remove()
}
