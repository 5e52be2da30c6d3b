package mpi

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"ckpt/coordinator/protocol/channel"
)

// A channelPort is the channels of a rank. Its lock comes before that of the
// inbox; nobody who has it may end the Comm.
type channelPort struct {
	comm *Comm
	cfg  *Channels

	mu      sync.Mutex
	changed sync.Cond // the program's waits: frames durable, acknowledgements, an Unfence
	ep      *channel.Endpoint
	ended   bool
	fenced  bool // see Fence
	out     []outLink
	in      []*inLink // by rank: the connection that its messages come on; nil without

	log logWriter
}

// newChannelPort restores the state of the channels. Nothing runs yet.
func newChannelPort(c *Comm) (*channelPort, error) {
	cfg := c.cfg.Channels
	p := &channelPort{comm: c, cfg: cfg, in: make([]*inLink, c.cfg.Size), out: make([]outLink, c.cfg.Size)}
	p.changed.L = &p.mu
	p.log.wake.L = &p.mu
	if cfg.Log != nil {
		p.log.last = flight{lsn: cfg.Log.Next() - 1}
	}
	for r := range p.out {
		p.out[r].work.L = &p.mu
		p.out[r].moved = make(chan struct{}, 1)
		if r < len(c.cfg.Peers) {
			p.out[r].addr = c.cfg.Peers[r]
		}
	}
	id := channel.Config{Kind: cfg.Kind, Rank: c.cfg.Rank, Size: c.cfg.Size, Group: cfg.Group}
	var err error
	if cfg.Restore == nil {
		p.ep, err = channel.New(id)
	} else {
		err = p.restore(id, cfg.Restore)
	}
	if err != nil {
		return nil, err
	}
	for r, inc := range cfg.Incarnations {
		if err := p.ep.Admit(r, inc); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *channelPort) restore(id channel.Config, from *Restored) error {
	pending, err := decodePending(from.Pending, id.Size, p.comm.cfg.MaxMessage)
	if err != nil {
		return err
	}
	st, err := channel.Decode(from.State)
	if err != nil {
		return err
	}
	ep, acts, err := channel.Restore(id, st, from.Frames, from.Line)
	if err != nil {
		return err
	}
	p.ep = ep
	in := &p.comm.in
	in.putInFront(pending)
	in.restored = true
	for _, a := range acts {
		d, ok := a.(channel.Deliver)
		if ok && (len(d.Message.Data) > p.comm.cfg.MaxMessage || !validEnvelope(d.Message)) {
			return fmt.Errorf("%w message %d of rank %d in the log", ErrCorrupt, d.Message.Seq, d.From)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apply(acts)
	return nil
}

func validEnvelope(m channel.Message) bool { return envelope{msgContext(m.Context), m.Tag}.valid() }

// start has the goroutines run.
func (p *channelPort) start() {
	if p.cfg.Log != nil {
		p.comm.workers.Go(p.commit)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.out {
		if n, _, _ := p.ep.Kept(r); n > 0 {
			p.begin(r)
		}
	}
}

// interrupt has everything end that waits. Connections are interrupted by the
// tcpPort.
func (p *channelPort) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.changed.Broadcast()
	p.log.wake.Broadcast()
	for r := range p.out {
		p.out[r].work.Broadcast()
	}
	for _, l := range p.in {
		if l != nil {
			l.work.Broadcast()
		}
	}
}

// apply carries out what the endpoint wants. The caller holds the lock.
func (p *channelPort) apply(acts []channel.Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case channel.Transmit:
			o := &p.out[a.To]
			o.queue = append(o.queue, a.Message)
			o.work.Signal()
		case channel.Append:
			p.append(a)
		case channel.Deliver:
			p.comm.in.deliver(&message{
				envelope: envelope{msgContext(a.Message.Context), a.Message.Tag},
				src:      a.From, number: a.Message.Seq, data: a.Message.Data,
				// It may have to be logged once more.
				lent: p.cfg.Kind == channel.Optimistic,
			})
		case channel.Ack:
			if l := p.in[a.To]; l != nil {
				l.ack, l.due = a.Seq, true
				l.work.Signal()
			}
		}
	}
}

// wait sleeps until cond holds or the Comm ends. The caller holds the lock.
func (p *channelPort) wait(cond func() bool) error {
	for !cond() {
		if p.ended {
			return p.comm.err()
		}
		p.changed.Wait()
	}
	return nil
}

// waitFor is wait with a context.
func (p *channelPort) waitFor(ctx context.Context, cond func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	if err := p.wait(func() bool { return ctx.Err() != nil || cond() }); err != nil {
		return err
	}
	if !cond() {
		return context.Cause(ctx)
	}
	return nil
}

// send puts a message into the channel to dst. It waits only while too much is
// kept for that rank, or at a Fence.
func (p *channelPort) send(dst int, env envelope, data []byte) error {
	m := channel.Message{Context: uint8(env.ctx), Tag: env.tag, Data: bytes.Clone(data)}
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := p.cfg.MaxUnacked
	if limit == 0 {
		limit = defaultMaxUnacked
	}
	err := p.wait(func() bool {
		_, _, unacked := p.ep.Kept(dst)
		return !p.fenced && unacked < limit
	})
	if err == nil && p.ended {
		err = p.comm.err()
	}
	if err != nil {
		return err
	}
	_, acts := p.ep.Send(dst, m)
	p.apply(acts)
	p.begin(dst)
	p.out[dst].work.Signal() // there may be no connection yet
	return nil
}

// receiveAny is a receive from any source, the one event of a rank that is not
// determined by what it has received before. In replay it has the source that it
// had then; otherwise its determinant is logged before the program goes on.
func (p *channelPort) receiveAny(pat pattern) (*message, error) {
	p.mu.Lock()
	if src, _, ok := p.ep.Recorded(); ok {
		pat.src = src
	}
	p.mu.Unlock()
	m, err := p.comm.in.receive(pat)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	wait, acts, err := p.ep.ReceivedAny(m.src, m.number)
	if err != nil {
		return nil, err
	}
	p.apply(acts)
	if err := p.wait(func() bool { return p.ep.Durable() >= wait }); err != nil {
		return nil, err
	}
	return m, nil
}
