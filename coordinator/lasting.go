package coordinator

import (
	"errors"
	"net"
	"os"
	"sync"
)

// A lasting listener accepts connections on a Unix socket, and on another one once the file
// of the first has gone.
type lasting struct {
	mu     sync.Mutex
	now    *net.UnixListener
	closed bool
}

// renew listens on a socket of this name instead.
func (l *lasting) renew(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	next, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return next.Close()
	}
	if l.now != nil {
		l.now.SetUnlinkOnClose(false) // its name may be that of the next
		l.now.Close()
	}
	l.now = next
	return nil
}

func (l *lasting) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Accept implements net.Listener.
func (l *lasting) Accept() (net.Conn, error) {
	for {
		now := l.current()
		conn, err := now.Accept()
		if err == nil || now == l.current() {
			return conn, err
		}
	}
}

// Close implements net.Listener.
func (l *lasting) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.now.Close()
}

// Addr implements net.Listener.
func (l *lasting) Addr() net.Addr { return l.current().Addr() }
