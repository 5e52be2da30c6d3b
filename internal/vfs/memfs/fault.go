package memfs

import (
	"io"
	"io/fs"
	"sync"

	"ckpt/internal/vfs"
)

// A Fault says which operation fails, and how.
type Fault struct {
	// At is the number of the operation, from 1; 0 for no fault.
	At int
	// Of says which operations are counted; nil for all.
	Of func(Op) bool
	// Err is the error that it returns, within a *fs.PathError.
	Err error
	// Short makes a write that fails write half of its bytes, and one without
	// Err say so and no more.
	Short bool
	// Stop makes every later operation fail as well, as if the disk were gone.
	Stop bool
}

// FaultFS makes the operations of a file system fail, one at a time, for tests of what a
// program does then.
//
//	f := memfs.WithFault(fsys, memfs.Fault{At: 7, Err: syscall.ENOSPC})
//	... use f as a vfs.FS ...
//
// A first run without a fault counts the operations; a test then fails each of
// them in turn. A sync that fails has the file system beneath lose what it should
// have written, if it can: memfs.FS can. It goes around the page cache if the file
// system beneath does.
type FaultFS struct {
	vfs.Watched
	fault Fault

	mu      sync.Mutex
	ops     []Op
	counted int // of ops
}

// Op is an operation that was asked for.
type Op struct{ Name, Path string }

var _ vfs.FS = (*FaultFS)(nil)

// WithFault returns fsys with a fault.
func WithFault(fsys vfs.FS, fault Fault) *FaultFS {
	f := &FaultFS{fault: fault}
	f.Watched = vfs.Watch(fsys, f.open)
	return f
}

// Ops lists the operations so far.
func (f *FaultFS) Ops() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Op(nil), f.ops...)
}

// step counts an operation. It reports whether this is the one to fail, and
// the error if any.
func (f *FaultFS) step(op, name string) (hit bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, Op{op, name})
	counts := f.fault.Of == nil || f.fault.Of(Op{op, name})
	if counts {
		f.counted++
	}
	at, n := f.fault.At, f.counted
	hit = at > 0 && (counts && n == at || f.fault.Stop && n >= at)
	if hit && f.fault.Err != nil {
		err = &fs.PathError{Op: op, Path: name, Err: f.fault.Err}
	}
	return hit, err
}

func (f *FaultFS) open(name string, w vfs.Way) (vfs.File, error) {
	if _, err := f.step(w.Op, name); err != nil {
		return nil, err
	}
	in, err := w.Open(f.FS, name)
	if err != nil {
		return nil, err
	}
	return &faultFile{fs: f, in: in, name: name}, nil
}

// Rename implements vfs.FS.
func (f *FaultFS) Rename(oldName, newName string) error {
	if _, err := f.step("rename", newName); err != nil {
		return err
	}
	return f.FS.Rename(oldName, newName)
}

// Remove implements vfs.FS.
func (f *FaultFS) Remove(name string) error {
	if _, err := f.step("remove", name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// Mkdir implements vfs.FS.
func (f *FaultFS) Mkdir(name string) error {
	if _, err := f.step("mkdir", name); err != nil {
		return err
	}
	return f.FS.Mkdir(name)
}

// ReadDir implements vfs.FS.
func (f *FaultFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if _, err := f.step("readdir", name); err != nil {
		return nil, err
	}
	return f.FS.ReadDir(name)
}

// Stat implements vfs.FS.
func (f *FaultFS) Stat(name string) (fs.FileInfo, error) {
	if _, err := f.step("stat", name); err != nil {
		return nil, err
	}
	return f.FS.Stat(name)
}

// SyncDir implements vfs.FS.
func (f *FaultFS) SyncDir(name string) error {
	if _, err := f.step("syncdir", name); err != nil {
		if in, ok := f.FS.(interface{ FailSyncDir(string) }); ok {
			in.FailSyncDir(name)
		}
		return err
	}
	return f.FS.SyncDir(name)
}

// Lock implements vfs.FS.
func (f *FaultFS) Lock(name string) (io.Closer, error) {
	if _, err := f.step("lock", name); err != nil {
		return nil, err
	}
	return f.FS.Lock(name)
}

// Locked implements vfs.FS.
func (f *FaultFS) Locked(name string) (bool, error) { return vfs.TryLocked(f, name) }

// Free implements vfs.FS.
func (f *FaultFS) Free(name string) (int64, error) {
	if _, err := f.step("free", name); err != nil {
		return 0, err
	}
	return f.FS.Free(name)
}

type faultFile struct {
	vfs.OnlyBytes
	fs   *FaultFS
	in   vfs.File
	name string
}

func (f *faultFile) ReadAt(b []byte, off int64) (int, error) {
	if _, err := f.fs.step("read", f.name); err != nil {
		return 0, err
	}
	return f.in.ReadAt(b, off)
}

func (f *faultFile) WriteAt(b []byte, off int64) (int, error) {
	hit, err := f.fs.step("write", f.name)
	if !hit || err == nil && !f.fs.fault.Short {
		return f.in.WriteAt(b, off)
	}
	n := 0
	if f.fs.fault.Short {
		n, _ = f.in.WriteAt(b[:len(b)/2], off)
		if err == nil {
			err = &fs.PathError{Op: "write", Path: f.name, Err: io.ErrShortWrite}
		}
	}
	return n, err
}

func (f *faultFile) Sync() error {
	if _, err := f.fs.step("sync", f.name); err != nil {
		if in, ok := f.in.(interface{ FailSync() }); ok {
			in.FailSync()
		}
		return err
	}
	return f.in.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	if _, err := f.fs.step("truncate", f.name); err != nil {
		return err
	}
	return f.in.Truncate(size)
}

func (f *faultFile) Size() (int64, error) {
	if _, err := f.fs.step("size", f.name); err != nil {
		return 0, err
	}
	return f.in.Size()
}

// Close always closes, even if it says that it failed.
func (f *faultFile) Close() error {
	_, err := f.fs.step("close", f.name)
	if cerr := f.in.Close(); err == nil {
		err = cerr
	}
	return err
}
