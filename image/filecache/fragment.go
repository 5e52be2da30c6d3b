package filecache

import (
	"errors"
	"io"
	"path/filepath"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A fragment is the memory of a node for its part of a file: a file. Offsets count from the
// beginning of the fragment. Bytes that were not written are zero.
type fragment struct {
	file vfs.File
	path string
}

func fragmentPath(dir string) string { return filepath.Join(dir, "fragment") }

// openFragment opens the fragment that is there, or makes it.
func openFragment(node Node, dir string, create bool) (*fragment, error) {
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
	if create {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(durable.Op("create", path, -1, err), f.Close())
	}
	return &fragment{f, path}, nil
}

func (f *fragment) readAt(p []byte, off int64) error {
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

func (f *fragment) writeAt(p []byte, off int64) error {
	return durable.WriteAt(f.file, f.path, p, off)
}

func (f *fragment) persist() error {
	return durable.Op("sync", f.path, -1, f.file.Sync())
}

func (f *fragment) length() (int64, error) {
	n, err := f.file.Size()
	return n, durable.Op("read", f.path, -1, err)
}

func (f *fragment) cut(n int64) error {
	if size, err := f.length(); err != nil || size <= n {
		return err
	}
	return durable.Op("truncate", f.path, n, f.file.Truncate(n))
}

func (f *fragment) close() error { return f.file.Close() }
