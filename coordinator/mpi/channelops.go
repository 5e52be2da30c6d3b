package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/protocol/channel"
)

var errNoChannels = errors.New("the job has no channels")

// channels runs f with the lock, if there are channels and the Comm has not ended.
func (c *Comm) channels(op string, f func(p *channelPort) error) error {
	p := c.chans
	if p == nil {
		return c.wrap(op, AnySource, errNoChannels)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return c.wrap(op, AnySource, c.err())
	}
	return c.wrap(op, AnySource, f(p))
}

// Snapshot returns what a checkpoint of this rank has to hold besides its memory,
// all as of one moment. The program is at a boundary, neither sending nor
// receiving; what comes from other groups meanwhile is in the snapshot or in the
// log behind LogFrom.
//
// With an Optimistic log it waits until the log has caught up, since an earlier
// checkpoint may need what this one covers; see channel.Endpoint.Snapshot.
func (c *Comm) Snapshot(ctx context.Context) (*Snapshot, error) {
	var s *Snapshot
	var st *channel.State
	err := c.channels("snapshot", func(p *channelPort) error {
		st = p.ep.Snapshot()
		s = &Snapshot{Pending: c.Pending(), Vector: st.Vector, LogFrom: p.log.from()}
		if p.cfg.Kind != channel.Optimistic {
			return nil
		}
		return p.flushLog(ctx)
	})
	if err != nil {
		return nil, err
	}
	s.State = st.Encode()
	return s, nil
}

// Collected says that a committed checkpoint of a rank has received messages of
// this one up to a number, Vector.Received of its Snapshot. With Sender they are
// forgotten.
func (c *Comm) Collected(peer int, upTo uint64) error {
	return c.channels("collect", func(p *channelPort) error {
		if peer < 0 || peer >= c.cfg.Size {
			return fmt.Errorf("there is no rank %d", peer)
		}
		p.ep.Collected(peer, upTo)
		p.changed.Broadcast()
		return nil
	})
}

// Output numbers what the rank is about to put out to the world, from 1. After a
// restart the same output has the same number: what was put out before is not put
// out again.
func (c *Comm) Output() (n uint64, err error) {
	err = c.channels("output", func(p *channelPort) error {
		n = p.ep.Output()
		return nil
	})
	return n, err
}

// Fence keeps the rank from sending and taking messages between groups until Unfence,
// and returns the Vector of its present state (channel.Endpoint.Present), which
// stays as it is but for Matches with messages that had been delivered already.
// When all survivors of a failure are fenced, their vectors describe one moment, from
// which the recovery line of Optimistic and None is computed. The pessimistic kinds
// need no line and no Fence.
//
// The log is given a moment to catch up, so that less is lost if this rank is the
// next to fail. Nothing depends on it: a full disk keeps nobody from the line.
func (c *Comm) Fence(ctx context.Context) (v channel.Vector, err error) {
	err = c.channels("fence", func(p *channelPort) error {
		p.fenced = true
		moment, cancel := context.WithTimeout(ctx, fenceFlush)
		defer cancel()
		_ = p.flushLog(moment) // fails when the time is over, or the Comm
		if p.ended || ctx.Err() != nil {
			return cmp.Or(c.err(), context.Cause(ctx))
		}
		v = p.ep.Present()
		return nil
	})
	return v, err
}

// fenceFlush is a moment in which a log that is in order catches up.
const fenceFlush = time.Second

// Logged waits until all that has been given to the log is durable, through all
// failures of the log.
func (c *Comm) Logged(ctx context.Context) error {
	return c.channels("log", func(p *channelPort) error { return p.flushLog(ctx) })
}

// Unfence ends a Fence. PeerMoved for the ranks that go back comes before it.
func (c *Comm) Unfence() error {
	return c.channels("unfence", func(p *channelPort) error {
		p.fenced = false
		p.changed.Broadcast()
		return nil
	})
}
