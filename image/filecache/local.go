package filecache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A fragment is the memory of a node for its part of a file. Offsets count from the
// beginning of the fragment. Bytes that were not written are zero.
type fragment interface {
	readAt(p []byte, off int64) error
	writeAt(p []byte, off int64) error
	persist(off, n int64) error
	// length returns where the last byte that was written ends, as far as that is known.
	length() (int64, error)
	close() error
}

func fragmentPath(dir string) string { return filepath.Join(dir, "fragment") }

// openFragment opens the fragment of n bytes, which is there, or makes it.
func openFragment(node Node, dir string, n int64, mapped, create bool) (fragment, error) {
	path := fragmentPath(dir)
	open := node.FS.OpenWrite
	if create {
		if err := durable.Remove(node.FS, path); err != nil {
			return nil, err
		}
		open = node.FS.Create
	}
	f, err := open(path)
	if err != nil {
		return nil, durable.Op("open", path, -1, err)
	}
	if create && mapped && n > 0 {
		// A disk that is full says so now, and not when a mapped page is touched.
		if err = f.Preallocate(n); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
	}
	if err == nil && create {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(durable.Op("create", path, -1, err), f.Close())
	}
	if mapped && n > 0 {
		if b, err := f.Map(n); err == nil {
			return &mappedFragment{f, path, b}, nil
		}
	}
	return &fileFragment{f, path}, nil
}

// A fileFragment reads and writes a file.
type fileFragment struct {
	file vfs.File
	path string
}

func (f *fileFragment) readAt(p []byte, off int64) error {
	n, err := f.file.ReadAt(p, off)
	if n < len(p) && (err == nil || err == io.EOF) {
		clear(p[n:])
		err = nil
	}
	if n == len(p) {
		err = nil
	}
	return durable.Op("read", f.path, off, err)
}

func (f *fileFragment) writeAt(p []byte, off int64) error {
	return durable.WriteAt(f.file, f.path, p, off)
}

func (f *fileFragment) persist(int64, int64) error {
	return durable.Op("sync", f.path, -1, f.file.Sync())
}

func (f *fileFragment) length() (int64, error) {
	n, err := f.file.Size()
	return n, durable.Op("read", f.path, -1, err)
}

func (f *fileFragment) close() error { return f.file.Close() }

// A mappedFragment is a file in memory: on a file system with direct access (DAX) the
// memory itself.
type mappedFragment struct {
	file vfs.File
	path string
	mem  vfs.Mapping
}

func (m *mappedFragment) readAt(p []byte, off int64) error {
	return durable.Op("read", m.path, off, vfs.CopyMapped(p, m.mem.Bytes()[off:]))
}

func (m *mappedFragment) writeAt(p []byte, off int64) error {
	return durable.Op("write", m.path, off, vfs.CopyMapped(m.mem.Bytes()[off:], p))
}

func (m *mappedFragment) persist(off, n int64) error {
	return durable.Op("sync", m.path, off, m.mem.Sync(off, n))
}

func (m *mappedFragment) length() (int64, error) { return int64(len(m.mem.Bytes())), nil }

func (m *mappedFragment) close() error { return errors.Join(m.mem.Close(), m.file.Close()) }

// Handle is a file as a process uses it, in the cache of all nodes (Process) or on its
// own (Local).
type Handle interface {
	io.ReaderAt
	io.WriterAt
	WriteIf(b []byte, off int64, mask int) (bool, error)
	Sync(ctx context.Context) error
	Close(ctx context.Context) error
	Size() int64
}

var (
	_ Handle = (*Process)(nil)
	_ Handle = (*Local)(nil)
)

// A Local is a private file of a node: no other node sees it, and the store never
// does.
type Local struct {
	node Node
	path string
	opt  Options
	frag fragment

	mu sync.Mutex
}

// OpenLocal opens a private file of a node, Options.Size bytes long. Create makes it,
// in place of one that is there; DeleteOnClose removes it in the end. Sync makes it
// durable on the node.
func (c *Cache) OpenLocal(node int, name string, opt Options) (*Local, error) {
	opt.Processes = []int{node}
	if err := c.check(name, &opt); err != nil {
		return nil, err
	}
	n := c.Nodes[node]
	l := &Local{node: n, path: fragmentPath(localDir(n, name)), opt: opt}
	dir := filepath.Dir(l.path)
	err := durable.MkdirAll(n.FS, dir)
	if err == nil && opt.Flags&Create == 0 && opt.Size == 0 {
		l.opt.Size, err = sizeOfFile(n, l.path)
	}
	if err == nil {
		l.frag, err = openFragment(n, dir, l.opt.Size, !opt.Unmapped, opt.Flags&Create != 0)
	}
	if err == nil {
		err = durable.Op("sync", dir, -1, n.FS.SyncDir(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("open %s on node %d: %w", name, node, err)
	}
	return l, nil
}

func localDir(n Node, name string) string { return n.dir(name) + "%local" }

func sizeOfFile(n Node, path string) (int64, error) {
	fi, err := n.FS.Stat(path)
	if err != nil {
		return 0, durable.Op("open", path, -1, err)
	}
	return fi.Size(), nil
}

// ReadAt implements io.ReaderAt.
func (l *Local) ReadAt(b []byte, off int64) (int, error) {
	n := max(min(int64(len(b)), l.opt.Size-off), 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frag == nil || off < 0 {
		return 0, durable.Op("read", l.path, off, ErrClosed)
	}
	if err := l.frag.readAt(b[:n], off); err != nil {
		return 0, err
	}
	if n < int64(len(b)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// WriteAt implements io.WriterAt.
func (l *Local) WriteAt(b []byte, off int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(b, off)
}

func (l *Local) write(b []byte, off int64) (int, error) {
	var err error
	switch {
	case l.frag == nil:
		err = ErrClosed
	case l.opt.readOnly():
		err = ErrReadOnly
	case off < 0 || off+int64(len(b)) > l.opt.Size:
		err = ErrBeyond
	default:
		err = l.frag.writeAt(b, off)
	}
	if err != nil {
		return 0, durable.Op("write", l.path, off, err)
	}
	return len(b), nil
}

// WriteIf writes b if the cell is free, as Process.WriteIf.
func (l *Local) WriteIf(b []byte, off int64, mask int) (bool, error) {
	if mask < 0 || mask >= len(l.opt.Masks) {
		return false, fmt.Errorf("write %s: mask %d of %d", l.path, mask, len(l.opt.Masks))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frag == nil || off < 0 || off+int64(len(b)) > l.opt.Size {
		return false, durable.Op("write", l.path, off, ErrBeyond)
	}
	free, err := isFree(l.frag, off, len(b), l.opt.Masks[mask])
	if err == nil && free {
		_, err = l.write(b, off)
	}
	return free && err == nil, err
}

// Sync makes the file durable on its node.
func (l *Local) Sync(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frag == nil {
		return durable.Op("sync", l.path, -1, ErrClosed)
	}
	return l.frag.persist(0, l.opt.Size)
}

// Close makes the file durable and closes it, or removes it.
func (l *Local) Close(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frag == nil {
		return durable.Op("close", l.path, -1, ErrClosed)
	}
	var err error
	if l.opt.Flags&(ReadOnly|DeleteOnClose) == 0 {
		err = l.frag.persist(0, l.opt.Size)
	}
	err = errors.Join(err, l.frag.close())
	l.frag = nil
	if l.opt.Flags&DeleteOnClose != 0 {
		err = errors.Join(err, clearDir(l.node, filepath.Dir(l.path)))
	}
	return err
}

// Size returns the length of the file.
func (l *Local) Size() int64 { return l.opt.Size }
