package turns

import (
	"bufio"
	"ckpt/coordinator/wire"
	"context"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"time"
)

const (
	// beatTime is how often a client with bursts says what moved.
	beatTime = 50 * time.Millisecond
	// quiet is the number of beats without news after which it says that it lives, and that
	// nothing moves.
	quiet = 4
)

// A session is a connection to a controller that has answered.
type session struct {
	c     *Client
	link  *link
	every time.Duration // beat
	kick  chan struct{} // a burst has begun
	over  chan struct{} // closed when nothing more is read
	// unheard counts the beats since the controller said something: in beats, so that a process
	// that was stopped does not take its own silence for the controller's.
	unheard atomic.Int64
}

func (c *Client) open(ctx context.Context) (*session, error) {
	info, err := Find(c.o.FS, c.dir)
	if err != nil {
		return nil, err
	}
	conn, err := c.o.dial(ctx, info)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDied, err)
	}
	l, w, err := greet(ctx, conn, info, c.who)
	if err != nil {
		return nil, err
	}
	every := min(beatTime, time.Duration(min(w.Lease, math.MaxInt64))/(5*quiet), c.o.Patience/5)
	return &session{c: c, link: l, every: max(every, time.Millisecond), kick: make(chan struct{}, 1), over: make(chan struct{})}, nil
}

// greet says who is there, and has the controller answer.
func greet(ctx context.Context, conn net.Conn, info *Info, who Who) (*link, *welcome, error) {
	l, err := newLink(conn)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, l.Drop)
	l.send(&hello{Version: version, App: who.App, User: who.User, Rank: uint64(max(0, who.Rank)), Weight: who.Weight})
	m, err := readFrame(l.r, maxReport)
	if !stop() {
		err = ctx.Err()
	}
	switch m := m.(type) {
	case *welcome:
		if m.Version == version && err == nil {
			return l, m, nil
		}
	case *refused:
		err = fmt.Errorf("the controller of storage turns of %s refuses: %s", info.Dir, m.Why)
	}
	l.end()
	if err == nil {
		err = fmt.Errorf("the controller of storage turns of %s speaks another version", info.Dir)
	} else if ctx.Err() == nil && m == nil {
		err = fmt.Errorf("%w: %w", errDied, err)
	}
	return nil, nil, err
}

// ask asks for a turn, or for the rest of it. The caller holds the mutex of the client.
func (s *session) ask(t *Turn) {
	t.ask(s.link)
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *session) read() error {
	for {
		m, err := readFrame(s.link.r, maxReport)
		if err != nil {
			if int(s.unheard.Load()) >= s.patience() {
				return errSilent
			}
			return fmt.Errorf("%w: %w", errDied, err)
		}
		s.unheard.Store(0)
		switch m := m.(type) {
		case *granted:
			s.c.find(m.Burst).granted(s.link, m.Turn)
		case *revoked:
			s.c.find(m.Burst).wanted(s.link, m.Turn)
		case *evicted:
			s.c.find(m.Burst).wanted(s.link, m.Turn)
		case *refused:
			return fmt.Errorf("the controller of storage turns refuses: %s", m.Why)
		}
	}
}

func (s *session) patience() int { return int(s.c.o.Patience / s.every) }

// beat gives signs of life while there are bursts, and ends the connection of a silent
// controller.
func (s *session) beat() {
	ticks := time.NewTicker(s.every)
	defer ticks.Stop()
	silent := 0 // beats
	for {
		select {
		case <-s.over:
			return
		case <-s.c.ctx.Done():
			s.leave()
			return
		case <-ticks.C:
		}
		s.c.mu.Lock()
		list := s.c.turns()
		s.c.mu.Unlock()
		if len(list) == 0 {
			if !s.rest(ticks) {
				return
			}
			continue
		}
		if int(s.unheard.Add(1)) >= s.patience() {
			s.link.Drop()
			return
		}
		said := false
		for _, t := range list {
			said = t.beat(s.link) || said
		}
		if silent++; said {
			silent = 0
		} else if silent >= quiet {
			s.link.send(&alive{})
			silent = 0
		}
	}
}

func (s *session) rest(ticks *time.Ticker) bool {
	ticks.Stop()
	select {
	case <-s.kick:
		s.unheard.Store(0)
		ticks.Reset(s.every)
		return true
	case <-s.over:
	case <-s.c.ctx.Done():
		s.leave()
	}
	return false
}

func (s *session) leave() { s.link.Close() }

// maxQueue bounds the bytes that wait for a peer that does not read.
const maxQueue = 64 << 10

// A link carries messages over a connection. Sending never blocks: a peer that lets too much pile
// up loses the connection, which its reader notices.
type link struct {
	*wire.Link
	r *bufio.Reader
}

func newLink(conn net.Conn) (*link, error) {
	r := bufio.NewReaderSize(conn, maxRequest)
	l, err := wire.NewLink(conn, r)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.Limit = maxQueue
	return &link{l, r}, nil
}

func (l *link) send(m message) { l.SendFrame(appendFrame(nil, m)) }

// end ends the connection at once, and returns when nothing is written any more.
func (l *link) end() {
	l.Drop()
	l.Close()
}
