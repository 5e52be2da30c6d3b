package pfs

// lane is the way of one process to one object: the part of a file on a target.
type lane struct {
	client   *Client
	file     *File
	column   int
	target   *target
	lock     *lock
	read     bool
	inFlight int
	runs     []run  // that wait to be sent
	pushed   int64  // bytes so far
	answered int64  // of these
	waits    []wait // by ascending threshold

	waitsForSlot bool // of the host
}

// run is a stretch of an object.
type run struct{ offset, bytes int64 }

// wait is an operation that goes on when so many bytes have been answered.
type wait struct {
	threshold int64
	op        *op
}

// chunk is some requests that travel together.
type chunk struct {
	lane          *lane
	offset, bytes int64
	flow          flow
	read          float64 // when the target began to answer a read
}

// The ways of a chunk.
const (
	atRouter int32 = iota
	atServer
	atHost // the answer, or what was read
)

// push sends a run, and has the operation go on when all but the dirty bytes that
// a process may have has been answered.
func (l *lane) push(r run, o *op) {
	if l.pushed == l.answered {
		l.target.active++
		l.client.busy++
	}
	l.pushed += r.bytes
	if n := len(l.runs) - 1; n >= 0 && l.runs[n].offset+l.runs[n].bytes == r.offset {
		l.runs[n].bytes += r.bytes
	} else {
		l.runs = append(l.runs, r)
	}
	dirty := l.client.sim.sys.dirty()
	if l.read {
		dirty = 0
	}
	if w := (wait{l.pushed - dirty, o}); w.threshold > l.answered {
		l.waits = append(l.waits, w)
	} else {
		o.arrived()
	}
	l.send()
}

// send sends what may be under way.
func (l *lane) send() {
	sim := l.client.sim
	window := max(min(2, sim.sys.InFlight), int(int64(sim.sys.InFlight)*int64(sim.sys.RPC)/sim.chunkBytes))
	for l.inFlight < window && len(l.runs) > 0 {
		r := &l.runs[0]
		bytes := min(r.bytes, sim.chunkBytes)
		if l.fills(bytes) || !l.slots().take(int(sim.requests(bytes)), l, sim.now) {
			break
		}
		c := sim.chunks.take()
		c.lane, c.offset, c.bytes = l, r.offset, bytes
		r.offset += c.bytes
		if r.bytes -= c.bytes; r.bytes == 0 {
			l.runs = l.runs[1:]
		}
		l.inFlight++
		if l.read {
			c.flow = flow{sim.now, sim.now}
			sim.schedule(sim.now+float64(sim.sys.Host.Latency)/2, c, atServer)
		} else {
			c.leave(sim)
		}
	}
	if len(l.runs) == 0 {
		l.runs = l.runs[:0:cap(l.runs)]
	}
}

// slots are those that bound the requests of a lane: the connections of its process or, without
// any, what its host may have in flight.
func (l *lane) slots() *slots {
	if l.client.sim.sys.Objects() {
		return &l.client.slots
	}
	return &l.client.host.slots
}

// size returns the bytes of the chunk, and of one request.
func (c *chunk) size() (bytes, unit float64) {
	return float64(c.bytes), float64(min(c.bytes, int64(c.lane.client.sim.sys.RPC)))
}

// leave sends a chunk out of its process and its host.
func (c *chunk) leave(sim *Sim) {
	bytes, unit := c.size()
	client := c.lane.client
	c.flow = client.stream.pass(flow{sim.now, sim.now}, bytes, unit)
	if !sim.sys.Targets.Local {
		c.flow = client.host.out.pass(c.flow, bytes, unit)
	}
	c.flow = c.connected(sim.now)
	next := atServer
	if client.host.router != nil {
		next = atRouter
	}
	half := float64(sim.sys.Host.Latency) / 2
	c.flow.head += half
	c.flow.tail += half
	sim.schedule(c.flow.head, c, next)
}

func (c *chunk) act(what int32) {
	sim := c.lane.client.sim
	switch what {
	case atRouter:
		c.route(sim)
	case atServer:
		if c.lane.read {
			c.fetch(sim)
		} else {
			c.store(sim)
		}
	case atHost:
		l := c.lane
		bytes := c.bytes
		sim.chunks.give(c)
		l.answer(bytes)
	}
}

// route passes a chunk through the router of its host. The process stops
// sending while more waits in the router than it can keep.
func (c *chunk) route(sim *Sim) {
	bytes, unit := c.size()
	h := c.lane.client.host
	c.flow = h.router.pass(flow{sim.now, max(c.flow.tail, sim.now)}, bytes, unit)
	if c.lane.read {
		c.arrive(sim)
		return
	}
	stream := &c.lane.client.stream
	stream.free = max(stream.free, h.router.free-float64(sim.sys.Routers.Cache)/h.router.rate)
	sim.schedule(c.flow.head, c, atServer)
}

// store puts a chunk on its target, and answers when it is there, or in the cache
// of the server if that writes behind.
func (c *chunk) store(sim *Sim) {
	bytes, unit := c.size()
	t := c.lane.target
	in := t.server.link.pass(flow{sim.now, max(c.flow.tail, sim.now)}, bytes, unit)
	in = t.server.accept(in, sim.requests(c.bytes), float64(sim.sys.Servers.PerRequest))
	done := in.tail
	cached := sim.sys.Servers.WriteBehind
	if cached {
		in = t.server.cache.pass(in, bytes, unit)
	}
	if t.unit != nil {
		t.unit.submit(c, in.tail)
		return
	}
	if cached {
		done = max(in.tail, t.admit(in.head, c.bytes))
	}
	all := sim.cost(t, c.lane.file, c.offset, c.bytes, false)
	out := t.disk.work(in, all, all*unit/bytes)
	c.lane.client.drained = max(c.lane.client.drained, out.tail)
	if cached {
		t.drains = append(t.drains, drain{out.tail, c.bytes})
	} else {
		done = out.tail
	}
	sim.schedule(done+sim.latency(c.bytes), c, atHost)
}

// fetch reads a chunk from its target.
func (c *chunk) fetch(sim *Sim) {
	bytes, unit := c.size()
	t := c.lane.target
	in := t.server.accept(flow{sim.now, sim.now}, sim.requests(c.bytes), float64(sim.sys.Servers.PerRead))
	if t.unit != nil {
		t.unit.submit(c, in.tail)
		return
	}
	all := sim.cost(t, c.lane.file, c.offset, c.bytes, true)
	c.fetched(sim, t.disk.work(in, all, all*unit/bytes))
}

// fetched sends what was read from its target.
func (c *chunk) fetched(sim *Sim, out flow) {
	bytes, unit := c.size()
	c.read = sim.now
	c.flow = c.lane.target.server.link.pass(out, bytes, unit)
	if c.lane.client.host.router != nil {
		sim.schedule(c.flow.head, c, atRouter)
		return
	}
	c.arrive(sim)
}

// arrive brings what was read to its host and process.
func (c *chunk) arrive(sim *Sim) {
	bytes, unit := c.size()
	client := c.lane.client
	if !sim.sys.Targets.Local {
		c.flow = client.host.in.pass(c.flow, bytes, unit)
	}
	c.flow = client.stream.pass(c.flow, bytes, unit)
	c.flow = c.connected(c.read)
	sim.schedule(c.flow.tail+float64(sim.sys.Host.Latency)/2, c, atHost)
}

// answer takes the answer for some bytes.
func (l *lane) answer(bytes int64) {
	l.inFlight--
	l.answered += bytes
	l.slots().give(int(l.client.sim.requests(bytes)), l.client.sim.now)
	idle := l.answered == l.pushed
	if idle {
		l.target.active--
		l.client.busy--
	}
	l.send()
	for len(l.waits) > 0 && l.waits[0].threshold <= l.answered {
		o := l.waits[0].op
		l.waits = l.waits[1:]
		o.arrived()
	}
	if len(l.waits) == 0 {
		l.waits = nil
	}
	if idle && l.lock != nil {
		l.lock.idle(l)
	}
	if idle {
		l.client.idle()
	}
}

// resource is a part of the system through which bytes pass one request after
// the other. A rate of zero is no limit.
type resource struct {
	rate float64
	free float64 // when it has done all that it was given
	busy float64 // seconds of work
}

// flow is when the first request of a run of bytes, and when its last, has come out
// of a part of the system. So the next part begins before the run is complete.
type flow struct{ head, tail float64 }

// pass has the resource work on bytes that come as f, in requests of unit bytes.
// It works for as long as the bytes take, not for as long as it waits for them.
func (r *resource) pass(f flow, bytes, unit float64) flow {
	if r.rate == 0 {
		return flow{max(f.head, r.free), max(f.tail, r.free)}
	}
	return r.work(f, bytes/r.rate, unit/r.rate)
}

// work is pass with the time of the whole and of its last request.
func (r *resource) work(f flow, all, last float64) flow {
	begin := max(r.free, f.head)
	r.free = begin + all
	r.busy += all
	return flow{head: begin + last, tail: max(f.tail+last, begin+all)}
}

// processors work each on one thing at a time.
type processors struct {
	free []float64
	busy float64
}

// do gives some work to the processor that is free first, and returns when it is
// done.
func (p *processors) do(at, seconds float64) float64 {
	first := 0
	for i := range p.free {
		if p.free[i] < p.free[first] {
			first = i
		}
	}
	p.free[first] = max(p.free[first], at) + seconds
	p.busy += seconds
	return p.free[first]
}

// An actor does something when its time has come.
type actor interface{ act(what int32) }

// event is what happens at a time. Of events at the same time the one that was
// scheduled first happens first, so that a run can be repeated.
type event struct {
	at   float64
	seq  uint64
	who  actor
	what int32
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// queue holds events in a heap of four children each, which touches less memory
// than one of two.
type queue struct{ heap []event }

func (q *queue) push(e event) {
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

// pop takes out the first event. There is one.
func (q *queue) pop() event {
	first, n := q.heap[0], len(q.heap)-1
	last := q.heap[n]
	q.heap[n] = event{}
	q.heap = q.heap[:n]
	if n > 0 {
		q.sink(last)
	}
	return first
}

// sink puts e where the first one was, and then as far down as it belongs.
func (q *queue) sink(e event) {
	i, n := 0, len(q.heap)
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if q.heap[c].before(&q.heap[least]) {
				least = c
			}
		}
		if !q.heap[least].before(&e) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	q.heap[i] = e
}

// call is an actor made of a function.
type call func()

func (c call) act(int32) { c() }
