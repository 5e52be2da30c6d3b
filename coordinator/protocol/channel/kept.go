package channel

import (
	"cmp"
	"slices"
)

// forgotten is the number up to which messages need not be kept.
func (p *peer) forgotten(k Kind) uint64 {
	if k == Sender {
		return p.collected
	}
	return p.acked
}

// Overhead is about what a message takes to keep beside its data.
const Overhead = 128

// cost is what a message takes in memory: many empty ones fill it, too.
func (m *Message) cost() int64 {
	return int64(len(m.Data)) + 8*int64(len(m.Depends)) + Overhead
}

func (p *peer) keep(m Message) {
	p.kept = append(p.kept, m)
	p.keptBytes += int64(len(m.Data))
	if m.Seq > p.acked {
		p.unacked += m.cost()
	}
}

// forget drops what is kept up to a number.
func (p *peer) forget(seq uint64) {
	n := 0
	for n < len(p.kept) && p.kept[n].Seq <= seq {
		p.keptBytes -= int64(len(p.kept[n].Data))
		if p.kept[n].Seq > p.acked {
			p.unacked -= p.kept[n].cost()
		}
		p.kept[n].Data = nil // the array may live on
		n++
	}
	p.kept = p.kept[n:]
	if len(p.kept) == 0 {
		p.kept = nil
	}
}

// after returns the messages kept that are behind a number.
func (p *peer) after(seq uint64) []Message {
	i, _ := slices.BinarySearchFunc(p.kept, seq+1, func(m Message, s uint64) int { return cmp.Compare(m.Seq, s) })
	return p.kept[i:]
}

// setAcked moves the mark of what is acknowledged, in either direction.
func (p *peer) setAcked(seq uint64) {
	for _, m := range p.after(min(seq, p.acked)) {
		switch {
		case m.Seq > max(seq, p.acked):
			p.acked = seq
			return
		case seq > p.acked:
			p.unacked -= m.cost()
		default:
			p.unacked += m.cost()
		}
	}
	p.acked = seq
}

// Acked takes an acknowledgement: the peer has all messages up to a number for
// good, or, with Sender, as long as it lives.
func (e *Endpoint) Acked(peer int, seq uint64) {
	p := &e.peers[peer]
	if seq <= p.acked {
		return
	}
	if e.cfg.Kind != Sender {
		p.forget(seq)
	}
	p.setAcked(seq)
}

// Collected says that a committed checkpoint of a peer covers all messages up to
// a number: with Sender they are forgotten. It is the Received of that
// checkpoint's Vector.
func (e *Endpoint) Collected(peer int, seq uint64) {
	p := &e.peers[peer]
	if e.cfg.Kind != Sender || seq <= p.collected {
		return
	}
	p.collected = seq
	p.forget(seq)
	p.setAcked(max(seq, p.acked)) // the acknowledgement may have been lost
}

// Kept returns how many messages to a peer are kept, their bytes, and what those
// among them take in memory that are not acknowledged, Overhead included: what a
// sender that does not want to run ahead for ever looks at.
func (e *Endpoint) Kept(peer int) (messages int, bytes, unacked int64) {
	p := &e.peers[peer]
	return len(p.kept), p.keptBytes, p.unacked
}
