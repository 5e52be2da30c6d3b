package iosched

import (
	"fmt"
	"time"
)

// deadline sweeps over the offsets of reads, and of writes, in batches. A batch begins
// with the oldest request if it has expired. Reads go before writes, but not for ever.
type deadline struct {
	o       DeadlineOptions
	files   numbers
	sweeps  [2]sweep
	oldest  [2]heap[*Request]
	op      Op  // of the batch
	batch   int // requests left in it
	starved int // batches of reads that passed waiting writes
	out     [1]Grant
}

func newDeadline(o Options) (*deadline, error) {
	p := &deadline{o: DefaultDeadline(), files: make(numbers)}
	if o.Deadline != nil {
		p.o = *o.Deadline
	}
	if p.o.Read < 0 || p.o.Write < 0 || p.o.Batch < 1 || p.o.Starved < 0 {
		return nil, fmt.Errorf("expiry %v and %v, batch %d, starved %d (want no negative time, a batch of 1 or more, starved 0 or more)", p.o.Read, p.o.Write, p.o.Batch, p.o.Starved)
	}
	for op := range p.oldest {
		p.oldest[op] = heap[*Request]{less: older, moved: func(r *Request, i int) { r.place.index = i }}
	}
	return p, nil
}

func (p *deadline) Name() string { return "deadline" }
func (p *deadline) Len() int     { return p.sweeps[Read].len + p.sweeps[Write].len }

func (p *deadline) Add(_ time.Duration, r *Request) {
	r.left = r.Bytes
	r.place.file = p.files.of(r.File)
	p.sweeps[r.Op].add(r)
	p.oldest[r.Op].push(r)
}

func (p *deadline) Next(now time.Duration) ([]Grant, time.Duration) {
	if p.Len() == 0 {
		return nil, 0
	}
	s := &p.sweeps[p.op]
	n := s.tree.from(s.at)
	if p.batch == 0 || n == nil {
		n = p.begin(now)
		s = &p.sweeps[p.op]
	}
	r := n.item
	s.take(r)
	p.oldest[r.Op].remove(r.place.index)
	p.batch--
	p.out[0] = r.grant(0)
	return p.out[:], 0
}

// begin starts a batch, and returns its first request.
func (p *deadline) begin(now time.Duration) *node[*Request] {
	p.op, p.batch = p.choose(), p.o.Batch
	s, oldest := &p.sweeps[p.op], p.oldest[p.op].first()
	expiry := p.o.Read
	if p.op == Write {
		expiry = p.o.Write
	}
	if now-oldest.Arrival >= expiry {
		return &oldest.place.pos
	}
	if n := s.tree.from(s.at); n != nil {
		return n
	}
	return s.tree.from(key{})
}

func (p *deadline) choose() Op {
	switch {
	case p.sweeps[Write].len == 0:
		return Read
	case p.sweeps[Read].len == 0 || p.starved >= p.o.Starved:
		p.starved = 0
		return Write
	}
	p.starved++
	return Read
}

func (p *deadline) Done(_, _ time.Duration, _ Grant) {}
