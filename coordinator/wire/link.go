package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/protocol"
)

// A Link carries messages over a connection. Sending never blocks: a peer that does not read,
// such as a stopped process, must not hold up the others. A goroutine sends what the kernel does
// not take at once, and then ends: with thousands of ranks, a goroutine for each would cost more
// than the messages.
type Link struct {
	// Limit, if set, is how many bytes may wait for a peer that does not read: then the
	// connection ends.
	Limit int

	conn net.Conn
	raw  syscall.RawConn // nil without a descriptor, and if bytes must be encrypted first
	r    *bufio.Reader

	mu      sync.Mutex
	queue   []byte // frames the kernel has not taken yet
	err     error  // of an earlier write or of encoding
	closing bool
	writer  sync.WaitGroup
}

func NewLink(conn net.Conn, r *bufio.Reader) (*Link, error) {
	l := &Link{conn: conn, r: r}
	_, encrypts := conn.(*SecureConn)
	var err error
	if sc, ok := conn.(syscall.Conn); ok && !encrypts {
		l.raw, err = sc.SyscallConn()
	}
	return l, err
}

// Send sends a message. An error of the connection shows on the reading side.
func (l *Link) Send(m protocol.Message) {
	frame, err := protocol.AppendFrame(nil, m)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fail(err)
		return
	}
	l.SendFrame(frame)
}

// SendFrame sends an encoded message; it does not keep frame.
func (l *Link) SendFrame(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil || l.closing:
		return
	case l.Limit > 0 && len(l.queue) > l.Limit:
		l.fail(errors.New("the peer does not read"))
		return
	case len(l.queue) > 0: // its writer takes this along
		l.queue = append(l.queue, frame...)
		return
	}
	rest, err := l.try(frame)
	if err != nil {
		l.fail(err)
		return
	}
	if len(rest) > 0 {
		l.queue = append(l.queue, rest...)
		l.writer.Go(l.drainQueue)
	}
}

// try writes what the kernel takes without waiting and returns the rest.
func (l *Link) try(b []byte) (rest []byte, err error) {
	if l.raw == nil {
		return b, nil // part of an encrypted record is of no use
	}
	werr := l.raw.Write(func(fd uintptr) bool {
		var n int
		n, err = syscall.Write(int(fd), b)
		b = b[max(0, n):]
		return true // whatever happened: do not wait
	})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return b, errors.Join(err, werr)
}

// drainQueue writes until the queue is empty, waiting for the peer.
func (l *Link) drainQueue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && l.err == nil {
		out := l.queue
		l.mu.Unlock()
		n, err := l.conn.Write(out)
		l.mu.Lock()
		l.queue = l.queue[min(n, len(l.queue)):] // it is empty after fail
		if err != nil {
			l.fail(err)
		}
	}
	l.queue = nil
}

// fail ends the connection, which wakes its reader. The caller holds mu.
func (l *Link) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	l.queue = nil
	l.conn.Close()
}

// Receive reads the next message; io.EOF when the peer has gone.
func (l *Link) Receive() (protocol.Message, error) {
	m, err := protocol.ReadFrame(l.r)
	if err == nil {
		return m, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return m, l.err
	}
	if errors.Is(err, net.ErrClosed) {
		return m, io.EOF
	}
	return m, err
}

// HangUp tells a rank on another host that the connection ends, without waiting for what is
// queued. The rank then exits; until it has, its messages can be received.
func (l *Link) HangUp() {
	if c, ok := l.conn.(*SecureConn); ok {
		c.HangUp()
	}
}

// SetPatience ends a connection to another host that has acknowledged nothing for so long.
func (l *Link) SetPatience(d time.Duration) error {
	if c, ok := l.conn.(*SecureConn); ok {
		return c.SetPatience(d)
	}
	return nil
}

func (l *Link) Blocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

// Drop ends the connection at once.
func (l *Link) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(net.ErrClosed)
}

// Close gives queued messages a moment to leave, then ends the connection.
func (l *Link) Close() {
	l.mu.Lock()
	l.closing = true
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.mu.Unlock()
	l.writer.Wait()
	l.conn.Close()
}
