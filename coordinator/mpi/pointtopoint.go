package mpi

import (
	"errors"
	"fmt"
	"math"
)

// Send sends data to rank dst, which may be the sender itself. It returns when
// data may be reused, which does not mean that dst has received it. It waits
// while the transport is full, but never for dst's program to receive. tag is
// 0 to 2³¹−1.
//
// If dst has died, or the connection to it is lost, Send may succeed or block
// until Abort or Close: who is dead is for the coordinator to decide. An error
// before that means that the message cannot be sent at all: a bad argument, or
// a peer that does not know the job's token.
func (c *Comm) Send(dst, tag int, data []byte) error {
	if tag < 0 || tag > math.MaxInt32 {
		return c.wrap("send", dst, fmt.Errorf("tag %d is out of range", tag))
	}
	return c.wrap("send", dst, c.send(dst, envelope{userContext, int32(tag)}, data))
}

// SendFloat64s is Send of the memory of data.
func (c *Comm) SendFloat64s(dst, tag int, data []float64) error {
	return c.Send(dst, tag, bytesOf(data))
}

// RecvFloat64s waits for a message from src (or AnySource) with the tag (or AnyTag)
// that fills data, and returns its source. Messages of one source that match are
// received in the order in which they were sent, those of several sources in the
// order of their arrival. A message of another length is a *LengthError and stays
// where it is.
func (c *Comm) RecvFloat64s(src, tag int, data []float64) (from int, err error) {
	m, err := c.receive(src, tag, len(data)*8)
	if err != nil {
		return 0, err
	}
	from = m.src
	copy(bytesOf(data), m.data)
	c.in.pool.put(m)
	return from, nil
}

func (c *Comm) receive(src, tag, bytes int) (*message, error) {
	if src != AnySource && (src < 0 || src >= c.cfg.Size) {
		return nil, c.wrap("receive", src, errors.New("there is no such rank"))
	}
	if tag != AnyTag && (tag < 0 || tag > math.MaxInt32) {
		return nil, c.wrap("receive", src, fmt.Errorf("tag %d is out of range", tag))
	}
	p := pattern{userContext, src, tag, bytes}
	if src == AnySource && c.chans != nil {
		m, err := c.chans.receiveAny(p)
		return m, c.wrap("receive", src, err)
	}
	m, err := c.in.receive(p)
	return m, c.wrap("receive", src, err)
}

// send moves a message into the transport that leads to dst and counts it.
func (c *Comm) send(dst int, env envelope, data []byte) error {
	if dst < 0 || dst >= c.cfg.Size {
		return errors.New("there is no such rank")
	}
	if len(data) > c.cfg.MaxMessage {
		return fmt.Errorf("message of %d bytes is longer than the limit of %d", len(data), c.cfg.MaxMessage)
	}
	if c.chans != nil && !c.chans.ep.Inside(dst) {
		return c.chans.send(dst, env, data)
	}
	p := &c.peers[dst]
	p.mu.Lock()
	defer p.mu.Unlock()
	err := c.err()
	switch {
	case err != nil:
	case dst == c.cfg.Rank:
		m := c.in.pool.get(len(data))
		m.envelope, m.src = env, dst
		copy(m.data, data)
		c.in.deliver(m)
	case p.local >= 0:
		err = c.shm.send(p, env, data)
	default:
		err = c.tcp.send(dst, p, env, data)
	}
	if err == nil {
		p.sent.Add(1)
	}
	return err
}
