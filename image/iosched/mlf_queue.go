package iosched

import "time"

// queue has the requests of a file that read, or those that write.
type queue struct {
	file   *shared
	name   string
	op     Op
	weight float64

	entries  tree[*entry]
	byOffset heap[*entry] // of those that may be chosen
	byAge    heap[*entry]
	index    int           // among the queues with such
	closed   uint64        // the last request that had come when its window was over
	turn     int           // which window that was
	jump     time.Duration // when the oldest request may next go first

	quantum int64 // bytes of its next window
	started bool
	end     int64 // where its last service ends
	last    int   // requests that it served together last

	members  map[process]*member
	epoch    int
	expected int // processes without a request that are likely to have one soon
	gap      patience
	pause    patience
	returns  time.Duration // how long its processes usually take from one request to the next
}

// process is one that has requests of a queue.
type process struct {
	app  string
	rank int
}

type member struct {
	requests int           // that are not done
	epoch    int           // of its last request
	freed    time.Duration // when the last was done
}

// entry is a virtual request: contiguous requests, linked in the order of offsets.
type entry struct {
	queue         *queue
	node          node[*entry]
	offset, bytes int64
	count         int
	head, tail    *Request
	oldest        uint64 // number of the oldest request
	arrival       time.Duration
	quantum, at   int64 // it had that quantum at that choice
	ripe          int64 // the choice at which the quantum is large enough

	ripening, aging, byOffset, byAge int // where it is in these heaps, or -1
}

func (p *mlf) newQueue(f *shared, r *Request) *queue {
	q := &queue{file: f, name: r.File, op: r.Op, index: -1, weight: 1, members: make(map[process]*member)}
	q.byOffset = heap[*entry]{
		less: func(a, b *entry) bool {
			return a.offset < b.offset || a.offset == b.offset && a.oldest < b.oldest
		},
		moved: func(e *entry, i int) { e.byOffset = i },
	}
	q.byAge = heap[*entry]{
		less:  func(a, b *entry) bool { return a.oldest < b.oldest },
		moved: func(e *entry, i int) { e.byAge = i },
	}
	if p.weight != nil {
		if w := p.weight(r.User); w > 0 {
			q.weight = w
		}
	}
	p.maxWeight = max(p.maxWeight, q.weight)
	return q
}

// before orders queues: by their oldest request, but a queue that has had its window is
// behind those that had requests then. So no queue waits for more than a window of
// each of the others.
func (q *queue) before(o *queue) bool {
	a, b := max(q.byAge.first().oldest, q.closed), max(o.byAge.first().oldest, o.closed)
	return a < b || a == b && q.turn < o.turn
}

// The mean of the times of returning runs over about returnsOf times. A longer one counts as longAway.
const (
	returnsOf = 8
	longAway  = 100 * time.Millisecond
)

// enter notes that a process has a request.
func (q *queue) enter(now time.Duration, r *Request) *member {
	who := process{r.App, r.Rank}
	m := q.members[who]
	if m == nil {
		m = &member{epoch: -1}
		q.members[who] = m
	} else if m.requests == 0 {
		q.returns += (min(now-m.freed, longAway) - q.returns) / returnsOf
	}
	if m.requests == 0 && m.epoch == q.epoch {
		q.expected--
	}
	m.requests++
	m.epoch = q.epoch
	return m
}

// exit notes that a request is done. Its process is likely to have another.
func (q *queue) exit(now time.Duration, r *Request) {
	m := r.place.member
	if m.requests--; m.requests == 0 {
		m.freed = now
		m.epoch = q.epoch
		q.expected++
	}
}

// forget expects no process any more until it has a request again.
func (q *queue) forget() {
	q.epoch++
	q.expected = 0
}

// insert puts a request into its queue, and merges it with its neighbours.
func (p *mlf) insert(q *queue, r *Request) {
	e := p.fresh()
	*e = entry{queue: q, offset: r.Offset, bytes: r.Bytes, count: 1, head: r, tail: r, oldest: r.Seq, arrival: r.Arrival,
		quantum: (p.choice - r.place.age) * p.o.QB, at: p.choice, ripening: -1, aging: -1, byOffset: -1, byAge: -1}
	if p.o.Aggregate {
		if n := q.entries.before(key{offset: r.Offset}); n != nil {
			e = p.merge(n.item, e)
		}
		if n := q.entries.from(key{offset: r.End()}); n != nil && n.item.offset == r.End() {
			e = p.merge(e, n.item)
		}
	}
	p.put(e)
}

// merge makes one entry of two that are contiguous and not too long, and takes both
// out of the queue. Otherwise it returns the one that is not in the queue.
func (p *mlf) merge(a, b *entry) *entry {
	if a.offset+a.bytes != b.offset || a.bytes+b.bytes > p.o.MaxAgg {
		if a.queued() {
			return b
		}
		return a
	}
	for _, e := range []*entry{a, b} {
		if e.queued() {
			p.remove(e)
		}
		e.quantum += (p.choice - e.at) * p.o.QB
		e.at = p.choice
	}
	a.tail.place.next = b.head
	a.tail = b.tail
	a.bytes += b.bytes
	a.count += b.count
	a.quantum += b.quantum
	if b.oldest < a.oldest {
		a.oldest, a.arrival = b.oldest, b.arrival
	}
	p.recycle(b)
	return a
}

func (e *entry) queued() bool { return e.ripening >= 0 || e.byAge >= 0 }

// rest sets what depends on the first requests, which were taken out.
func (e *entry) rest() {
	e.offset = e.head.Offset
	e.oldest, e.arrival = e.head.Seq, e.head.Arrival
	for r := e.head.place.next; r != nil; r = r.place.next {
		if r.Seq < e.oldest {
			e.oldest, e.arrival = r.Seq, r.Arrival
		}
	}
}

// put puts an entry where it belongs.
func (p *mlf) put(e *entry) {
	p.entries++
	e.queue.entries.insert(&e.node, e.key(), e.offset+e.bytes, e)
	e.ripe = e.at
	if missing := e.bytes - e.quantum; missing > 0 {
		e.ripe += (missing + p.o.QB - 1) / p.o.QB
	}
	if e.ripe <= p.choice {
		p.promote(e)
		return
	}
	p.ripening.push(e)
	p.aging.push(e)
}

func (e *entry) key() key { return key{offset: e.offset, seq: e.head.Seq} }

// promote lets an entry be chosen.
func (p *mlf) promote(e *entry) {
	q := e.queue
	q.byOffset.push(e)
	q.byAge.push(e)
	p.rank(q)
}

// rank puts a queue where it belongs among those that may be chosen from.
func (p *mlf) rank(q *queue) {
	switch {
	case q.byAge.len() == 0:
		if q.index >= 0 {
			p.eligible.remove(q.index)
		}
	case q.index < 0:
		p.eligible.push(q)
	default:
		p.eligible.fix(q.index)
	}
}

// ripen lets entries be chosen whose quantum is large enough, or that are overdue.
func (p *mlf) ripen(now time.Duration) {
	for p.ripening.len() > 0 && p.ripening.first().ripe <= p.choice {
		e := p.ripening.pop()
		p.aging.remove(e.aging)
		p.promote(e)
	}
	for p.aging.len() > 0 && p.overdue(now, p.aging.first()) {
		e := p.aging.pop()
		p.ripening.remove(e.ripening)
		p.promote(e)
	}
}

// remove takes an entry out of its queue.
func (p *mlf) remove(e *entry) {
	q := e.queue
	p.entries--
	q.entries.remove(e.key())
	if e.ripening >= 0 {
		p.ripening.remove(e.ripening)
		p.aging.remove(e.aging)
		return
	}
	q.byOffset.remove(e.byOffset)
	q.byAge.remove(e.byAge)
	if q.byAge.len() == 0 {
		p.eligible.remove(q.index)
	} else {
		p.rank(q)
	}
}

func (p *mlf) fresh() *entry {
	n := len(p.spare)
	if n == 0 {
		return &entry{}
	}
	e := p.spare[n-1]
	p.spare = p.spare[:n-1]
	return e
}

func (p *mlf) recycle(e *entry) {
	*e = entry{}
	p.spare = append(p.spare, e)
}
