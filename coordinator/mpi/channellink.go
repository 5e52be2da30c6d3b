package mpi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"ckpt/coordinator/protocol/channel"
)

// An outLink is the connection that our messages to a rank travel on. It is made when there is
// something to send, and again when it is lost, as long as the rank may need something.
type outLink struct {
	addr  string
	work  sync.Cond         // there is something to do
	moved chan struct{}     // capacity 1: the rank has a new address
	began bool              // its goroutine runs
	queue []channel.Message // to be written
	conn  net.Conn          // nil without one
	stop  func()            // ends a dial that is under way
	told  bool              // that it was lost
}

// An inLink is the connection that messages of a rank come on.
type inLink struct {
	conn net.Conn
	work sync.Cond
	ack  uint64 // what the rank is to be told, if due
	due  bool
	over bool
}

// begin starts the goroutine of a link. The caller holds the lock.
func (p *channelPort) begin(dst int) {
	o := &p.out[dst]
	if o.began {
		return
	}
	o.began = true
	p.comm.workers.Go(func() { p.link(dst) })
}

// link keeps the connection to a rank for as long as the Comm lives.
func (p *channelPort) link(dst int) {
	o := &p.out[dst]
	wait := firstBackoff
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended {
		if n, _, _ := p.ep.Kept(dst); n == 0 || o.addr == "" {
			o.work.Wait()
			continue
		}
		addr, known := o.addr, p.ep.Incarnation(dst)
		ctx, stop := context.WithTimeout(p.comm.tcp.ctx, p.comm.cfg.HandshakeTimeout)
		o.stop = stop
		p.mu.Unlock()
		conn, met, err := p.dial(ctx, dst, addr)
		stop()
		p.mu.Lock()
		if p.ended {
			break
		}
		if err == nil {
			err = p.establish(dst, conn, met)
		}
		if err != nil {
			if fatal := asFatal(err); fatal != nil {
				p.mu.Unlock()
				p.comm.fail(fatal)
				p.mu.Lock()
				return
			}
			p.lost(dst, err)
			if o.addr == addr && p.ep.Incarnation(dst) == known {
				p.mu.Unlock()
				pause(p.comm.tcp.ctx, wait, o.moved)
				p.mu.Lock()
				wait = min(2*wait, lastBackoff)
			}
			continue
		}
		wait = firstBackoff
		p.transmit(dst, conn)
	}
}

// asFatal returns an error that waiting does not heal: messages that are lost for ever, a process
// that was replaced by another, or a lasting shortage.
func asFatal(err error) error {
	var lost *channel.LostError
	if errors.As(err, &lost) || errors.Is(err, errReplaced) || errors.Is(err, errOtherKind) || errors.Is(err, errShort) {
		return err
	}
	return nil
}

// lost tells the owner that a peer cannot be reached, once until it is again. The caller holds
// the lock.
func (p *channelPort) lost(dst int, err error) {
	if o := &p.out[dst]; !o.told && !p.ended && p.comm.cfg.Lost != nil {
		o.told = true
		p.mu.Unlock()
		p.comm.cfg.Lost(dst, err)
		p.mu.Lock()
	}
}

func (p *channelPort) establish(dst int, conn net.Conn, met peerState) error {
	err := p.admit(dst, met.incarnation)
	if err == nil {
		var acts []channel.Action
		if acts, err = p.ep.PeerUp(dst, met.have); err == nil {
			o := &p.out[dst]
			o.conn, o.queue, o.told = conn, nil, false
			p.apply(acts)
			p.changed.Broadcast()
			return nil
		}
	}
	p.comm.tcp.drop(conn)
	return err
}

// transmit writes what is queued until the connection is lost. The caller holds the lock.
func (p *channelPort) transmit(dst int, conn net.Conn) {
	o := &p.out[dst]
	var acks sync.WaitGroup
	acks.Go(func() { p.readAcks(dst, conn) })
	w := bufio.NewWriterSize(conn, 64*kib)
	var head [channelHead]byte
	var err error
	for err == nil && !p.ended && o.conn == conn {
		if len(o.queue) == 0 {
			if w.Buffered() == 0 {
				o.work.Wait()
				continue
			}
			p.mu.Unlock()
			err = w.Flush()
			p.mu.Lock()
			continue
		}
		queue := o.queue
		o.queue = nil
		p.mu.Unlock()
		for i := range queue {
			encodeChannelHead(&head, &queue[i])
			// a bufio.Writer keeps its first error
			_, _ = w.Write(head[:])
			_, _ = w.Write(channel.AppendNumbers(w.AvailableBuffer(), queue[i].Depends))
			_, err = w.Write(queue[i].Data)
			if err != nil {
				break
			}
		}
		p.mu.Lock()
	}
	p.disconnect(dst, conn)
	p.mu.Unlock()
	acks.Wait()
	p.mu.Lock()
	if err == nil {
		err = io.EOF
	}
	p.lost(dst, err)
}

// disconnect drops the connection to a rank if it still is this one. The caller holds the lock.
func (p *channelPort) disconnect(dst int, conn net.Conn) {
	if o := &p.out[dst]; o.conn == conn {
		o.conn, o.queue = nil, nil
		p.ep.PeerDown(dst)
		o.work.Broadcast()
	}
	p.comm.tcp.drop(conn)
}

func (p *channelPort) readAcks(dst int, conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		seq, err := readAck(r)
		p.mu.Lock()
		if err != nil || p.out[dst].conn != conn {
			p.disconnect(dst, conn)
			p.mu.Unlock()
			return
		}
		p.ep.Acked(dst, seq)
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// admit checks the incarnation of a peer that was met, and drops the connections of an older one.
// The caller holds the lock.
func (p *channelPort) admit(peer int, incarnation uint64) error {
	if incarnation > p.ep.Incarnation(peer) {
		if conn := p.out[peer].conn; conn != nil {
			p.disconnect(peer, conn)
		}
		p.replace(peer, nil)
	}
	return p.ep.Admit(peer, incarnation)
}

// replace makes l the connection that messages of a peer come on, and drops the one before. The
// caller holds the lock.
func (p *channelPort) replace(peer int, l *inLink) {
	if old := p.in[peer]; old != nil {
		old.over = true
		old.work.Broadcast()
		p.comm.tcp.drop(old.conn)
	}
	p.in[peer] = l
	p.changed.Broadcast() // its reader may wait at a Fence
}

// PeerMoved says that a rank has a new address and incarnation: what is kept for it is sent
// there. News of an old incarnation, or without an address of the newest, changes nothing.
func (c *Comm) PeerMoved(peer int, addr string, incarnation uint64) error {
	return c.channels("move", func(p *channelPort) error {
		if peer < 0 || peer >= c.cfg.Size || p.ep.Inside(peer) {
			return errors.New("the rank is in no other group")
		}
		if known := p.ep.Incarnation(peer); incarnation < known || incarnation == known && addr == "" {
			return nil
		}
		if err := p.admit(peer, incarnation); err != nil {
			return err
		}
		o := &p.out[peer]
		if o.addr != addr && o.stop != nil {
			o.stop() // it is gone from there
		}
		o.addr = addr
		o.work.Broadcast()
		select {
		case o.moved <- struct{}{}:
		default:
		}
		return nil
	})
}

// serve takes messages of a rank outside, whose handshake has begun, until the connection is lost
// or replaced. release gives back its slot.
func (p *channelPort) serve(conn net.Conn, release func()) {
	c := p.comm
	l := &inLink{conn: conn}
	l.work.L = &p.mu
	from, err := p.accept(conn, l)
	release()
	if err != nil {
		return
	}
	defer func() {
		p.mu.Lock()
		if p.in[from] == l {
			p.replace(from, nil)
		}
		p.mu.Unlock()
	}()
	if !c.tcp.track(conn, time.Time{}) {
		return
	}
	var acks sync.WaitGroup
	defer acks.Wait()
	acks.Go(func() { p.writeAcks(l) })
	defer func() { // the writer ends
		p.mu.Lock()
		l.over = true
		l.work.Broadcast()
		p.mu.Unlock()
		c.tcp.drop(conn)
	}()
	r := bufio.NewReaderSize(conn, 64*kib)
	for {
		m, err := readChannelFrame(r, &c.in.pool, c.cfg.Size, c.cfg.MaxMessage)
		if errors.Is(err, ErrCorrupt) {
			c.fail(&Error{Op: "receive", Rank: c.cfg.Rank, Peer: from, Err: err})
			return
		}
		if err != nil || !p.arrive(from, l, m) {
			return
		}
	}
}

// arrive hands a message to the endpoint, and reports whether the connection is still of use.
func (p *channelPort) arrive(from int, l *inLink, m channel.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.wait(func() bool { return !p.fenced || p.in[from] != l })
	if err != nil || p.ended || p.in[from] != l {
		return false
	}
	acts, err := p.ep.Arrive(from, m)
	if err != nil { // one is missing, which a new connection will bring
		return false
	}
	p.apply(acts)
	return true
}

// writeAcks tells a rank what has arrived. One acknowledgement covers all messages since the one
// before.
func (p *channelPort) writeAcks(l *inLink) {
	var b [ackBytes]byte
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for !l.due && !l.over && !p.ended {
			l.work.Wait()
		}
		if l.over || p.ended {
			return
		}
		encodeAck(&b, l.ack)
		l.due = false
		p.mu.Unlock()
		_, err := l.conn.Write(b[:])
		p.mu.Lock()
		if err != nil {
			p.comm.tcp.drop(l.conn) // its reader ends, too
			return
		}
	}
}
