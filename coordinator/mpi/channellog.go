package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ckpt/coordinator/protocol/channel"
)

// A logWriter follows the frames of a rank to the disk. While a commit is under way more frames
// are appended; the next one takes them all.
type logWriter struct {
	wake    sync.Cond     // frames were appended, or the Comm has ended
	under   []flight      // appended and not durable
	last    flight        // the last one appended
	err     error         // why the log cannot be used at the moment
	failing bool          // since the last commit that succeeded
	backoff time.Duration // before the next try; 0: the first one
}

// A flight is a frame's index in the endpoint and its number in the log.
type flight struct{ index, lsn uint64 }

// from returns the number of the first frame that is not durable, or will be.
func (w *logWriter) from() uint64 {
	if len(w.under) > 0 {
		return w.under[0].lsn
	}
	return w.last.lsn + 1
}

// append gives a frame to the log. A log that has failed leaves it to relog.
func (p *channelPort) append(a channel.Append) {
	w := &p.log
	if w.err != nil {
		return
	}
	lsn, err := p.cfg.Log.Append(a.Frame)
	if err != nil {
		w.err = err
	} else {
		w.last = flight{a.Index, lsn}
		w.under = append(w.under, w.last)
	}
	w.wake.Signal()
}

func (p *channelPort) commit() {
	w := &p.log
	ctx := p.comm.tcp.ctx
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended && ctx.Err() == nil {
		if w.err != nil {
			p.reopen(ctx)
			continue
		}
		if len(w.under) == 0 {
			w.wake.Wait()
			continue
		}
		upTo := w.last
		p.mu.Unlock()
		err := p.cfg.Log.Wait(ctx, upTo.lsn)
		p.mu.Lock()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.err = err
		default:
			n := 0
			for n < len(w.under) && w.under[n].index <= upTo.index {
				n++
			}
			w.under = w.under[n:]
			p.apply(p.ep.Logged(upTo.index))
			p.changed.Broadcast()
			p.recovered()
		}
	}
}

// reopen has the log in order again, whatever it takes, and appends what was lost. Meanwhile
// nothing that waits for the log is delivered, nothing acknowledged, and no match goes on. A full
// disk lets it be opened and refuses the next frame: until a commit has succeeded the log counts
// as failed, and each try waits longer.
func (p *channelPort) reopen(ctx context.Context) {
	w := &p.log
	if !w.failing {
		w.failing, w.backoff = true, firstBackoff
		p.tellLog(w.err)
	}
	r, can := p.cfg.Log.(interface{ Reopen() error })
	for {
		wait := w.backoff
		w.backoff = min(2*wait, lastBackoff)
		p.mu.Unlock()
		if !can {
			<-ctx.Done()
		}
		pause(ctx, wait, nil)
		opened := ctx.Err() == nil && r.Reopen() == nil
		p.mu.Lock()
		if ctx.Err() != nil {
			return
		}
		if opened {
			break
		}
	}
	w.err, w.under = nil, nil
	p.apply(p.ep.Relog())
	if len(w.under) == 0 && w.err == nil {
		p.recovered() // nothing has to be logged again
	}
}

func (p *channelPort) recovered() {
	if p.log.failing {
		p.log.failing = false
		p.tellLog(nil)
	}
}

// tellLog tells how the log is. The caller holds the lock, which is released meanwhile.
func (p *channelPort) tellLog(err error) {
	p.mu.Unlock()
	defer p.mu.Lock()
	p.logFailed(err)
}

func (p *channelPort) logFailed(err error) {
	if p.cfg.LogFailed != nil {
		p.cfg.LogFailed(err)
	}
}

// flushLog waits until what has been appended is durable. The caller holds the lock.
func (p *channelPort) flushLog(ctx context.Context) error {
	w, upTo := &p.log, p.ep.Appended()
	err := p.waitFor(ctx, func() bool { return p.ep.Durable() >= upTo })
	if err != nil && w.err != nil {
		err = errors.Join(err, w.err)
	}
	return err
}

// Redialling and reopening begin soon and then go easy.
const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = time.Second
)

func pause(ctx context.Context, d time.Duration, bell <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-bell:
	case <-ctx.Done():
	}
}

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

// Snapshot returns what a checkpoint of this rank has to hold besides its memory, all as of one
// moment. The program is at a boundary, and sends and receives nothing; what comes from other
// groups meanwhile is in the snapshot or in the log behind LogFrom.
//
// With an Optimistic log it waits until the log has caught up, since an earlier checkpoint may
// need what this one covers; see channel.Endpoint.Snapshot.
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

// Collected says that a committed checkpoint of a rank has received messages of this one up to a
// number, Vector.Received of its Snapshot. With Sender they are forgotten.
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

// Output numbers what the rank is about to put out to the world, from 1. After a restart the same
// output has the same number: what was put out before is not put out again.
func (c *Comm) Output() (n uint64, err error) {
	err = c.channels("output", func(p *channelPort) error {
		n = p.ep.Output()
		return nil
	})
	return n, err
}

// Fence keeps the rank from sending and taking messages between groups until Unfence, and returns
// the Vector of its present state (channel.Endpoint.Present), which stays as it is but for
// Matches with messages that had been delivered already. When all survivors of a failure are
// fenced, their vectors describe one moment, from which the recovery line of Optimistic and None
// is computed. The pessimistic kinds need no line and no Fence.
//
// The log is given a moment to catch up, so that less is lost if this rank is the next to fail.
// Nothing depends on it: the line is reached on a full disk, too.
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

// Logged waits until all that has been given to the log is durable, through all failures of the
// log.
func (c *Comm) Logged(ctx context.Context) error {
	return c.channels("log", func(p *channelPort) error { return p.flushLog(ctx) })
}

// Unfence ends a Fence, after PeerMoved for the ranks that go back.
func (c *Comm) Unfence() error {
	return c.channels("unfence", func(p *channelPort) error {
		p.fenced = false
		p.changed.Broadcast()
		return nil
	})
}
