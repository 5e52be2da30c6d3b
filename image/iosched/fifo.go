package iosched

import "time"

// place is where a policy keeps a request.
type place struct {
	pos   node[*Request] // among the offsets
	index int            // in a heap
	file  int            // number of its file
	app   *app
	// under mlf
	next   *Request // of an aggregate
	queue  *queue
	member *member
	age    int64 // the choice before which it came
}

func older(a, b *Request) bool { return a.Seq < b.Seq }

// fifo serves requests in the order in which they came. It is a heap since the
// controller holds some of them back.
type fifo struct {
	waiting heap[*Request]
	out     [1]Grant
}

func newFIFO() *fifo { return &fifo{waiting: heap[*Request]{less: older}} }

func (p *fifo) Name() string { return "fifo" }
func (p *fifo) Len() int     { return p.waiting.len() }

func (p *fifo) Add(_ time.Duration, r *Request) {
	r.left = r.Bytes
	p.waiting.push(r)
}

func (p *fifo) Next(time.Duration) ([]Grant, time.Duration) {
	if p.Len() == 0 {
		return nil, 0
	}
	p.out[0] = p.waiting.pop().grant(0)
	return p.out[:], 0
}

func (p *fifo) Done(_, _ time.Duration, _ Grant) {}
