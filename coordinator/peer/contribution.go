package peer

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"ckpt/image/nodes"
)

// Contribute opens the contribution of a name to the parity that the peer holds. It has a
// connection of its own, so that nothing else waits while the parity waits for the other
// members.
func (c *Client) Contribute(ctx context.Context, name string) (nodes.Contributor, error) {
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

// A stream is a contribution under way.
type stream struct {
	client *Client
	ctx    context.Context
	conn   *connection
	handle uint32

	added sync.WaitGroup // requests that are sent and not answered
	once  sync.Once      // gives the connection back

	mu  sync.Mutex
	err error // the first
}

var errAborted = errors.New("the contribution is aborted")

// Add implements nodes.Contributor. It returns when the bytes are sent; an error of the
// other side comes from a later call.
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

// note keeps the first error.
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

// End implements nodes.Contributor.
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

// Abort implements nodes.Contributor: the end of the connection says it.
func (s *stream) Abort() {
	s.note(errAborted)
	s.leave(false)
}

// leave gives the connection back, once.
func (s *stream) leave(complete bool) {
	s.once.Do(func() { s.client.release(s.conn, complete) })
}
