package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/protocol"
)

// A Link carries messages over a connection. Sending never blocks: a peer that
// does not read, for example a stopped process, must not hold up the others. A
// goroutine sends the rest that the kernel does not take at once, and ends when
// nothing is left: with thousands of ranks, a goroutine for each would cost more
// than the messages.
type Link struct {
	conn net.Conn
	raw  syscall.RawConn // nil if what is written must be encrypted first
	r    *bufio.Reader

	mu     sync.Mutex
	queue  []byte // frames the kernel has not taken yet
	err    error  // of an earlier write or of encoding
	writer sync.WaitGroup
}

func NewLink(conn net.Conn, r *bufio.Reader) (*Link, error) {
	sc, ok := conn.(syscall.Conn)
	if _, encrypts := conn.(*SecureConn); encrypts {
		return &Link{conn: conn, r: r}, nil
	}
	if !ok {
		return nil, fmt.Errorf("connection %T has no descriptor", conn)
	}
	raw, err := sc.SyscallConn()
	return &Link{conn: conn, raw: raw, r: r}, err
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
	if l.err != nil {
		return
	}
	if len(l.queue) > 0 { // its writer takes this along
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
		l.queue = l.queue[n:]
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

// HangUp tells a rank on another host that the connection ends, without waiting for what
// is queued. The rank then exits; until it has, its messages can be received.
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

// Close gives queued messages a moment to leave, then ends the connection.
func (l *Link) Close() {
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.writer.Wait()
	l.conn.Close()
}
