package mpi

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"ckpt/coordinator/protocol/channel"
)

// Channels divide a job into groups of ranks that fail and restart apart from each other.
// Messages within a group travel as ever; those to others in channels, which survive the death
// and the restart of either end.
type Channels struct {
	// Kind is how messages between groups are logged, the same in all ranks.
	Kind channel.Kind
	// Group are the ranks that restart together with this one. On its node they share the
	// segment, if there is one, or else use TCP.
	Group []int
	// Incarnation is how often the rank has been started before. Incarnations are known for all
	// ranks, by rank; nil: all are in their first.
	Incarnation  uint64
	Incarnations []uint64
	// Log is the rank's message log; nil with None.
	Log Log
	// Restore is the state that the rank resumes from; nil: the beginning.
	Restore *Restored
	// MaxUnacked is how many bytes to one peer may be without acknowledgement, channel.Overhead
	// for each message included, before Send waits; 0 means 256 MiB. It bounds what is kept for a
	// peer that is dead or slow, but not what Sender keeps for its next checkpoint.
	MaxUnacked int64
	// LogFailed, if set, is told when the log has failed, and with nil when it is in order again.
	// It is called from a goroutine of the Comm and must not block.
	LogFailed func(error)
}

// A Log is where a rank's frames go. Append puts one at the end and returns its number; Wait
// returns when it and all before are durable. Frames that Wait has failed for are lost, with
// those behind them. A log with a method Reopen() error is reopened after a failure, again and
// again until that succeeds, and is given again what it has lost.
type Log interface {
	Append(f channel.Frame) (lsn uint64, err error)
	Wait(ctx context.Context, lsn uint64) error
	Next() uint64 // the number of the next frame
}

// Restored is what a rank is restored from.
type Restored struct {
	// State and Pending come from the Snapshot in its checkpoint.
	State, Pending []byte
	// Frames returns the frames of its log from Snapshot.LogFrom on, or from earlier, io.EOF at
	// the end. Their data must stay as it is.
	Frames func() (channel.Frame, error)
	// Line is the recovery line, nil if no other rank goes back; see channel.Restore. The log
	// loses the frames behind it only when the log is durable. Restarting ranks continue when the
	// logs of all of them are: else one would log messages of another's old life as of its new
	// life.
	Line []uint64
}

// A Snapshot is the part of a rank's state that lies in its channels and in its inbox.
type Snapshot struct {
	State   []byte
	Pending []byte
	// Vector says what the state depends on.
	Vector channel.Vector
	// LogFrom is the number in the log of the first frame that is needed on top of this snapshot.
	// Once it is committed, and all earlier ones are not needed, the frames before can go.
	LogFrom uint64
}

const defaultMaxUnacked = 256 << 20

// shares reports whether a rank of our node shares the segment with us.
func (ch *Channels) shares(cfg *Config, r int) bool {
	return ch == nil || r == cfg.Rank || cfg.Segment != nil && slices.Contains(ch.Group, r)
}

// perMessage is what a log has to hold of each message besides its data.
func (ch *Channels) perMessage(size int) int {
	if ch == nil || ch.Kind != channel.Optimistic {
		return 0
	}
	return 8 * size
}

func (ch *Channels) check() error {
	switch {
	case ch == nil:
	case ch.Kind.Logs() && ch.Log == nil:
		return fmt.Errorf("no log for messages between groups, which are to be logged %v", ch.Kind)
	case ch.MaxUnacked < 0:
		return fmt.Errorf("limit of %d bytes to a peer is out of range", ch.MaxUnacked)
	}
	return nil
}

// A channelPort is the channels of a rank. Its lock comes before the inbox's, and is not held
// when the Comm ends.
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

// newChannelPort restores the state of the channels, and starts nothing yet.
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

// interrupt ends all waits. The tcpPort interrupts connections.
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

// send puts a message into the channel to dst. It waits only while too much is kept for that
// rank, or at a Fence.
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

// receiveAny is a receive from any source, the one event of a rank that is not determined by what
// it has received before. In replay it has the source that it had then; otherwise its determinant
// is logged before the program goes on.
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
