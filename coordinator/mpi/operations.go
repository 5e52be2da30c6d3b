package mpi

import (
	"errors"
	"fmt"
	"math"
)

// Send sends data to rank dst, which may be the sender itself. It returns when data may be
// reused, which does not mean that dst has received it. It waits while the transport is full, but
// never for dst's program to receive. tag is 0 to 2³¹−1.
//
// If dst has died, or the connection to it is lost, Send may succeed or block until Abort or
// Close: who is dead is for the coordinator to decide. An error before that means that the
// message cannot be sent at all: a bad argument, or a peer that does not know the job's token.
func (c *Comm) Send(dst, tag int, data []byte) error {
	if tag < 0 || tag > math.MaxInt32 {
		return c.wrap("send", dst, fmt.Errorf("tag %d is out of range", tag))
	}
	return c.wrap("send", dst, c.send(dst, envelope{userContext, int32(tag)}, data))
}

func (c *Comm) SendFloat64s(dst, tag int, data []float64) error {
	return c.Send(dst, tag, bytesOf(data))
}

// RecvFloat64s waits for a message from src (or AnySource) with the tag (or AnyTag) that fills
// data, and returns its source. Messages of one source that match are received in the order in
// which they were sent, those of several sources in the order of their arrival. A message of
// another length is a *LengthError and stays where it is.
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

// The collective operations run over a binomial tree of rank numbers, so the order of additions
// depends on the number of ranks alone: not on timing, nor on the mapping of ranks to nodes. Sums
// of floating-point numbers are the same bits in every run.
//
// Their messages travel in a context of their own, with the operation as tag. Ranks call
// collectives in the same order and messages of a pair stay in order, so the next collective
// message of a peer is the one awaited; its tag and length only show a program that broke the
// rule.

// The operations. Their numbers stand in images and message logs.
const (
	opBarrier   int32 = 0
	opAllreduce int32 = 3
)

func opName(op int32) string {
	switch op {
	case opBarrier:
		return "barrier"
	case opAllreduce:
		return "allreduce"
	}
	return fmt.Sprintf("operation %d", op)
}

func (c *Comm) Barrier() error {
	err := c.reduce(opBarrier, nil)
	if err == nil {
		err = c.bcast(opBarrier, nil)
	}
	return c.wrap(opName(opBarrier), AnySource, err)
}

// AllreduceSum replaces data of every rank by the element-wise sum.
func (c *Comm) AllreduceSum(data []float64) error {
	err := c.reduce(opAllreduce, data)
	if err == nil {
		err = c.bcast(opAllreduce, bytesOf(data))
	}
	return c.wrap(opName(opAllreduce), AnySource, err)
}

// reduce adds data of all ranks into rank 0's; data of ranks on the way holds partial sums
// afterwards. The children of rank r are r+1, r+2, r+4 … below its lowest set bit, and are added
// in this order.
func (c *Comm) reduce(op int32, data []float64) error {
	r := c.cfg.Rank
	for bit := 1; bit < c.cfg.Size; bit <<= 1 {
		if r&bit != 0 {
			return c.send(r-bit, envelope{collectiveContext, op}, bytesOf(data))
		}
		if r+bit >= c.cfg.Size {
			continue
		}
		m, err := c.receiveOp(op, r+bit, len(data)*8)
		if err != nil {
			return err
		}
		for i, x := range floatsOf(m.data) {
			data[i] += x
		}
		c.in.pool.put(m)
	}
	return nil
}

// bcast copies data of rank 0 down the same tree, the largest subtree first.
func (c *Comm) bcast(op int32, data []byte) error {
	r, bit := c.cfg.Rank, 1
	for ; bit < c.cfg.Size && r&bit == 0; bit <<= 1 {
	}
	if r != 0 {
		m, err := c.receiveOp(op, r-bit, len(data))
		if err != nil {
			return err
		}
		copy(data, m.data)
		c.in.pool.put(m)
	}
	for bit >>= 1; bit > 0; bit >>= 1 {
		if r+bit < c.cfg.Size {
			if err := c.send(r+bit, envelope{collectiveContext, op}, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Comm) receiveOp(op int32, src, bytes int) (*message, error) {
	m, err := c.in.receive(pattern{ctx: collectiveContext, src: src, tag: AnyTag, bytes: -1})
	if err != nil {
		return nil, err
	}
	if m.tag != op {
		return nil, fmt.Errorf("rank %d is in %s", src, opName(m.tag))
	}
	if len(m.data) != bytes {
		return nil, fmt.Errorf("rank %d has %d bytes, this rank %d", src, len(m.data), bytes)
	}
	return m, nil
}
