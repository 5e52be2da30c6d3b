package supervisor

import (
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// proceed lets the application pass a boundary.
func (p *proc) proceed() {
	if p.app.iter == p.w.iterations {
		p.ending = true
		p.after(p.w.upTo(5*time.Millisecond), func() { p.step(protocol.Ended{Body: []byte{byte(p.rank)}}) })
		return
	}
	p.running, p.computing = true, true
	p.after(p.w.upTo(20*time.Millisecond), func() {
		p.computing = false
		p.run()
	})
}

// run has the application go on until it waits for something.
func (p *proc) run() {
	for p.running && !p.computing {
		if p.match != nil {
			if p.e.Durable() < p.wait {
				return
			}
			m := p.match
			p.match = nil
			p.take(*m, true)
			continue
		}
		ops := p.w.program.ops[p.app.iter][p.rank]
		if p.pc == len(ops) {
			p.boundary()
			return
		}
		switch o := ops[p.pc]; o.kind {
		case opSend:
			p.pc++
			p.send(o.peer, o.tag, p.app.send(o.peer, p.pc-1, o.tag))
		case opOutput:
			p.pc++
			p.app.outputs++
			p.tell(protocol.Output{Index: p.e.Output()})
		case opRecv:
			m, ok := p.receive(o.peer, 0, o.tag)
			if !ok {
				return
			}
			p.take(m, false)
		case opRecvAny:
			src, seq, recorded := p.e.Recorded()
			if !recorded || p.w.mutant.ignoreOrder {
				src, seq = -1, 0
			}
			m, ok := p.receive(src, seq, o.tag)
			if !ok {
				return
			}
			p.matched(m)
		}
	}
}

// matched notes what a receive from any source got.
func (p *proc) matched(m letterIn) {
	wait, acts, err := p.e.ReceivedAny(m.src, m.seq)
	if err != nil {
		p.w.failf("rank %d: %v", p.rank, err)
	}
	p.match, p.wait = &m, wait
	if p.w.mutant.goOnEarly {
		p.wait = 0
	}
	p.carry(acts)
}

// receive takes the first message from the inbox that fits.
func (p *proc) receive(src int, seq uint64, tag int32) (letterIn, bool) {
	for i, m := range p.inbox {
		if m.tag == tag && (src < 0 || m.src == src) && (seq == 0 || m.seq == 0 || m.seq == seq) {
			p.inbox = append(p.inbox[:i:i], p.inbox[i+1:]...)
			return m, true
		}
	}
	return letterIn{}, false
}

func (p *proc) take(m letterIn, any bool) {
	p.pc++
	p.app.take(m.src, any, m.tag, m.letter)
	p.w.inspectTrace(p)
}

// boundary ends an iteration.
func (p *proc) boundary() {
	p.running = false
	p.app.iter++
	p.pc = 0
	var counts []protocol.Count
	v := p.e.Vector()
	for r := range p.w.ranks {
		if n := p.sentIn[r] + v.Sent[r]; n > 0 {
			counts = append(counts, protocol.Count{Peer: r, N: n})
		}
	}
	p.step(protocol.Reached{Iter: p.app.iter, Counts: counts})
}

func (p *proc) send(dst int, tag int32, l letter) {
	if !p.e.Inside(dst) {
		m := channel.Message{Tag: tag, Data: encodeLetter(l)}
		var acts []channel.Action
		m.Seq, acts = p.e.Send(dst, m)
		if p.w.chatty && len(acts) == 0 {
			m.Depends = p.e.Vector().Depends
			acts = []channel.Action{channel.Transmit{To: dst, Message: m}}
		}
		p.carry(acts)
		return
	}
	if dst == p.rank {
		p.inbox = append(p.inbox, letterIn{p.rank, tag, 0, l})
		return
	}
	p.sentIn[dst]++
	w := p.w
	to := p.g.procs[p.w.localOf(dst)]
	p.fifoIn[dst] = max(p.fifoIn[dst], w.now+w.upTo(40*time.Millisecond))
	if to.incarnation != p.incarnation {
		return // the group has gone back without this one
	}
	to.after(p.fifoIn[dst]-w.now, func() {
		to.arrivedIn[p.rank]++
		to.inbox = append(to.inbox, letterIn{p.rank, tag, 0, l})
		to.drained()
		to.run()
	})
}
