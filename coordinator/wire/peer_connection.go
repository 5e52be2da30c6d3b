package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// ErrGone says that the process on the other side is gone or cannot be reached.
var ErrGone = errors.New("gone")

// A connection is the client's side. Several calls are under way at a time.
type connection struct {
	peer  Peer
	conn  net.Conn
	slots chan struct{} // of calls: the server always has a place for one more

	writing sync.Mutex
	head    []byte

	mu    sync.Mutex
	calls map[uint32]*call
	last  uint32
	err   error
	ended chan struct{}
}

type call struct {
	op      byte
	into    []byte // where the data of the answer belong; nil: in memory of their own
	filling bool   // the answer is on its way in
	left    bool   // the caller has left
	answer  answer
	err     error
	done    chan struct{}
}

// connect begins a connection that has passed the handshake.
func connect(ctx context.Context, conn net.Conn, p Peer) (*connection, error) {
	n := &connection{peer: p, conn: conn, slots: make(chan struct{}, inFlight), calls: make(map[uint32]*call), ended: make(chan struct{})}
	go n.receive()
	_, err := n.call(ctx, &request{op: opHello, name: p.Job, off: p.Silence.Milliseconds()})
	if err != nil {
		n.fail(err)
		return nil, err
	}
	return n, nil
}

func (n *connection) call(ctx context.Context, q *request) (answer, error) {
	c, err := n.start(ctx, q, nil)
	if err != nil {
		return answer{}, err
	}
	return n.wait(ctx, c)
}

// start sends a request, whose data the caller may use again.
func (n *connection) start(ctx context.Context, q *request, into []byte) (*call, error) {
	select {
	case n.slots <- struct{}{}:
	case <-n.ended:
		return nil, n.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c := &call{op: q.op, into: into, done: make(chan struct{})}
	if err := n.enter(q, c); err != nil {
		return nil, err
	}
	n.writing.Lock()
	defer n.writing.Unlock()
	n.head = q.appendTo(n.head[:0])
	bufs := net.Buffers{n.head}
	if len(q.data) > 0 {
		bufs = append(bufs, q.data)
	}
	if _, err := bufs.WriteTo(n.conn); err != nil {
		n.fail(err)
		return nil, n.err
	}
	return c, nil
}

// enter notes that an answer is to come, and expects signs of life from now on.
func (n *connection) enter(q *request, c *call) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return n.err
	}
	n.last++
	if n.last == 0 {
		n.last++ // 0 is a sign of life
	}
	q.number = n.last
	n.calls[q.number] = c
	return n.patience()
}

// patience sets until when the server must say something. The caller holds mu.
func (n *connection) patience() error {
	if len(n.calls) == 0 {
		return n.conn.SetDeadline(time.Time{})
	}
	return n.conn.SetDeadline(time.Now().Add(n.peer.Silence))
}

// wait waits for an answer, which is an error if the request failed.
func (n *connection) wait(ctx context.Context, c *call) (answer, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		if n.leave(c) {
			return answer{}, ctx.Err()
		}
		<-c.done // the answer is on its way into memory of the caller
		return answer{}, ctx.Err()
	}
	if c.err != nil {
		return answer{}, c.err
	}
	if c.answer.status == statusFailed {
		return answer{}, n.peer.failed(c.answer.data)
	}
	return c.answer, nil
}

// leave abandons a call, unless its answer has begun.
func (n *connection) leave(c *call) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.filling {
		return false
	}
	c.left, c.into = true, nil
	return true
}

// receive takes answers until the connection ends.
func (n *connection) receive() {
	r := bufio.NewReaderSize(n.conn, 64<<10)
	for {
		if err := n.take(r); err != nil {
			n.fail(err)
			return
		}
	}
}

// take takes an answer, or a sign of life.
func (n *connection) take(r io.Reader) error {
	var a answer
	size, err := a.readHead(r)
	if err != nil {
		return err
	}
	c, err := n.claim(a.number)
	if c == nil {
		return err
	}
	if err == nil {
		if a.status != statusFailed && size <= len(c.into) {
			a.data = c.into[:size]
		} else {
			a.data = make([]byte, size)
		}
		_, err = io.ReadFull(r, a.data)
	}
	return n.complete(c, a, err)
}

// claim finds the call that an answer belongs to; nil for a sign of life.
func (n *connection) claim(number uint32) (*call, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.calls[number]
	switch {
	case c != nil:
		c.filling = true
	case number != 0:
		return nil, fmt.Errorf("answer %d to no request", number)
	}
	return c, n.patience()
}

func (n *connection) complete(c *call, a answer, err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.calls, a.number)
	if err == nil {
		err = n.patience()
	}
	if err != nil {
		c.err = n.err
		if c.err == nil {
			c.err = n.peer.gone(err)
		}
	}
	c.answer = a
	close(c.done)
	<-n.slots
	if c.left && err == nil && a.status != statusFailed && opens(c.op) {
		go n.call(context.Background(), &request{op: opClose, handle: uint32(a.value)})
	}
	return err
}

// opens reports whether the answer to an operation is a handle.
func opens(op byte) bool {
	switch op {
	case opCreate, opOpen, opOpenWrite, opLock, opContribute:
		return true
	}
	return false
}

func (n *connection) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	n.err = n.peer.gone(err)
	close(n.ended)
	n.conn.Close()
	for number, c := range n.calls {
		if !c.filling { // else the receiver ends it
			c.err = n.err
			close(c.done)
			delete(n.calls, number)
		}
	}
}

func (n *connection) alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err == nil
}

// gone says why a peer cannot be reached.
func (p Peer) gone(err error) error {
	if errors.Is(err, ErrGone) {
		return err
	}
	if t, ok := err.(net.Error); ok && t.Timeout() {
		return fmt.Errorf("rank %d on host %s is %w: no sign of life for %v", p.Rank, p.Host, ErrGone, p.Silence)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("rank %d on host %s is %w: it closed the connection", p.Rank, p.Host, ErrGone)
	}
	return fmt.Errorf("rank %d on host %s is %w: %w", p.Rank, p.Host, ErrGone, err)
}
