package mpi

import (
	"math/bits"
	"sort"
	"sync"
	"unsafe"
)

// A context keeps the messages of users and of collective operations apart.
type msgContext uint8

const (
	userContext msgContext = iota
	collectiveContext
	numContexts
)

// An envelope is what a message is matched by.
type envelope struct {
	ctx msgContext
	tag int32 // user: the user's; collective: the operation
}

func (e envelope) valid() bool { return e.ctx < numContexts && e.tag >= 0 }

// A message has arrived, or is arriving, in the inbox.
type message struct {
	envelope
	src int
	// number is the message's in its channel, if it came from another group and has not been in a
	// checkpoint since; else 0.
	number uint64
	lent   bool   // its memory is somebody else's too
	seq    int64  // order of arrival, over all sources
	data   []byte // its memory goes back to the pool with the message
	next   *message
}

// A messagePool recycles messages by the power of two of their capacity, from 64 bytes to 64 MiB.
// Larger ones are left to the collector.
type messagePool struct {
	classes [maxClass - minClass + 1]sync.Pool
}

const minClass, maxClass = 6, 26

func classOf(n int) int { return max(bits.Len(uint(max(n, 1)-1)), minClass) }

// get returns a message with room for n bytes, of undefined content.
func (p *messagePool) get(n int) *message {
	class := classOf(n)
	if class > maxClass {
		return &message{data: alignedBytes(n, n)}
	}
	if m, ok := p.classes[class-minClass].Get().(*message); ok {
		m.data, m.number = m.data[:n], 0
		return m
	}
	return &message{data: alignedBytes(n, 1<<class)}
}

// put takes back a message that is used no more.
func (p *messagePool) put(m *message) {
	class := classOf(cap(m.data))
	if class > maxClass || cap(m.data) != 1<<class || m.lent {
		return
	}
	m.next = nil
	p.classes[class-minClass].Put(m)
}

// alignedBytes returns memory that can be looked at as float64s too.
func alignedBytes(n, capacity int) []byte {
	return bytesOf(make([]float64, (capacity+7)/8))[:n:capacity]
}

// bytesOf and floatsOf look at the same memory as the other type: the ranks of a job run on
// machines of one byte order, as MPI without XDR does.
func bytesOf(f []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), len(f)*8)
}

func floatsOf(b []byte) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

// An inbox holds the messages that have arrived and not been received, and the receivers that
// wait for one. It has no bound: the transports put into it whatever arrives, so that no sender
// waits for this rank's program. That makes every send eager, and programs safe that send to each
// other before either receives. The program bounds it: between two exchanges no rank can be more
// than an exchange ahead of the ranks it hears from.
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

// deliver takes a message that has arrived whole. Messages of one source are delivered in the
// order in which they were sent.
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

// receive returns the first message that matches p, waiting for it if need be. The caller puts it
// back into the pool.
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

// take removes and returns the earliest message that matches p, or nil. Within a source that is
// the first one with the tag; among sources, the first to arrive.
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
