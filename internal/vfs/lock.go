package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoLocks says that a file system has no locks at all or at the moment, as NFS without
// its lock service.
var ErrNoLocks = errors.New("the file system has no locks")

// Lock implements FS with flock(2), or fcntl(2) where the file system has only that.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, ownFile)
	if err != nil {
		return nil, err
	}
	share(f, inShared(name))
	return lock(f, name, os.Stat)
}

// Locked implements FS with a lock that several may have.
func (OS) Locked(name string) (bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer Held{f}.Close()
	err = Flock(f, false)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	return false, err
}

// Flock locks an open file or directory until it is closed, alone or together with others. It
// does not wait: ErrLocked if somebody else has it, ErrNoLocks without locks.
func Flock(f *os.File, alone bool) error {
	how, kind := unix.LOCK_SH, int16(unix.F_RDLCK)
	if alone {
		how, kind = unix.LOCK_EX, unix.F_WRLCK
	}
	return firstOf(
		func() error { return unix.Flock(int(f.Fd()), how|unix.LOCK_NB) },
		func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind}) })
}

// firstOf takes a lock in the first way that the file system has.
func firstOf(ways ...func() error) error {
	var none error
	for _, way := range ways {
		err := again(way)
		switch {
		case err == unix.EWOULDBLOCK || err == unix.EACCES:
			return ErrLocked
		case !lacking(err):
			return err
		}
		none = fmt.Errorf("%w: %w", ErrNoLocks, err)
	}
	return none
}

// lacking reports whether an error says that there is no lock of this kind. A directory has
// none of fcntl(2).
func lacking(err error) bool {
	return err == unix.ENOLCK || err == unix.ENOSYS || err == unix.EOPNOTSUPP || err == unix.EBADF
}

// lock takes the lock of an open file, or closes it. Stat looks at what its name leads to.
func lock(f *os.File, name string, stat func(string) (fs.FileInfo, error)) (io.Closer, error) {
	err := Flock(f, true)
	const looks = 5 // Locked has it for a moment
	for i := 0; err == ErrLocked && i < looks; i++ {
		time.Sleep(2 * time.Millisecond)
		err = Flock(f, true)
	}
	if err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	// The holder before us may have removed the file: then this lock is worthless.
	if err := stillNamed(f, name, stat); err != nil {
		return nil, errors.Join(err, Held{f}.Close())
	}
	return Held{f}, nil
}

// Held is a locked file.
type Held struct{ *os.File }

// Close lets the lock go, and does not leave that to the end of the descriptor: a process that
// is being started has a copy until it runs its own program.
func (h Held) Close() error {
	_ = unix.Flock(int(h.Fd()), unix.LOCK_UN)
	_ = unix.FcntlFlock(h.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
	return h.File.Close()
}

// stillNamed fails unless name is the name of an open file.
func stillNamed(f *os.File, name string, stat func(string) (fs.FileInfo, error)) error {
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := stat(name)
	if err != nil {
		return err
	}
	if !os.SameFile(opened, named) {
		return &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	return nil
}
