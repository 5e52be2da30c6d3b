package coordinator

import (
	"bufio"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

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
// does not read, a stopped process say, must not hold up the others.
type link struct {
	conn net.Conn
	r    *bufio.Reader

	mu     sync.Mutex
	wake   sync.Cond
	queue  []byte // frames to be written
	closed bool
	err    error // of an earlier write or of encoding
	writer sync.WaitGroup
}

func newLink(conn net.Conn, r *bufio.Reader) *link {
	l := &link{conn: conn, r: r}
	l.wake.L = &l.mu
	l.writer.Go(l.write)
	return l
}

// send queues a message. An error of the connection shows on the reading side.
func (l *link) send(m protocol.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.err != nil {
		return
	}
	queue, err := protocol.AppendFrame(l.queue, m)
	if err != nil {
		l.err = err
		l.conn.Close()
		return
	}
	l.queue = queue
	l.wake.Signal()
}

func (l *link) write() {
	var out []byte
	for {
		l.mu.Lock()
		for len(l.queue) == 0 && !l.closed {
			l.wake.Wait()
		}
		if len(l.queue) == 0 {
			l.mu.Unlock()
			return
		}
		out, l.queue = l.queue, out[:0]
		l.mu.Unlock()
		if _, err := l.conn.Write(out); err != nil {
			l.mu.Lock()
			l.err = err
			l.queue = nil
			l.mu.Unlock()
			l.conn.Close() // wakes the reader
			return
		}
	}
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
	l.mu.Lock()
	l.closed = true
	l.wake.Signal()
	l.mu.Unlock()
	l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.writer.Wait()
	l.conn.Close()
}
