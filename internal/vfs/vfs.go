// Package vfs is the one small file system that images are written to and read
// from. Everything that package image does to a disk goes through it, so that a
// test can lose power after any operation (memfs) or fail any operation
// (faultfs), and so that a store can live somewhere else than on a local disk.
//
// The promises are those of POSIX and no more: data written to a File is safe
// only after its Sync; the name of a file that was created, renamed or removed
// is safe only after SyncDir of its directory; Rename replaces atomically.
//
// Names are slash-separated paths as package path/filepath makes them on Linux.
// Errors are *fs.PathError, or carry the name in another way, and answer to
// errors.Is with fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and the errno
// of the kernel (syscall.ENOSPC and so on).
//
// A FS may have further abilities: it is then a DirectCreator, DirectWriter, DirectOpener or
// LockTeller, and a File a Preallocator, Flusher, Vectored, Forgetter, Reopener or Mapper. The
// functions of their methods' names call them, and return errors.ErrUnsupported otherwise.
// Thereby a FS that wraps another can have all.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
)

// ErrLocked says that somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

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
	// Free returns the bytes that we may still write to the file system that
	// holds name, Unbounded if it does not tell.
	Free(name string) (int64, error)
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
}

// LockTeller is a FS that says whether somebody has the lock of a file, which stays free if
// it is free.
type LockTeller interface {
	Locked(name string) (bool, error)
}

// Locked reports whether somebody has the lock of a file.
func Locked(fsys FS, name string) (bool, error) {
	if t, ok := fsys.(LockTeller); ok {
		return t.Locked(name)
	}
	l, err := fsys.Lock(name)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, l.Close()
}

// DirectCreator is a FS that can write around the page cache. Offsets, lengths
// and memory addresses must then be multiples of 4096. A file system on which
// this does not work answers with errors.ErrUnsupported or EINVAL here or at
// the first write.
type DirectCreator interface {
	CreateDirect(name string) (File, error)
}

// DirectOpener is a FS that can read around the page cache, under the terms of
// DirectCreator.
type DirectOpener interface {
	OpenDirect(name string) (File, error)
}

// DirectWriter is a FS whose OpenWrite has a form that goes around the page
// cache, under the terms of DirectCreator.
type DirectWriter interface {
	OpenWriteDirect(name string) (File, error)
}

// Preallocator is a File that can take its room on the disk beforehand: it becomes
// size bytes long if it is shorter. Writes within the length can run side by side
// where those that make a file longer wait for each other. Truncate makes it
// shorter again.
type Preallocator interface {
	Preallocate(size int64) error
	Truncate(size int64) error
}

// Flusher is a File that can be asked to start writing a range back to the disk
// without waiting for it. It is no substitute for Sync.
type Flusher interface {
	Flush(off, n int64) error
}

// Vectored is a File that moves several buffers with one system call, which may move
// less than asked for. At the end of the file ReadV returns 0 and no error.
type Vectored interface {
	ReadV(into [][]byte, off int64) (int64, error)
	WriteV(from [][]byte, off int64) (int64, error)
}

// Forgetter is a File that can drop its pages from the page cache after Sync, so that
// reads come from the disk.
type Forgetter interface {
	Forget() error
}

// Reopener is a File that can be opened again around the page cache, under the terms
// of DirectCreator, whatever its name refers to by now.
type Reopener interface {
	ReopenDirect() (File, error)
}
