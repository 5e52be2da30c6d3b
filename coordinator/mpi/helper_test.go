package mpi

import (
	"context"
	"fmt"
	"sync/atomic"

	"ckpt/coordinator/protocol/channel"
)

// A Status describes a message that was received.
type Status struct {
	Source, Tag, Bytes int
}

// Recv receives a message of any length up to that of buf.
func (c *Comm) Recv(src, tag int, buf []byte) (Status, error) {
	m, err := c.receive(src, tag, -1)
	if err != nil {
		return Status{}, err
	}
	st := Status{Source: m.src, Tag: int(m.tag), Bytes: copy(buf, m.data)}
	if st.Bytes < len(m.data) {
		err = &LengthError{Source: m.src, Tag: int(m.tag), Bytes: len(m.data), Room: len(buf)}
	}
	c.in.pool.put(m)
	return st, err
}

// vector returns what the rank's present state depends on.
func vector(c *Comm) (v channel.Vector, err error) {
	err = c.channels("vector", func(p *channelPort) error {
		v = p.ep.Vector()
		return nil
	})
	return v, err
}

// flush waits until everything that was sent to other groups is acknowledged.
func flush(ctx context.Context, c *Comm) error {
	return c.channels("flush", func(p *channelPort) error {
		return p.waitFor(ctx, func() bool {
			for r := range p.out {
				if _, _, unacked := p.ep.Kept(r); unacked > 0 {
					return false
				}
			}
			return true
		})
	})
}

// kept returns what a rank keeps for ranks of other groups.
func kept(c *Comm) (messages int, bytes int64) {
	p := c.chans
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.out {
		n, size, _ := p.ep.Kept(r)
		messages, bytes = messages+n, bytes+size
	}
	return messages, bytes
}

// used are the parts of a segment that ranks use. The rest is idle.
func used(s *Segment) [2][]byte {
	mem := s.Region().Mem
	return [2][]byte{mem[:s.geo.state(s.geo.ranks, 0)], mem[s.geo.ringOff:]}
}

// quiescent returns nil if no message is in the segment: every ring is empty,
// every cell free. That is so once every rank of the node has returned from
// its Drain and before one of them sends again.
func quiescent(s *Segment) error {
	g := &s.geo
	for src := range g.ranks {
		for dst := range g.ranks {
			off := g.ring(src, dst)
			if head, tail := atomic.LoadUint64(s.word64(off)), atomic.LoadUint64(s.word64(off+64)); head != tail {
				return &SegmentError{Path: s.path, Err: fmt.Errorf("%d bytes on the way from local rank %d to %d", tail-head, src, dst)}
			}
		}
		for i := range g.cells {
			if state := atomic.LoadUint32(s.word32(g.state(src, i))); state != 0 {
				return &SegmentError{Path: s.path, Err: fmt.Errorf("cell %d of local rank %d is taken by a message to %d", i, src, int(state)-1)}
			}
		}
	}
	return nil
}
