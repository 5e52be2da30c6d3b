package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ckpt/coordinator/wire"
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

// failed returns the error of an answer.
func (p Peer) failed(body []byte) error {
	return fmt.Errorf("%w, on host %s", wire.DecodeError(body, "the answer has no error"), p.Host)
}

// A Client reaches a peer. It connects when it is first used, and again after the
// connection has failed.
type Client struct {
	self Self
	peer Peer

	mu      sync.Mutex
	files   *connection
	streams map[*connection]bool // of contributions; true: idle
	closed  bool
}

// NewClient returns a client. It does not connect.
func NewClient(self Self, p Peer) *Client {
	return &Client{self: self, peer: p, streams: make(map[*connection]bool)}
}

var errClosed = errors.New("the connection is closed")

// Close ends the connections.
func (c *Client) Close() {
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

// connection returns the connection for files.
func (c *Client) connection(ctx context.Context) (*connection, error) {
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

// stream returns a connection for one contribution.
func (c *Client) stream(ctx context.Context) (*connection, error) {
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

// release takes a stream back. One that has more to say is of no use to others.
func (c *Client) release(n *connection, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if complete && n.alive() {
		c.streams[n] = true
		return
	}
	delete(c.streams, n)
	n.fail(errClosed)
}

func (c *Client) dial(ctx context.Context) (*connection, error) {
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
