package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"ckpt/coordinator/protocol/channel"
)

const (
	pendingMagic   = "CKPTPND\x01" // the last byte is the version
	pendingHead    = 16            // magic, count
	pendingMsgHead = 24
)

// Pending returns the messages that have arrived and have not been received, in the order of
// their arrival, or nil. They stay in the inbox. Taken after Drain, with all ranks at a boundary,
// it is the part of the rank's state that lies in the channels. The format is drawn in the
// package comment.
func (c *Comm) Pending() []byte {
	b := &c.in
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == 0 {
		return nil
	}
	all := b.list()
	size := pendingHead + 4
	for _, m := range all {
		size += pendingMsgHead + len(m.data)
	}
	le := binary.LittleEndian
	out := make([]byte, 0, size)
	out = append(out, pendingMagic...)
	out = le.AppendUint64(out, uint64(len(all)))
	for _, m := range all {
		out = le.AppendUint32(out, uint32(m.src))
		out = le.AppendUint32(out, uint32(m.ctx))
		out = le.AppendUint32(out, uint32(m.tag))
		out = le.AppendUint32(out, 0)
		out = le.AppendUint64(out, uint64(len(m.data)))
		out = append(out, m.data...)
	}
	return le.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// RestorePending puts what Pending returned in an earlier run in front of whatever has arrived
// since Join, as peers that are ahead may already send. It must come before this rank receives
// anything. Restored messages are not counted as arrived. If it fails the inbox is as before.
func (c *Comm) RestorePending(b []byte) error {
	msgs, err := decodePending(b, c.cfg.Size, c.cfg.MaxMessage)
	if err != nil {
		return c.wrap("restore pending messages", AnySource, err)
	}
	in := &c.in
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.err != nil:
		err = in.err
	case in.touched || len(in.waiting) > 0:
		err = errors.New("the rank is receiving already")
	case in.restored:
		err = errors.New("they have been restored already")
	}
	if err != nil {
		return c.wrap("restore pending messages", AnySource, err)
	}
	in.restored = len(msgs) > 0
	in.putInFront(msgs)
	return nil
}

func (in *inbox) putInFront(msgs []*message) {
	for i := len(msgs) - 1; i >= 0; i-- {
		m := msgs[i]
		m.seq = int64(i - len(msgs)) // before 0, the first to arrive
		q := &in.queues[m.ctx][m.src]
		m.next = q.head
		q.head = m
		if q.tail == nil {
			q.tail = m
		}
		in.held++
	}
}

// decodePending reads b and trusts no length in it. The messages have copies of their data.
func decodePending(b []byte, size, maxMessage int) ([]*message, error) {
	if len(b) == 0 {
		return nil, nil
	}
	fail := func(format string, args ...any) ([]*message, error) {
		return nil, fmt.Errorf("pending messages: %w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
	if len(b) < pendingHead+4 || string(b[:8]) != pendingMagic {
		return fail("no such header")
	}
	le := binary.LittleEndian
	body, sum := b[:len(b)-4], le.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return fail("the checksum is wrong")
	}
	count, rest := le.Uint64(body[8:]), body[pendingHead:]
	if count == 0 || count > uint64(len(rest))/pendingMsgHead {
		return fail("%d messages in %d bytes", count, len(rest))
	}
	msgs := make([]*message, 0, count)
	for i := range count {
		if len(rest) < pendingMsgHead {
			return fail("message %d ends early", i)
		}
		src, ctx, tag, zero, n := le.Uint32(rest), le.Uint32(rest[4:]), le.Uint32(rest[8:]), le.Uint32(rest[12:]), le.Uint64(rest[16:])
		rest = rest[pendingMsgHead:]
		switch {
		case src >= uint32(size):
			return fail("message %d is from rank %d of %d", i, src, size)
		case ctx >= uint32(numContexts) || tag > math.MaxInt32 || zero != 0:
			return fail("message %d has a bad envelope", i)
		case n > uint64(len(rest)) || n > uint64(maxMessage):
			return fail("message %d has %d bytes", i, n)
		}
		m := &message{envelope: envelope{msgContext(ctx), int32(tag)}, src: int(src), data: alignedBytes(int(n), int(n))}
		copy(m.data, rest)
		rest = rest[n:]
		msgs = append(msgs, m)
	}
	if len(rest) != 0 {
		return fail("%d bytes follow the last message", len(rest))
	}
	return msgs, nil
}

// A Count is a number of messages exchanged with a peer.
type Count = channel.Count

// Sent returns how many messages this rank has sent to each peer since Join, in ascending order
// of peers. Collective operations count, peers without messages are left out.
func (c *Comm) Sent() []Count {
	var counts []Count
	for r := range c.peers {
		if n := c.peers[r].sent.Load(); n > 0 {
			counts = append(counts, Count{Peer: r, N: n})
		}
	}
	return counts
}

// Drain waits until from every peer listed at least that many messages have arrived since Join.
// If each rank has stopped sending, and what a rank expects is what all others have Sent to it,
// then after Drain everything on its way to this rank is in its inbox, and once all ranks have
// drained, the segment holds no message and is not written to any more until somebody sends. If
// ctx ends before that, the error is a *DrainError.
func (c *Comm) Drain(ctx context.Context, expected []Count) error {
	for _, want := range expected {
		if want.Peer < 0 || want.Peer >= c.cfg.Size {
			return c.wrap("drain", AnySource, fmt.Errorf("there is no rank %d to expect messages from", want.Peer))
		}
	}
	b := &c.in
	stop := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.changed.Broadcast()
	})
	defer stop()

	b.mu.Lock()
	defer b.mu.Unlock()
	b.drains++
	defer func() { b.drains-- }()
	for {
		if b.err != nil {
			return c.wrap("drain", AnySource, b.err)
		}
		behind := b.behind(expected)
		// The receiver frees cells and rings bells after it has delivered: wait until it sleeps,
		// so that the segment does not change while it is saved. With b.err nil the segment is
		// still mapped.
		if behind == nil && (c.shm == nil || c.shm.asleep()) {
			return nil
		}
		if ctx.Err() != nil {
			err := context.Cause(ctx)
			if behind != nil {
				behind.Err = err
				err = behind
			}
			return c.wrap("drain", AnySource, err)
		}
		b.changed.Wait()
	}
}

// behind returns the first peer from which messages are missing, or nil.
func (b *inbox) behind(expected []Count) *DrainError {
	var e *DrainError
	for _, want := range expected {
		switch got := b.arrived[want.Peer]; {
		case got >= want.N:
		case e == nil:
			e = &DrainError{Peer: want.Peer, Want: want.N, Got: got, Err: errors.New("drain was cancelled")}
		default:
			e.Others++
		}
	}
	return e
}
