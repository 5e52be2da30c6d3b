package memfs

import (
	"bytes"
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

// Truncate makes the file shorter; Preallocate is what makes it longer.
func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	if f.closed || !f.write || size < 0 {
		f.fs.mu.Unlock()
		return f.bad("truncate")
	}
	n := f.node
	n.data, n.shared = slices.Clone(n.data[:min(size, int64(len(n.data)))]), false
	for p := range n.lost {
		if p*PageSize >= len(n.data) {
			delete(n.lost, p)
		}
	}
	f.fs.mu.Unlock()
	f.fs.after("truncate", f.name)
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

// FailSync does to a file what a Sync does that fails on Linux. All dirty pages
// count as clean, although the disk may have some of them, or parts (Rebello et
// al., Can Applications Recover from fsync Failures?, USENIX ATC 2020). A later Sync
// succeeds without them; a page that is written again is dirty again. The caller
// returns an error of its choice, or nil: then the disk has lied.
func (f *file) FailSync() {
	f.fs.mu.Lock()
	n := f.node
	n.fail()
	if f.fs.Reread && len(n.lost) > 0 {
		n.data, n.lost = n.onDisk(), nil
	}
	f.fs.mu.Unlock()
	f.fs.after("failsync", f.name)
}

// FailSyncDir does to a directory what a SyncDir does that fails: a later one
// succeeds without the changes so far, unless there are new ones.
func (m *FS) FailSyncDir(name string) {
	m.mu.Lock()
	if n, err := m.find("syncdir", name); err == nil && n.isDir() {
		n.stale = len(n.pending) > 0
	}
	m.mu.Unlock()
	m.after("failsyncdir", name)
}

// page returns a page of a file that may be shorter.
func page(b []byte, number int) []byte {
	from := min(number*PageSize, len(b))
	return b[from:min(from+PageSize, len(b))]
}

// fail has all dirty pages count as clean.
func (n *node) fail() {
	if n.shared {
		return // all pages are clean
	}
	for p := range (len(n.data) + PageSize - 1) / PageSize {
		if bytes.Equal(page(n.data, p), page(n.synced, p)) {
			continue
		}
		if n.lost == nil {
			n.lost = make(map[int]bool)
		}
		n.lost[p] = true
	}
}

// dirty says that a range has been written.
func (n *node) dirty(off, length int) {
	for p := off / PageSize; p*PageSize < off+length; p++ {
		delete(n.lost, p)
	}
}

// sync writes the dirty pages to the disk.
func (n *node) sync() {
	if len(n.lost) > 0 {
		n.synced, n.shared, n.sum = n.onDisk(), false, nil
		return
	}
	n.synced, n.shared, n.sum = n.data, true, nil
}

// onDisk returns what the disk holds when all dirty pages have been written.
func (n *node) onDisk() []byte {
	b := slices.Clone(n.data)
	for p := range n.lost {
		now := page(b, p)
		clear(now[copy(now, page(n.synced, p)):])
	}
	return b
}
