package memfs

import (
	"io"
	"io/fs"
	"slices"
	"syscall"

	"ckpt/internal/vfs"
)

// file is an open file.
type file struct {
	vfs.OnlyBytes
	fs     *FS
	node   *node
	name   string
	write  bool
	direct bool // it reads what is on the disk
	closed bool
}

func (f *file) bad(op string) error {
	return &fs.PathError{Op: op, Path: f.name, Err: syscall.EBADF}
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed || off < 0 {
		return 0, f.bad("read")
	}
	data := f.node.data
	if f.direct && len(f.node.lost) > 0 {
		data = f.node.onDisk()
	}
	if off >= int64(len(data)) {
		return 0, io.EOF
	}
	n := copy(b, data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	if f.closed || !f.write || off < 0 {
		f.fs.mu.Unlock()
		return 0, f.bad("write")
	}
	n := f.node
	if n.shared {
		n.data, n.shared = slices.Clone(n.data), false
	}
	if end := int(off) + len(b); end > len(n.data) {
		n.data = append(n.data, make([]byte, end-len(n.data))...)
	}
	copy(n.data[off:], b)
	n.dirty(int(off), len(b))
	f.fs.mu.Unlock()
	f.fs.after("write", f.name)
	return len(b), nil
}

func (f *file) Sync() error {
	f.fs.mu.Lock()
	if f.closed {
		f.fs.mu.Unlock()
		return f.bad("sync")
	}
	if n := f.node; !f.fs.IgnoreSync {
		n.sync()
	}
	f.fs.mu.Unlock()
	f.fs.after("sync", f.name)
	return nil
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return 0, f.bad("stat")
	}
	return int64(len(f.node.data)), nil
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return f.bad("close")
	}
	f.closed = true
	return nil
}
