package filecache

import (
	"errors"
	"io"
	"path/filepath"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A fragment is the memory of a node for its part of a file. Offsets count from the
// beginning of the fragment. Bytes that were not written are zero.
type fragment interface {
	readAt(p []byte, off int64) error
	writeAt(p []byte, off int64) error
	persist(off, n int64) error
	// cut makes the fragment n bytes long if it is longer.
	cut(n int64) error
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

func (f *fileFragment) cut(n int64) error {
	if size, err := f.length(); err != nil || size <= n {
		return err
	}
	return durable.Op("truncate", f.path, n, f.file.Truncate(n))
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

// cut leaves the length: a mapped file does not grow, and its length is its size.
func (m *mappedFragment) cut(n int64) error {
	b := m.mem.Bytes()
	if n >= int64(len(b)) {
		return nil
	}
	return m.writeAt(make([]byte, int64(len(b))-n), n)
}

func (m *mappedFragment) close() error { return errors.Join(m.mem.Close(), m.file.Close()) }
