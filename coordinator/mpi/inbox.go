package mpi

import (
	"sort"
	"sync"
)

// An inbox holds the messages that have arrived and not been received, and the
// receivers that wait for one. It has no bound: the transports put into it
// whatever arrives, so that no sender ever waits for this rank's program. That
// is what makes every send eager, and programs safe that send to each other
// before either receives. The program bounds it: between two exchanges
// no rank can be more than an exchange ahead of those it hears from.
type inbox struct {
	mu      sync.Mutex
	changed sync.Cond // for Drain only
	pool    messagePool

	queues            [numContexts][]fifo // by source
	held              int                 // messages in queues
	seq               int64               // of the next arrival; restored ones have negative numbers
	arrived           []uint64            // by source, since Join
	touched, restored bool                // a message was received: too late to restore; or restored already
	waiting           []*waiter           // in the order in which they came
	spare             []*waiter
	drains            int // Drains that wait for changed
	err               error
}

type fifo struct{ head, tail *message }

// A waiter is a receive that found nothing. deliver hands it its message.
type waiter struct {
	pattern
	ready chan struct{} // capacity 1
	msg   *message
	err   error
}

// A pattern is what a receive asks for.
type pattern struct {
	ctx      msgContext
	src, tag int // may be AnySource, AnyTag
	bytes    int // -1 for any number
}

func (p *pattern) matches(m *message) bool {
	return p.ctx == m.ctx && (p.src == AnySource || p.src == m.src) && (p.tag == AnyTag || p.tag == int(m.tag))
}

// fits returns a LengthError if the receiver's buffer is not for m.
func (p *pattern) fits(m *message) error {
	if p.bytes >= 0 && len(m.data) != p.bytes {
		return &LengthError{Source: m.src, Tag: int(m.tag), Bytes: len(m.data), Room: p.bytes}
	}
	return nil
}

func (b *inbox) init(size int) {
	b.changed.L = &b.mu
	for ctx := range b.queues {
		b.queues[ctx] = make([]fifo, size)
	}
	b.arrived = make([]uint64, size)
}

// deliver takes a message that has arrived whole. Messages of one source are
// delivered in the order in which they were sent.
func (b *inbox) deliver(m *message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived[m.src]++
	m.seq = b.seq
	b.seq++
	if b.drains > 0 {
		b.changed.Broadcast()
	}
	for i := 0; i < len(b.waiting); {
		w := b.waiting[i]
		if !w.matches(m) {
			i++
			continue
		}
		b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
		err := w.fits(m)
		if err == nil {
			b.touched = true
			w.msg = m
			w.ready <- struct{}{} // w is the receiver's again
			return
		}
		w.err = err
		w.ready <- struct{}{} // and m is for the next one who asks
	}
	q := &b.queues[m.ctx][m.src]
	if q.tail == nil {
		q.head = m
	} else {
		q.tail.next = m
	}
	q.tail = m
	b.held++
}

// receive returns the first message that matches p, waiting for it if need be.
// The caller puts it back into the pool.
func (b *inbox) receive(p pattern) (*message, error) {
	b.mu.Lock()
	if err := b.err; err != nil {
		b.mu.Unlock()
		return nil, err
	}
	if m, err := b.take(p); m != nil || err != nil {
		b.mu.Unlock()
		return m, err
	}
	var w *waiter
	if n := len(b.spare); n > 0 {
		w, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.pattern = p
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	<-w.ready

	b.mu.Lock()
	defer b.mu.Unlock()
	m, err := w.msg, w.err
	w.msg, w.err = nil, nil
	b.spare = append(b.spare, w)
	return m, err
}

// take removes and returns the earliest message that matches p, nil if there is
// none. Within a source that is the first one with the tag; among sources, the
// one that arrived first.
func (b *inbox) take(p pattern) (*message, error) {
	if b.held == 0 {
		return nil, nil
	}
	var best, before *message
	look := func(q *fifo) {
		var prev *message
		for m := q.head; m != nil; prev, m = m, m.next {
			if best != nil && m.seq > best.seq {
				return
			}
			if p.matches(m) {
				best, before = m, prev
				return
			}
		}
	}
	if p.src != AnySource {
		look(&b.queues[p.ctx][p.src])
	} else {
		for src := range b.queues[p.ctx] {
			look(&b.queues[p.ctx][src])
		}
	}
	if best == nil {
		return nil, nil
	}
	if err := p.fits(best); err != nil {
		return nil, err
	}
	q := &b.queues[p.ctx][best.src]
	if before == nil {
		q.head = best.next
	} else {
		before.next = best.next
	}
	if q.tail == best {
		q.tail = before
	}
	best.next = nil
	b.held--
	b.touched = true
	return best, nil
}

// fail makes all present and future receives return err.
func (b *inbox) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	for _, w := range b.waiting {
		w.err = err
		w.ready <- struct{}{}
	}
	b.waiting = nil
	b.changed.Broadcast()
}

// list returns the messages held, in the order of their arrival.
func (b *inbox) list() []*message {
	all := make([]*message, 0, b.held)
	for ctx := range b.queues {
		for src := range b.queues[ctx] {
			for m := b.queues[ctx][src].head; m != nil; m = m.next {
				all = append(all, m)
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].seq < all[j].seq })
	return all
}

// nudge has Drains look again.
func (b *inbox) nudge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drains > 0 {
		b.changed.Broadcast()
	}
}
