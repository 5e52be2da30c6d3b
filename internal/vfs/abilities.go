package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// An Opener opens a file of a file system: a function of this package, or a method as FS.Open.
type Opener func(fsys FS, name string) (File, error)

// CreateDirect makes a file around the page cache.
func CreateDirect(fsys FS, name string) (File, error) {
	if d, ok := fsys.(DirectCreator); ok {
		return d.CreateDirect(name)
	}
	return nil, &fs.PathError{Op: "create", Path: name, Err: errors.ErrUnsupported}
}

// OpenDirect opens a file for reading around the page cache.
func OpenDirect(fsys FS, name string) (File, error) {
	if d, ok := fsys.(DirectOpener); ok {
		return d.OpenDirect(name)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

// OpenWriteDirect opens a file for reading and writing around the page cache.
func OpenWriteDirect(fsys FS, name string) (File, error) {
	if d, ok := fsys.(DirectWriter); ok {
		return d.OpenWriteDirect(name)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

// Preallocate takes room for a file.
func Preallocate(f File, size int64) error {
	if p, ok := f.(Preallocator); ok {
		return p.Preallocate(size)
	}
	return errors.ErrUnsupported
}

// Truncate makes a file shorter.
func Truncate(f File, size int64) error {
	if p, ok := f.(Preallocator); ok {
		return p.Truncate(size)
	}
	return errors.ErrUnsupported
}

// Flush starts to write a range back. It is a hint, and works without the ability.
func Flush(f File, off, n int64) error {
	if fl, ok := f.(Flusher); ok {
		return fl.Flush(off, n)
	}
	return nil
}

// Forget drops the pages of a file from the page cache.
func Forget(f File) error {
	if fg, ok := f.(Forgetter); ok {
		return fg.Forget()
	}
	return errors.ErrUnsupported
}

// ReopenDirect opens a file again around the page cache.
func ReopenDirect(f File) (File, error) {
	if r, ok := f.(Reopener); ok {
		return r.ReopenDirect()
	}
	return nil, errors.ErrUnsupported
}

// Map maps the first bytes of a file.
func Map(f File, size int64) (Mapping, error) {
	if m, ok := f.(Mapper); ok {
		return m.Map(size)
	}
	return nil, errors.ErrUnsupported
}

// ReadV reads into several buffers, one after the other if f is not Vectored.
func ReadV(f File, into [][]byte, off int64) (int64, error) {
	if v, ok := f.(Vectored); ok {
		return v.ReadV(into, off)
	}
	n, err := each(into, off, f.ReadAt)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// WriteV writes several buffers, one after the other if f is not Vectored.
func WriteV(f File, from [][]byte, off int64) (int64, error) {
	if v, ok := f.(Vectored); ok {
		return v.WriteV(from, off)
	}
	return each(from, off, f.WriteAt)
}

// each moves buffers one after the other, until one moves in part.
func each(of [][]byte, off int64, move func([]byte, int64) (int, error)) (moved int64, err error) {
	for _, b := range of {
		n, err := move(b, off+moved)
		moved += int64(n)
		if err != nil || n < len(b) {
			return moved, err
		}
	}
	return moved, nil
}
