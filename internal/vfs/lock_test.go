package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFirstOf: where the file system lacks a kind of lock, another one does. Where it has
// no locks, that is an error, and the file does not count as free.
func TestFirstOf(t *testing.T) {
	for name, c := range map[string]struct {
		flock, fcntl error
		want         error
	}{
		"both":        {nil, unix.EIO, nil},
		"taken":       {unix.EWOULDBLOCK, nil, ErrLocked},
		"no flock":    {unix.ENOSYS, nil, nil},
		"nfs":         {unix.ENOLCK, unix.ENOLCK, ErrNoLocks},
		"lustre":      {unix.ENOSYS, unix.ENOSYS, ErrNoLocks},
		"fcntl taken": {unix.EOPNOTSUPP, unix.EAGAIN, ErrLocked},
		"fcntl held":  {unix.EOPNOTSUPP, unix.EACCES, ErrLocked},
		"broken":      {unix.EIO, nil, unix.EIO},
	} {
		err := firstOf(func() error { return c.flock }, func() error { return c.fcntl })
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestLockOfFork: a process that is being started has copies of the descriptors of this one
// until it runs its program. A lock that was let go is free all the same.
func TestLockOfFork(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	lock, err := OS{}.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(lock.(Held).Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OS{}.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestFcntlLock: the lock of fcntl(2) belongs to an open file, so that it keeps other files
// of one process apart, too.
func TestFcntlLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	take := func() (*os.File, error) {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f, firstOf(func() error { return unix.ENOSYS },
			func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}) })
	}
	one, err := take()
	if err != nil {
		t.Fatal(err)
	}
	two, err := take()
	if !errors.Is(err, ErrLocked) {
		t.Errorf("taken twice: %v", err)
	}
	one.Close()
	two.Close()
	three, err := take()
	if err != nil {
		t.Error(err)
	}
	three.Close()
}
