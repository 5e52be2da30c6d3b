package fileview

import (
	"fmt"
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewOFDLock returns a Locker for the file behind conn, an *os.File for one,
// that keeps apart the goroutines that share the Locker, and these from all
// other processes and open files that lock the same file in this way. The file
// must be open for writing.
//
// It uses the open file description locks of Linux, see fcntl_locking(2): they
// are advisory and belong to the open file, so there must be one Locker per open
// file and no more, and they are gone when the file is closed. Whether they hold
// between machines depends on the network file system.
func NewOFDLock(conn syscall.Conn) (Locker, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("range lock: %w", err)
	}
	return &ofdLock{conn: raw}, nil
}

type ofdLock struct {
	// The kernel does not keep apart what comes through one open file.
	here RangeLock
	conn syscall.RawConn

	mu     sync.Mutex
	failed error // of an unlock, which cannot report it
}

// LockRange implements Locker. While another process has the range it waits in
// the kernel; the goroutines of this one wait for each other before that.
func (l *ofdLock) LockRange(off, n int64) (unlock func(), err error) {
	unlockHere, err := l.here.LockRange(off, n)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	err = l.failed
	l.mu.Unlock()
	if err == nil {
		err = l.fcntl(unix.F_WRLCK, off, n)
	}
	if err != nil {
		unlockHere()
		return nil, err
	}
	return func() {
		defer unlockHere()
		if err := l.fcntl(unix.F_UNLCK, off, n); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.failed = fmt.Errorf("an earlier lock was not given back: %w", err)
		}
	}, nil
}

func (l *ofdLock) fcntl(kind int16, off, n int64) error {
	lock := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: off, Len: n}
	var errno error
	err := l.conn.Control(func(fd uintptr) {
		for {
			// A signal to the thread ends the wait.
			if errno = unix.FcntlFlock(fd, unix.F_OFD_SETLKW, &lock); errno != unix.EINTR {
				return
			}
		}
	})
	if err == nil {
		err = errno
	}
	return err
}
