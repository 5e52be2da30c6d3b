package vfs

import (
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Around is a file that is written around the page cache where the file system lets
// it, and through it from the first write that does not work so. Several goroutines may
// write to it.
type Around struct {
	fs     FS
	path   string
	file   File
	direct bool
	cached atomic.Pointer[File] // used instead of file, once it is there
}

// CreateAround makes a new file; buffered says that it is written through the page
// cache in any case.
func CreateAround(fsys FS, path string, buffered bool) (*Around, error) {
	return openAround(fsys, path, !buffered, FS.CreateDirect, FS.Create)
}

// OpenAround opens a file that is there.
func OpenAround(fsys FS, path string, buffered bool) (*Around, error) {
	return openAround(fsys, path, !buffered, FS.OpenWriteDirect, FS.OpenWrite)
}

func openAround(fsys FS, path string, try bool, direct, buffered Opener) (*Around, error) {
	a := &Around{fs: fsys, path: path}
	err := errors.ErrUnsupported
	if try {
		a.file, err = direct(fsys, path)
		a.direct = err == nil
	}
	if NotDirect(err) {
		a.file, err = buffered(fsys, path)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// NotDirect reports whether an error says that there is no direct I/O here.
func NotDirect(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL)
}

// Direct reports whether the file was opened around the page cache.
func (a *Around) Direct() bool { return a.direct }

// File returns the file as it was opened.
func (a *Around) File() File { return a.file }

// current returns the file that is used.
func (a *Around) current() (f File, direct bool) {
	if cached := a.cached.Load(); cached != nil {
		return *cached, false
	}
	return a.file, a.direct
}

// instead opens the file through the page cache.
func (a *Around) instead() (File, error) {
	f, err := a.fs.OpenWrite(a.path)
	if err != nil {
		return nil, err
	}
	if !a.cached.CompareAndSwap(nil, &f) {
		f.Close() // another goroutine was faster
	}
	return *a.cached.Load(), nil
}

// WriteAt implements io.WriterAt.
func (a *Around) WriteAt(b []byte, off int64) (int, error) {
	f, direct := a.current()
	n, err := f.WriteAt(b, off)
	if err != nil && direct && NotDirect(err) {
		if f, err = a.instead(); err != nil {
			return 0, err
		}
		direct = false
		n, err = f.WriteAt(b, off)
	}
	if err == nil && !direct {
		// Only a hint: the disk should work while we go on.
		_ = f.Flush(off, int64(n))
	}
	return n, err
}

// WriteV writes buffers that follow each other in the file, with one call if that works.
func (a *Around) WriteV(from [][]byte, off int64) error {
	var all int64
	for _, b := range from {
		all += int64(len(b))
	}
	if f, _ := a.current(); len(from) > 1 {
		if n, err := f.WriteV(from, off); err == nil && n == all {
			return nil
		}
	}
	for _, b := range from {
		n, err := a.WriteAt(b, off)
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// ReadAt implements io.ReaderAt.
func (a *Around) ReadAt(b []byte, off int64) (int, error) {
	f, direct := a.current()
	n, err := f.ReadAt(b, off)
	if err != nil && direct && NotDirect(err) {
		if f, err = a.instead(); err != nil {
			return 0, err
		}
		n, err = f.ReadAt(b, off)
	}
	return n, err
}

// Size returns the length of the file.
func (a *Around) Size() (int64, error) { return a.file.Size() }

// Sync makes the data of the file durable.
func (a *Around) Sync() error { return a.file.Sync() }

// Close closes the file.
func (a *Around) Close() error {
	var cached error
	if f := a.cached.Load(); f != nil {
		cached = (*f).Close()
	}
	return errors.Join(a.file.Close(), cached)
}

// DirectUnit is what offsets, lengths and memory addresses of direct I/O are
// multiples of.
const DirectUnit = 4096

// Aligned returns n zero bytes that begin where direct I/O wants its buffers to. The
// garbage collector of Go does not move them.
func Aligned(n int) []byte {
	b := make([]byte, n+DirectUnit-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (DirectUnit - 1))
	return b[skip : skip+n : skip+n]
}
