package mpi

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// A ring carries records from one rank of a node to another. Head and tail count bytes since the
// segment was made and never turn back; what lies between is published. Only the receiver moves
// head, only the sender tail, and only over whole records, so that a sender that is killed
// half-way leaves the ring as if it had not begun.
type ring struct {
	head, tail *uint64
	data       []byte // a multiple of recordAlign long, so headers never wrap
}

func (s *Segment) ring(src, dst int) ring {
	off := s.geo.ring(src, dst)
	end := off + s.geo.ringBytes
	return ring{s.word64(off), s.word64(off + 64), s.mem[off+ringHead : end : end]}
}

type recordKind uint8

const (
	inlineRecord recordKind = iota + 1 // a whole message: the payload follows
	cellRecord                         // a piece of a message, in a cell
)

// A record is one entry of a ring.
type record struct {
	kind recordKind
	envelope
	length uint32 // of the payload or piece
	cell   uint32 // of the sender's pool
	total  uint64 // of the message
	offset uint64 // of the piece in it
}

// inlineLimit is the longest message that goes through the ring itself: several fit, so that the
// sender of a burst does not wait for each.
func (r *ring) inlineLimit() int { return len(r.data)/4&^(recordAlign-1) - recordAlign }

func (rec *record) size() uint64 {
	if rec.kind == inlineRecord {
		return recordAlign + (uint64(rec.length)+recordAlign-1)&^(recordAlign-1)
	}
	return recordAlign
}

func (rec *record) encode(b []byte) {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = byte(rec.kind), byte(rec.ctx), 0, 0
	le.PutUint32(b[4:], rec.length)
	le.PutUint32(b[8:], uint32(rec.tag))
	le.PutUint32(b[12:], rec.cell)
	le.PutUint64(b[16:], rec.total)
	le.PutUint64(b[24:], rec.offset)
}

func decodeRecord(b []byte) record {
	le := binary.LittleEndian
	return record{
		kind:     recordKind(b[0]),
		envelope: envelope{msgContext(b[1]), int32(le.Uint32(b[8:]))},
		length:   le.Uint32(b[4:]),
		cell:     le.Uint32(b[12:]),
		total:    le.Uint64(b[16:]),
		offset:   le.Uint64(b[24:]),
	}
}

// check compares a record that was read from shared memory with what can be there at all. used is
// what the ring holds.
func (rec *record) check(r *ring, g *geometry, used uint64, maxMessage int) error {
	bad := false
	switch rec.kind {
	case inlineRecord:
		bad = rec.length > uint32(r.inlineLimit()) || rec.total != uint64(rec.length) || rec.offset != 0 || rec.size() > used
	case cellRecord:
		bad = rec.length == 0 || int64(rec.length) > g.cellBytes || rec.cell >= uint32(g.cells) ||
			rec.offset > rec.total || uint64(rec.length) > rec.total-rec.offset
	default:
		bad = true
	}
	if bad || !rec.valid() || rec.total > uint64(maxMessage) {
		return fmt.Errorf("%w record %+v", ErrCorrupt, *rec)
	}
	return nil
}

func (r *ring) used(head, tail uint64) (uint64, error) {
	n := tail - head
	if n > uint64(len(r.data)) || n%recordAlign != 0 || head%recordAlign != 0 {
		return 0, fmt.Errorf("%w ring: head %d, tail %d of %d bytes", ErrCorrupt, head, tail, len(r.data))
	}
	return n, nil
}

func (r *ring) at(counter uint64) uint64 { return counter % uint64(len(r.data)) }

type producer struct {
	ring
	next uint64 // our copy of tail
}

func newProducer(r ring) producer { return producer{r, atomic.LoadUint64(r.tail)} }

func (p *producer) room(n uint64) (bool, error) {
	used, err := p.used(atomic.LoadUint64(p.head), p.next)
	return err == nil && uint64(len(p.data))-used >= n, err
}

// put writes a record for which there is room, and publishes it.
func (p *producer) put(rec *record, payload []byte) {
	rec.encode(p.data[p.at(p.next):])
	if rec.kind == inlineRecord {
		n := copy(p.data[p.at(p.next+recordAlign):], payload)
		copy(p.data, payload[n:])
	}
	p.next += rec.size()
	atomic.SwapUint64(p.tail, p.next) // a swap: see bell
}

type consumer struct {
	ring
	next uint64 // our copy of head
}

func newConsumer(r ring) consumer { return consumer{r, atomic.LoadUint64(r.head)} }

func (c *consumer) empty() bool { return atomic.LoadUint64(c.tail) == c.next }

func (c *consumer) peek(g *geometry, maxMessage int) (rec record, ok bool, err error) {
	used, err := c.used(c.next, atomic.LoadUint64(c.tail))
	if err != nil || used == 0 {
		return record{}, false, err
	}
	rec = decodeRecord(c.data[c.at(c.next):])
	if err := rec.check(&c.ring, g, used, maxMessage); err != nil {
		return record{}, false, err
	}
	return rec, true, nil
}

func (c *consumer) payload(dst []byte) {
	n := copy(dst, c.data[c.at(c.next+recordAlign):])
	copy(dst[n:], c.data)
}

func (c *consumer) pop(rec *record) {
	c.next += rec.size()
	atomic.SwapUint64(c.head, c.next) // a swap: see bell
}
