package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"ckpt/image/nodes"
)

// A Peer is a process that serves a node.
type Peer struct {
	Rank    int
	Host    string // its name, for people
	Address string
	Dir     string // of the node, as names begin
	Job     string
	Silence time.Duration // without a sign of life, after which it counts as dead
}

func (p Peer) failed(body []byte) error {
	return fmt.Errorf("%w, on host %s", DecodeError(body, "the answer has no error"), p.Host)
}

// A Client reaches a peer. It connects when it is first used, and again after the connection has
// failed.
type PeerClient struct {
	self Self
	peer Peer

	mu      sync.Mutex
	files   *connection
	streams map[*connection]bool // of contributions; true: idle
	closed  bool
}

func NewPeerClient(self Self, p Peer) *PeerClient {
	return &PeerClient{self: self, peer: p, streams: make(map[*connection]bool)}
}

var errClosed = errors.New("the connection is closed")

func (c *PeerClient) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.files != nil {
		c.files.fail(errClosed)
	}
	for n := range c.streams {
		n.fail(errClosed)
	}
}

func (c *PeerClient) connection(ctx context.Context) (*connection, error) {
	c.mu.Lock()
	n := c.files
	c.mu.Unlock()
	if n != nil && n.alive() {
		return n, nil
	}
	n, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		n.fail(errClosed)
		return nil, n.err
	case c.files != nil && c.files.alive(): // somebody else was quicker
		n.fail(errClosed)
	default:
		c.files = n
	}
	return c.files, nil
}

func (c *PeerClient) stream(ctx context.Context) (*connection, error) {
	c.mu.Lock()
	for n, idle := range c.streams {
		if idle && n.alive() {
			c.streams[n] = false
			c.mu.Unlock()
			return n, nil
		}
	}
	c.mu.Unlock()
	n, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		n.fail(errClosed)
		return nil, n.err
	}
	c.streams[n] = false
	return n, nil
}

// release takes a stream back. A stream that has more to say is closed.
func (c *PeerClient) release(n *connection, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if complete && n.alive() {
		c.streams[n] = true
		return
	}
	delete(c.streams, n)
	n.fail(errClosed)
}

func (c *PeerClient) dial(ctx context.Context) (*connection, error) {
	patient, done := context.WithTimeout(ctx, c.peer.Silence)
	defer done()
	conn, err := c.self.Dial(patient, c.peer.Rank, c.peer.Address)
	if err == nil {
		var n *connection
		if n, err = connect(patient, conn, c.peer); err == nil {
			return n, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, c.peer.gone(err)
}

// Contribute opens a contribution to the parity that the peer holds. It has a connection of its
// own, so that others do not wait with it for the other members.
func (c *PeerClient) Contribute(ctx context.Context, name string) (nodes.Contributor, error) {
	n, err := c.stream(ctx)
	if err != nil {
		return nil, err
	}
	a, err := n.call(ctx, &request{op: opContribute, name: name})
	if err != nil {
		c.release(n, false)
		return nil, err
	}
	return &stream{client: c, ctx: ctx, conn: n, handle: uint32(a.value)}, nil
}

type stream struct {
	client *PeerClient
	ctx    context.Context
	conn   *connection
	handle uint32

	added sync.WaitGroup // requests that are sent and not answered
	once  sync.Once      // gives the connection back

	mu  sync.Mutex
	err error // the first
}

var errAborted = errors.New("the contribution is aborted")

// Add returns when the bytes are sent; an error of the other side comes from a later call.
func (s *stream) Add(off int64, p []byte) error {
	for at := 0; at < len(p); at += maxData {
		q := request{op: opAdd, handle: s.handle, off: off + int64(at), data: p[at:min(at+maxData, len(p))]}
		if err := s.trouble(); err != nil {
			return err
		}
		c, err := s.conn.start(s.ctx, &q, nil)
		if err != nil {
			return s.note(err)
		}
		s.added.Go(func() {
			if _, err := s.conn.wait(s.ctx, c); err != nil {
				s.note(err)
			}
		})
	}
	return s.trouble()
}

func (s *stream) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return s.err
}

func (s *stream) trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *stream) End(size int64) (info nodes.ParityInfo, err error) {
	s.added.Wait()
	err = s.trouble()
	var a answer
	if err == nil {
		a, err = s.conn.call(s.ctx, &request{op: opEnd, handle: s.handle, size: size})
	}
	if err == nil {
		err = json.Unmarshal(a.data, &info)
	}
	if err == nil {
		_, err = s.conn.call(s.ctx, &request{op: opClose, handle: s.handle})
	}
	s.leave(err == nil)
	return info, err
}

// Abort ends the connection, which says it.
func (s *stream) Abort() {
	s.note(errAborted)
	s.leave(false)
}

// leave gives the connection back, once.
func (s *stream) leave(complete bool) {
	s.once.Do(func() { s.client.release(s.conn, complete) })
}
