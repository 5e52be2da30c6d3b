package fileview

import (
	"fmt"
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewOFDLock returns a Locker for the file behind conn, like an *os.File open for writing. It
// keeps apart the goroutines that share it, and these from other processes and open files that
// lock the file in this way.
//
// It uses open file description locks, see fcntl_locking(2): advisory, one Locker per open
// file, gone when the file is closed. A network file system may keep machines apart or not.
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

// LockRange implements Locker. It waits for goroutines of this process first, then in the
// kernel for others.
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
