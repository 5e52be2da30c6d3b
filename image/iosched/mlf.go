package iosched

import (
	"fmt"
	"time"
)

// mlf is the variant of Multiple Level Feedback of aIOLi (Lebre 2006, §5.3). Requests
// wait in a queue for each file and operation. Contiguous ones become a virtual
// request. The quantum of each virtual request grows by QB at each choice, and one
// whose quantum covers its bytes may be chosen. The chosen queue keeps the unit for
// a window, whose length follows the use of the last one.
type mlf struct {
	o         MLFOptions
	rate      float64
	weight    func(string) float64
	maxWeight float64
	files     map[string]*shared
	choice    int64        // how often it has chosen
	turns     int          // windows that are over
	last      uint64       // the highest number of a request that came
	len       int          // requests that were not granted
	entries   int          // virtual requests
	ripening  heap[*entry] // those whose quantum is too small, by when it will do
	aging     heap[*entry] // the same, by arrival
	eligible  heap[*queue] // queues with others, by age
	window    window
	wait      wait
	spare     []*entry
	out       []Grant
}

// shared is a file with requests of any application.
type shared struct {
	queues [2]*queue
	writes heap[*Request] // that are not done, by age
	reads  heap[*Request] // that wait for older writes
}

func newMLF(o Options) (Policy, error) {
	p := &mlf{o: DefaultMLF(), rate: o.Rate, weight: o.Weight, files: make(map[string]*shared)}
	if o.MLF != nil {
		p.o = *o.MLF
	}
	if !p.o.Enabled {
		return newFIFO(), nil
	}
	if err := p.o.check(); err != nil {
		return nil, err
	}
	p.ripening = heap[*entry]{
		less:  func(a, b *entry) bool { return a.ripe < b.ripe || a.ripe == b.ripe && a.oldest < b.oldest },
		moved: func(e *entry, i int) { e.ripening = i },
	}
	p.aging = heap[*entry]{
		less:  func(a, b *entry) bool { return a.arrival < b.arrival || a.arrival == b.arrival && a.oldest < b.oldest },
		moved: func(e *entry, i int) { e.aging = i },
	}
	p.eligible = heap[*queue]{
		less:  (*queue).before,
		moved: func(q *queue, i int) { q.index = i },
	}
	return p, nil
}

func (o *MLFOptions) check() error {
	switch {
	case o.QB < 1 || o.Aggregate && o.MaxAgg < 1:
		return fmt.Errorf("QB of %d bytes, aggregates of %d bytes (want 1 or more)", o.QB, o.MaxAgg)
	case o.Windows && (o.WindowMax <= 0 || !(o.Grow >= 1) || !(o.Shrink > 0 && o.Shrink <= 1)):
		return fmt.Errorf("windows up to %v, growth %v, shrinking %v (want more than 0 s, growth of 1 or more, shrinking in (0, 1])", o.WindowMax, o.Grow, o.Shrink)
	case min(o.Deadline, o.ShiftWait, o.AggWait, o.IdleWait) < 0:
		return fmt.Errorf("deadline %v, waits of %v, %v and %v (want 0 s or more)", o.Deadline, o.ShiftWait, o.AggWait, o.IdleWait)
	}
	return nil
}

func (p *mlf) Name() string { return "mlf" }
func (p *mlf) Len() int     { return p.len }

func (p *mlf) Add(now time.Duration, r *Request) {
	f := p.files[r.File]
	if f == nil {
		f = &shared{
			writes: heap[*Request]{less: older, moved: func(r *Request, i int) { r.place.index = i }},
			reads:  heap[*Request]{less: older},
		}
		p.files[r.File] = f
	}
	q := f.queues[r.Op]
	if q == nil {
		q = p.newQueue(f, r)
		f.queues[r.Op] = q
	}
	r.left = r.Bytes
	r.place = place{queue: q, member: q.enter(now, r), age: p.choice}
	p.len++
	p.last = max(p.last, r.Seq)
	switch {
	case r.Op == Write:
		f.writes.push(r)
	case p.o.ReadsWait && f.writes.len() > 0 && f.writes.first().Seq < r.Seq:
		f.reads.push(r)
		return
	}
	p.insert(q, r)
}

// Done lets reads go on that waited for a write.
func (p *mlf) Done(_, now time.Duration, g Grant) {
	r := g.Request
	q := r.place.queue
	q.exit(now, r)
	if r.Op == Read {
		return
	}
	f := q.file
	f.writes.remove(r.place.index)
	for f.reads.len() > 0 && (f.writes.len() == 0 || f.reads.first().Seq < f.writes.first().Seq) {
		read := f.reads.pop()
		p.insert(read.place.queue, read)
	}
}

// Next chooses a virtual request: step 5 of the thesis's algorithm. It stays idle if
// a process that comes soon would make the choice a better one.
func (p *mlf) Next(now time.Duration) ([]Grant, time.Duration) {
	if p.entries == 0 {
		return nil, 0
	}
	p.choice++
	p.ripen(now)
	q, wake := p.holder(now)
	if wake > 0 {
		return nil, wake
	}
	e, jumped := p.choose(now, q)
	if !jumped {
		if wake := p.hesitate(now, e); wake > 0 {
			return nil, wake
		}
	}
	return p.deliver(e), 0
}

// holder returns the queue that the next request comes from.
func (p *mlf) holder(now time.Duration) (q *queue, wake time.Duration) {
	if q := p.wait.queue; q != nil && q.entries.root != nil && p.wait.reason != Synchronous {
		return q, 0
	}
	if q := p.window.queue; q != nil {
		if p.open(now) {
			if q.entries.root != nil {
				if p.wait.queue == q {
					q.pause = patience{}
				}
				return q, 0
			}
			if wake := p.idle(now, q); wake > 0 {
				return nil, wake
			}
		}
		p.close()
	}
	p.wait.queue = nil
	if p.eligible.len() == 0 {
		p.choice = p.ripening.first().ripe
		p.ripen(now)
	}
	q = p.eligible.first()
	if p.o.Windows {
		p.begin(now, q)
	}
	return q, 0
}

// choose returns the request of a queue that is served next, and whether it was
// chosen for its age alone.
func (p *mlf) choose(now time.Duration, q *queue) (e *entry, jumped bool) {
	if q.byAge.len() > 0 {
		e = q.byAge.first()
		if p.o.OffsetFirst && p.overdue(now, e) && now >= q.jump {
			q.jump = now + p.o.Deadline
			return e, true
		}
	}
	switch {
	case !p.o.OffsetFirst && e != nil:
		return e, false
	case e != nil && p.window.queue != q:
		return q.byOffset.first(), false
	}
	// The window is the quantum of all that its queue has.
	return q.entries.from(key{}).item, false
}

func (p *mlf) overdue(now time.Duration, e *entry) bool {
	return p.o.Deadline > 0 && now-e.arrival >= p.o.Deadline
}

// deliver grants a virtual request: its parts one after the other, or all of them.
func (p *mlf) deliver(e *entry) []Grant {
	q := e.queue
	p.wait.queue = nil
	n := e.count
	if q.op == Write && !p.o.PipelineWrites {
		n = 1
	}
	q.last, q.end, q.started = e.count, e.offset, true
	p.remove(e)
	p.out = p.out[:0]
	for range n {
		r := e.head
		e.head = r.place.next
		r.place.next = nil
		p.out = append(p.out, r.grant(0))
		q.end = r.End()
		e.bytes -= r.Bytes
		e.count--
	}
	p.len -= n
	p.window.used += q.end - p.out[0].Offset
	if e.count > 0 {
		e.rest()
		p.put(e)
	} else {
		p.recycle(e)
	}
	return p.out
}
