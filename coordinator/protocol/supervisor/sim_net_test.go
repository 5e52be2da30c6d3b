package supervisor

import (
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// conn is a connection between processes of two groups, made by the one that
// sends messages on it; acknowledgements go the other way. In each direction it
// is FIFO, until it fails: what is under way then is lost.
type conn struct {
	w        *world
	from, to *proc
	failed   bool
	there    time.Duration // last delivery in each direction
	back     time.Duration
}

func (c *conn) delay(last *time.Duration) time.Duration {
	*last = max(*last, c.w.now+c.w.upTo(15*time.Millisecond))
	return *last - c.w.now
}

// fail breaks the connection. Both ends notice some time later.
func (c *conn) fail() {
	if c.failed {
		return
	}
	c.failed = true
	w := c.w
	c.from.after(w.upTo(20*time.Millisecond), func() {
		if c.from.out[c.to.rank] == c {
			c.from.hangUp(c.to.rank)
			c.from.dial(c.to.rank)
		}
	})
	c.to.after(w.upTo(20*time.Millisecond), func() {
		if c.to.in[c.from.rank] == c {
			c.to.in[c.from.rank] = nil
		}
	})
}

// hangUp drops the connection to a peer.
func (p *proc) hangUp(peer int) {
	if c := p.out[peer]; c != nil {
		c.fail()
		p.out[peer] = nil
	}
	p.e.PeerDown(peer)
}

// dial makes a connection to a peer, again and again until that succeeds.
func (p *proc) dial(peer int) {
	if p.fenced || p.dialing[peer] || p.addr[peer] == nil || p.out[peer] != nil {
		return
	}
	p.dialing[peer] = true
	w, to := p.w, p.addr[peer]
	again := func() {
		p.after(20*time.Millisecond+w.upTo(30*time.Millisecond), func() {
			p.dialing[peer] = false
			p.dial(peer)
		})
	}
	if to.dead {
		again()
		return
	}
	have := uint64(0)
	c := &conn{w: w, from: p, to: to}
	w.after(w.upTo(10*time.Millisecond), func() {
		if p.dead || to.dead || to.e == nil || to.stalled > w.now || !to.accept(c, &have) {
			again()
			return
		}
		p.after(c.delay(&c.back), func() {
			p.dialing[peer] = false
			if c.failed || p.fenced || p.addr[peer] != to || !p.admit(to) {
				c.fail()
				p.dial(peer)
				return
			}
			p.out[peer] = c
			acts, err := p.e.PeerUp(peer, have+w.mutant.resendLater)
			if err != nil {
				w.failf("rank %d: %v", p.rank, err)
			}
			p.carry(acts)
		})
	})
}

// admit checks that the process at the other end is not one that was replaced.
func (p *proc) admit(peer *proc) bool {
	if p.w.mutant.anyIncarnation {
		return true
	}
	newer := uint64(peer.incarnation) > p.e.Incarnation(peer.rank)
	if p.e.Admit(peer.rank, uint64(peer.incarnation)) != nil {
		return false
	}
	if newer {
		p.dropOld(peer)
	}
	return true
}

// dropOld drops the connections to and from earlier processes of a rank.
func (p *proc) dropOld(peer *proc) {
	r := peer.rank
	if c := p.out[r]; c != nil && c.to != peer {
		p.hangUp(r)
	}
	if c := p.in[r]; c != nil && c.from != peer {
		c.fail()
		p.in[r] = nil
	}
}

// accept takes a connection from a peer and says what of it is there already.
func (p *proc) accept(c *conn, have *uint64) bool {
	if p.fenced || !p.admit(c.from) {
		return false
	}
	if old := p.in[c.from.rank]; old != nil {
		old.fail()
	}
	p.in[c.from.rank] = c
	*have = p.e.Have(c.from.rank)
	p.carry(p.e.Connected(c.from.rank))
	return true
}

// redial takes the news of where a peer is now.
func (p *proc) redial(peer, incarnation int, at *proc) {
	if old := p.addr[peer]; old != nil && old.incarnation >= at.incarnation {
		return
	}
	if at.incarnation != incarnation {
		p.w.failf("rank %d is said to be in incarnation %d and is in %d", peer, incarnation, at.incarnation)
	}
	p.addr[peer] = at
	if !p.w.mutant.anyIncarnation {
		_ = p.e.Admit(peer, uint64(incarnation)) // or what is known is newer still
		p.dropOld(at)
	} else if c := p.out[peer]; c != nil && c.to != at {
		p.hangUp(peer)
	}
	p.dial(peer)
}

// fence has the process exchange nothing with other groups any more.
func (p *proc) fence(round int) {
	p.fenced = true
	for r := range p.out {
		if p.out[r] != nil {
			p.hangUp(r)
		}
		if c := p.in[r]; c != nil {
			c.fail()
			p.in[r] = nil
		}
	}
	p.fencedRound, p.moment = round, p.e.Present()
	p.tell(protocol.Fenced{Round: round, Vector: p.moment})
}

func (p *proc) unfence(moved []protocol.Life) {
	p.fenced = false
	for _, l := range moved {
		if p.w.mutant.forgetAddress {
			p.addr[l.Rank] = nil
		}
		if !p.w.mutant.anyIncarnation {
			_ = p.e.Admit(l.Rank, l.Incarnation)
		}
	}
	for r := range p.addr {
		p.dial(r)
	}
}

// carry carries the actions of the endpoint out.
func (p *proc) carry(acts []channel.Action) {
	w := p.w
	for _, a := range acts {
		switch a := a.(type) {
		case channel.Transmit:
			if c := p.out[a.To]; c != nil {
				c.to.after(c.delay(&c.there), func() { c.to.arrive(c, a.Message) })
			}
		case channel.Ack:
			if c := p.in[a.To]; c != nil {
				c.from.after(c.delay(&c.back), func() {
					if !c.failed && c.from.out[c.to.rank] == c {
						c.from.e.Acked(c.to.rank, a.Seq)
					}
				})
			}
		case channel.Deliver:
			l := letterIn{a.From, a.Message.Tag, a.Message.Seq, decodeLetter(a.Message.Data)}
			p.inbox = append(p.inbox, l)
			p.drained()
		case channel.Append:
			w.appendLog(p, a)
		}
	}
}

// arrive takes a message from a connection.
func (p *proc) arrive(c *conn, m channel.Message) {
	if c.failed || p.in[c.from.rank] != c {
		return
	}
	src := c.from.rank
	acts, err := p.w.mutant.arrive(p, src, m)
	if err != nil {
		c.fail()
		p.in[src] = nil
		return
	}
	p.carry(acts)
	p.run()
}

// appendLog puts a frame at the end of the log of a rank.
func (w *world) appendLog(p *proc, a channel.Append) {
	if p.zombie {
		return
	}
	log := &w.disk.logs[p.rank]
	log.frames = append(log.frames, a.Frame)
	p.unsynced = append(p.unsynced, a.Index)
	if !p.syncing {
		p.syncing = true
		p.sync()
	}
}

// sync makes the log durable after a while: all that is there when it begins. An
// optimistic log takes its time.
func (p *proc) sync() {
	w := p.w
	takes := w.upTo(10 * time.Millisecond)
	if w.log == channel.Optimistic {
		takes = w.upTo(w.lazy)
	}
	log := &w.disk.logs[p.rank]
	n := 0
	p.after(takes/2, func() {
		n = len(p.unsynced)
		p.after(takes/2, func() {
			if p.zombie {
				return
			}
			if w.diskErrors() && w.rng.IntN(15) == 0 {
				p.relog(log)
				return
			}
			log.durable += n
			p.settled = log.durable
			index := p.unsynced[n-1]
			p.unsynced = p.unsynced[n:]
			w.mutant.wrote(log, n)
			p.syncing = len(p.unsynced) > 0
			if p.syncing {
				p.sync()
			}
			p.logged(index)
		})
	})
}

// relog is what follows when frames could not be made durable: nobody knows
// which of them are there.
func (p *proc) relog(log *simLog) {
	log.crash(p.w)
	p.settled = log.durable
	p.unsynced = nil
	p.syncing = false
	p.carry(p.e.Relog())
}

func (p *proc) logged(index uint64) {
	p.carry(p.e.Logged(index))
	if p.cut > 0 && p.e.Durable() >= p.cut {
		p.cut = 0
		p.tell(protocol.Ready{})
	}
	p.run()
}
