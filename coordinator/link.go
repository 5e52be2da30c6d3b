package coordinator

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
)

// A greeting is the first line on a connection to the coordinator. Whoever
// cannot show the token of the run is not listened to.
type greeting struct {
	Token string `json:"token"`
	Role  string `json:"role"` // roleRank or roleControl
	Rank  int    `json:"rank,omitempty"`
	Gen   int    `json:"gen,omitempty"`
}

const (
	roleRank    = "rank"
	roleControl = "control"

	greetingLimit = 4096
	greetingTime  = 10 * time.Second
)

// dialCoordinator connects to an address like unix:/path or tcp:host:port.
func dialCoordinator(ctx context.Context, address string) (net.Conn, error) {
	network, at, ok := strings.Cut(address, ":")
	if !ok {
		return nil, fmt.Errorf("address %q of the coordinator is malformed", address)
	}
	ctx, done := context.WithTimeout(ctx, greetingTime)
	defer done()
	return mpi.Dial(ctx, network, at)
}

// greet sends the first line.
func greet(conn net.Conn, g greeting) error {
	line, err := json.Marshal(g)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(line, '\n'))
	return err
}

// readGreeting reads and checks the first line.
func readGreeting(conn net.Conn, r *bufio.Reader, token string) (greeting, error) {
	var g greeting
	if err := conn.SetReadDeadline(time.Now().Add(greetingTime)); err != nil {
		return g, err
	}
	line, err := r.ReadSlice('\n')
	if err != nil {
		return g, fmt.Errorf("no greeting: %w", err)
	}
	if err := json.Unmarshal(line, &g); err != nil {
		return g, fmt.Errorf("no greeting: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(g.Token), []byte(token)) != 1 {
		return g, errors.New("wrong token")
	}
	return g, conn.SetReadDeadline(time.Time{})
}

// A link carries messages over a connection. Sending never blocks: a peer that
// does not read, a stopped process say, must not hold up the others. What the
// kernel does not take at once is left to a goroutine that lives only as long
// as there is something left; with thousands of ranks, one for each would cost
// more than the messages.
type link struct {
	conn net.Conn
	raw  syscall.RawConn
	r    *bufio.Reader

	mu     sync.Mutex
	queue  []byte // frames the kernel has not taken yet
	err    error  // of an earlier write or of encoding
	writer sync.WaitGroup
}

func newLink(conn net.Conn, r *bufio.Reader) (*link, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("connection %T has no descriptor", conn)
	}
	raw, err := sc.SyscallConn()
	return &link{conn: conn, raw: raw, r: r}, err
}

// send sends a message. An error of the connection shows on the reading side.
func (l *link) send(m protocol.Message) {
	frame, err := protocol.AppendFrame(nil, m)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fail(err)
		return
	}
	l.sendFrame(frame)
}

// sendFrame sends an encoded message; it does not keep frame.
func (l *link) sendFrame(frame []byte) {
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
func (l *link) try(b []byte) (rest []byte, err error) {
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
func (l *link) drainQueue() {
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
func (l *link) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	l.queue = nil
	l.conn.Close()
}

// receive reads the next message; io.EOF when the peer has gone.
func (l *link) receive() (protocol.Message, error) {
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

// close gives queued messages a moment to leave, then ends the connection.
func (l *link) close() {
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.writer.Wait()
	l.conn.Close()
}
