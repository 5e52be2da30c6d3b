// Package vfs is the one small file system that images are written to and read
// from. Everything that package image does to a disk goes through it, so that a
// test can lose power after any operation (memfs) or fail any operation
// (faultfs), and so that a store can live somewhere else than on a local disk.
//
// It promises what POSIX does and no more: data written to a File is safe
// only after its Sync; the name of a file that was created, renamed or removed
// is safe only after SyncDir of its directory; Rename replaces atomically.
//
// Names are slash-separated paths as package path/filepath makes them on Linux.
// Errors are *fs.PathError, or carry the name in another way, and answer to
// errors.Is with fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and the errno
// of the kernel (syscall.ENOSPC and so on).
//
// Not every file system can do everything: a method that one lacks answers with
// errors.ErrUnsupported, and callers do without.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
)

// ErrLocked says that somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

// A Lease is a lock that its holder can lose. Lock of a file system with such locks returns it.
type Lease interface {
	io.Closer
	// Renew makes sure that the lock is still ours; an error says that it is not, or that this
	// cannot be told.
	Renew() error
	// Fence is a number that is larger than those of all holders before.
	Fence() int64
	// Contested reports whether the holder before us did not give the lock back: it may live and
	// believe that it has it, or its requests may.
	Contested() bool
}

// A Fencer is a file system with leases.
type Fencer interface {
	// Forbid makes sure that a file of this name, which nothing replaces, is not made later; it
	// fails with fs.ErrExist if it is there.
	Forbid(name string) error
	// Forbidden reports whether a name is.
	Forbidden(name string) (bool, error)
	// Trust makes sure that locks and names that are made once can be relied on below a directory.
	// It is cheap after the first time: the file ProofName then says on which storage it was tested.
	// A copy of the directory on another storage has that file, too, and is tested again.
	Trust(dir string) error
}

// ErrForbidden says that a file is not made since its name is forbidden.
var ErrForbidden = errors.New("its name is forbidden for a day: a process that has lost the job may still write it")

// ProofName is a file that Trust leaves in a directory.
const ProofName = "proof"

// Unbounded is more than any file system has.
const Unbounded = math.MaxInt64

// FS is a file system.
type FS interface {
	// Create makes a new file, mode 0600, open for reading and writing. It
	// fails with fs.ErrExist if the name is there.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing, so that several
	// processes can fill it.
	OpenWrite(name string) (File, error)
	// Rename replaces newName atomically.
	Rename(oldName, newName string) error
	// Remove unlinks a file or an empty directory.
	Remove(name string) error
	// Mkdir makes a directory, mode 0700. Its parent must exist. It fails
	// with fs.ErrExist if the name is there.
	Mkdir(name string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the entries of a directory durable.
	SyncDir(name string) error
	// Lock takes the exclusive advisory lock of a file, which it creates if
	// need be, and holds it until Close or the end of the process. It does
	// not wait: errors.Is(err, ErrLocked) if somebody else has it.
	Lock(name string) (io.Closer, error)
	// Locked reports whether somebody has the lock of a file, which stays free if it is free.
	Locked(name string) (bool, error)
	// Free returns the bytes that we may still write to the file system that
	// holds name, Unbounded if it does not tell.
	Free(name string) (int64, error)

	// CreateDirect, OpenDirect and OpenWriteDirect are Create, Open and OpenWrite around the
	// page cache. Offsets, lengths and memory addresses must then be multiples of DirectUnit.
	// Where this does not work the answer is errors.ErrUnsupported or EINVAL, here or at the
	// first read or write.
	CreateDirect(name string) (File, error)
	OpenDirect(name string) (File, error)
	OpenWriteDirect(name string) (File, error)
}

// File is an open file. ReadAt and WriteAt may be called from several
// goroutines at once.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the data and the length of the file durable, not its name.
	Sync() error
	Size() (int64, error)

	// Preallocate takes the space of the file on the disk beforehand: it becomes size bytes
	// long if it is shorter. Writes within the length can run side by side where those that
	// make a file longer wait for each other. Truncate makes it shorter again.
	Preallocate(size int64) error
	Truncate(size int64) error
	// Flush asks the disk to start writing a range, and does not wait. It is no Sync.
	Flush(off, n int64) error
	// ReadV and WriteV move several buffers with one system call, which may move less than
	// asked for. At the end of the file ReadV returns 0 and no error.
	ReadV(into [][]byte, off int64) (int64, error)
	WriteV(from [][]byte, off int64) (int64, error)
	// Forget drops the pages of the file from the page cache after Sync, so that reads come
	// from the disk.
	Forget() error
	// ReopenDirect opens the file again around the page cache, whatever its name refers to.
	ReopenDirect() (File, error)
}

// NoDirect are the methods of a FS that cannot go around the page cache.
type NoDirect struct{}

func (NoDirect) CreateDirect(name string) (File, error)    { return nil, unsupported("create", name) }
func (NoDirect) OpenDirect(name string) (File, error)      { return nil, unsupported("open", name) }
func (NoDirect) OpenWriteDirect(name string) (File, error) { return nil, unsupported("open", name) }

func unsupported(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: errors.ErrUnsupported}
}

// OnlyBytes are the methods of a File that reads and writes, and no more.
type OnlyBytes struct{}

func (OnlyBytes) Preallocate(int64) error              { return errors.ErrUnsupported }
func (OnlyBytes) Truncate(int64) error                 { return errors.ErrUnsupported }
func (OnlyBytes) Flush(int64, int64) error             { return errors.ErrUnsupported }
func (OnlyBytes) ReadV([][]byte, int64) (int64, error) { return 0, errors.ErrUnsupported }
func (OnlyBytes) WriteV([][]byte, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}
func (OnlyBytes) Forget() error               { return errors.ErrUnsupported }
func (OnlyBytes) ReopenDirect() (File, error) { return nil, errors.ErrUnsupported }

// Buffered is a FS whose files all go through the page cache. A type that embeds it overrides
// Create, Open and OpenWrite to see all files.
type Buffered struct {
	beneathFS
	NoDirect
}

// Plain is a File that reads and writes, and no more. A type that embeds it overrides ReadAt
// and WriteAt to see all bytes.
type Plain struct {
	beneathFile
	OnlyBytes
}

type (
	beneathFS   struct{ FS }
	beneathFile struct{ File }
)

// Through returns fsys without direct I/O.
func Through(fsys FS) Buffered { return Buffered{beneathFS: beneathFS{fsys}} }

// Only returns f without anything beyond reading and writing.
func Only(f File) Plain { return Plain{beneathFile: beneathFile{f}} }

// TryLocked is Locked of a FS that can only take the lock to find out.
func TryLocked(fsys FS, name string) (bool, error) {
	l, err := fsys.Lock(name)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, l.Close()
}

// An Opener opens a file of a file system, as the method FS.Open does.
type Opener func(fsys FS, name string) (File, error)

// Watched is a FS whose files are all opened by one function. A type that embeds it overrides
// the operations on names that it wants to see.
type Watched struct {
	beneathFS
	Opening
}

// Watch returns fsys with its files opened by open.
func Watch(fsys FS, open Opening) Watched { return Watched{beneathFS{fsys}, open} }

// A Way is how a file is opened: "create" or "open", around the page cache or not, and the
// method of the file system beneath.
type Way struct {
	Op     string
	Direct bool
	Open   Opener
}

// Opening are the methods of a FS that open files, by one function.
type Opening func(name string, w Way) (File, error)

func (o Opening) Create(name string) (File, error) { return o(name, Way{"create", false, FS.Create}) }
func (o Opening) Open(name string) (File, error)   { return o(name, Way{"open", false, FS.Open}) }
func (o Opening) OpenWrite(name string) (File, error) {
	return o(name, Way{"open", false, FS.OpenWrite})
}
func (o Opening) CreateDirect(name string) (File, error) {
	return o(name, Way{"create", true, FS.CreateDirect})
}
func (o Opening) OpenDirect(name string) (File, error) {
	return o(name, Way{"open", true, FS.OpenDirect})
}
func (o Opening) OpenWriteDirect(name string) (File, error) {
	return o(name, Way{"open", true, FS.OpenWriteDirect})
}

// ReadV reads into several buffers, one after the other if f cannot do so at once.
func ReadV(f File, into [][]byte, off int64) (int64, error) {
	n, err := f.ReadV(into, off)
	if errors.Is(err, errors.ErrUnsupported) {
		if n, err = each(into, off, f.ReadAt); err == io.EOF {
			err = nil
		}
	}
	return n, err
}

// WriteV writes several buffers, one after the other if f cannot do so at once.
func WriteV(f File, from [][]byte, off int64) (int64, error) {
	n, err := f.WriteV(from, off)
	if errors.Is(err, errors.ErrUnsupported) {
		n, err = each(from, off, f.WriteAt)
	}
	return n, err
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
