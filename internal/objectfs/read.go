package objectfs

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"ckpt/internal/vfs"
)

// headBytes come with the opening of a file, and tailBytes with the first short read near its
// end: a small file costs one request, and the index of an image one more.
const (
	headBytes = 64 << 10
	tailBytes = 512 << 10
)

// reading is a file that is open for reading: one version of it, whatever becomes of its name.
type reading struct {
	vfs.OnlyBytes
	fs        *FS
	name, key string
	tag       string
	size      int64
	head      []byte

	mu     sync.Mutex
	tail   []byte
	closed bool
}

func (r *reading) open() error {
	b := make([]byte, headBytes)
	o, n, err := r.fs.c.get(background(), r.key, b, 0, "")
	if o.Key = r.key; err == nil && gone(o) {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		if is, derr := r.fs.isDir(r.key, false); derr == nil && is {
			err = syscall.EISDIR
		}
	}
	r.tag, r.size, r.head = o.Tag, o.Size, b[:n]
	return err
}

// Size implements vfs.File.
func (r *reading) Size() (int64, error) { return r.size, nil }

// ReadAt implements vfs.File.
func (r *reading) ReadAt(b []byte, off int64) (int, error) {
	if r.isClosed() || off < 0 {
		return 0, failed("read", r.name, fs.ErrClosed)
	}
	if off >= r.size {
		return 0, io.EOF
	}
	want := b[:min(int64(len(b)), r.size-off)]
	n, err := r.read(want, off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (r *reading) read(b []byte, off int64) (int, error) {
	end := off + int64(len(b))
	if end <= int64(len(r.head)) {
		return copy(b, r.head[off:]), nil
	}
	if from := r.size - tailBytes; off >= max(from, 0) {
		tail, err := r.last(max(from, 0))
		if err != nil {
			return 0, failed("read", r.name, err)
		}
		return copy(b, tail[off-max(from, 0):]), nil
	}
	_, n, err := r.fs.c.get(background(), r.key, b, off, r.tag)
	return n, failed("read", r.name, err)
}

// last returns the end of the file.
func (r *reading) last(from int64) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tail != nil {
		return r.tail, nil
	}
	b := make([]byte, r.size-from)
	_, n, err := r.fs.c.get(background(), r.key, b, from, r.tag)
	if err == nil && n < len(b) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		r.tail = b
	}
	return r.tail, err
}

func (r *reading) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// WriteAt implements vfs.File.
func (r *reading) WriteAt([]byte, int64) (int, error) {
	return 0, failed("write", r.name, syscall.EBADF)
}

// Sync implements vfs.File.
func (r *reading) Sync() error { return nil }

// Close implements vfs.File.
func (r *reading) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return failed("close", r.name, fs.ErrClosed)
	}
	r.closed, r.tail = true, nil
	return nil
}
