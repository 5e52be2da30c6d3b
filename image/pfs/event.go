package pfs

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
