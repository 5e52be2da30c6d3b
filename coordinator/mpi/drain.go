package mpi

import (
	"context"
	"errors"
	"fmt"

	"ckpt/coordinator/protocol/channel"
)

// A Count is a number of messages exchanged with a peer.
type Count = channel.Count

// Sent returns how many messages this rank has sent to each peer since Join,
// those of collective operations included. Peers without any are left out; the
// others come in ascending order.
func (c *Comm) Sent() []Count {
	var counts []Count
	for r := range c.peers {
		if n := c.peers[r].sent.Load(); n > 0 {
			counts = append(counts, Count{Peer: r, N: n})
		}
	}
	return counts
}

// Drain waits until from every peer listed at least that many messages have
// arrived since Join. If each rank has stopped sending, and what a rank expects
// is what all others have Sent to it, then after Drain everything on its way to
// this rank is in its inbox, and once all ranks have drained, the segment
// holds no message and is not written to any more until somebody sends. If ctx ends
// before that, the error is a *DrainError.
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
		// The receiver frees cells and rings bells after it has delivered:
		// wait until it sleeps, so that the segment does not change while
		// it is saved. With b.err nil the segment is still mapped.
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

// behind returns the first peer from which messages are missing, nil if none.
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
