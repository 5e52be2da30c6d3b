package iosched

import (
	"fmt"
	"time"
)

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

// numbers gives each file a number, in the order in which they come.
type numbers map[string]int

func (n numbers) of(file string) int {
	i, ok := n[file]
	if !ok {
		i = len(n)
		n[file] = i
	}
	return i
}

// sweep hands out requests in the order of their files and offsets, from where the
// last one ended, and begins again at the smallest when it is through.
type sweep struct {
	tree tree[*Request]
	len  int
	at   key
}

// add takes in what is left of a request.
func (s *sweep) add(r *Request) {
	s.tree.insert(&r.place.pos, leftKey(r), r.End(), r)
	s.len++
}

func leftKey(r *Request) key {
	return key{file: r.place.file, offset: r.End() - r.left, seq: r.Seq}
}

// next returns the request at the position or behind it, or else the first, and whether it
// is behind the position.
func (s *sweep) next() (r *Request, behind bool) {
	if n := s.tree.from(s.at); n != nil {
		return n.item, true
	}
	return s.tree.from(key{}).item, false
}

// nearest returns the request at the position, or else the first, and whether it is at
// the position.
func (s *sweep) nearest() (r *Request, follows bool) {
	if n := s.tree.from(s.at); n != nil && n.key.file == s.at.file && n.key.offset == s.at.offset {
		return n.item, true
	}
	return s.tree.from(key{}).item, false
}

// take takes out r, and goes on behind it.
func (s *sweep) take(r *Request) {
	s.tree.remove(leftKey(r))
	s.len--
	s.at = key{file: r.place.file, offset: r.End()}
}

// line is the policies fifo, offset and deadline. Requests of an operation wait by offset and
// by arrival, and are served whole, in batches: a batch
// begins with the oldest request if it has expired. Reads go before writes, but not for ever.
// Under offset one batch without an end has both; under fifo every request has expired.
type line struct {
	name    string
	o       DeadlineOptions
	whole   bool // one batch has all
	files   numbers
	sweeps  [2]sweep
	oldest  [2]heap[*Request] // it is a heap since the controller holds some of them back
	op      Op                // of the batch
	batch   int               // requests left in it
	starved int               // batches of reads that passed waiting writes
	out     [1]Grant
}

func newLine(name string, whole bool, o DeadlineOptions) *line {
	p := &line{name: name, whole: whole, o: o, files: make(numbers)}
	for op := range p.oldest {
		p.oldest[op] = heap[*Request]{less: older, moved: func(r *Request, i int) { r.place.index = i }}
	}
	return p
}

func newFIFO() *line { return newLine("fifo", true, DeadlineOptions{Batch: 1}) }

// never is longer than anything waits.
const never = time.Duration(1<<63 - 1)

func newOffset() *line {
	return newLine("offset", true, DeadlineOptions{Read: never, Write: never, Batch: 1})
}

func newDeadline(o Options) (*line, error) {
	d := DefaultDeadline()
	if o.Deadline != nil {
		d = *o.Deadline
	}
	if d.Read < 0 || d.Write < 0 || d.Batch < 1 || d.Starved < 0 {
		return nil, fmt.Errorf("expiry %v and %v, batch %d, starved %d (want no negative time, a batch of 1 or more, starved 0 or more)", d.Read, d.Write, d.Batch, d.Starved)
	}
	return newLine("deadline", false, d), nil
}

func (p *line) Name() string { return p.name }
func (p *line) Len() int     { return p.sweeps[Read].len + p.sweeps[Write].len }

// lane is where the requests of an operation wait.
func (p *line) lane(op Op) Op {
	if p.whole {
		return Read
	}
	return op
}

func (p *line) Add(_ time.Duration, r *Request) {
	r.left = r.Bytes
	r.place.file = p.files.of(r.File)
	op := p.lane(r.Op)
	p.sweeps[op].add(r)
	p.oldest[op].push(r)
}

func (p *line) Next(now time.Duration) ([]Grant, time.Duration) {
	if p.Len() == 0 {
		return nil, 0
	}
	var r *Request
	behind := false
	if p.batch > 0 && p.sweeps[p.op].len > 0 {
		r, behind = p.sweeps[p.op].next()
	}
	if !behind {
		r = p.begin(now)
	}
	p.sweeps[p.op].take(r)
	p.oldest[p.op].remove(r.place.index)
	p.batch--
	p.out[0] = r.grant(0)
	return p.out[:], 0
}

// begin starts a batch, and returns its first request.
func (p *line) begin(now time.Duration) *Request {
	p.op, p.batch = p.choose(), p.o.Batch
	oldest := p.oldest[p.op].first()
	if now-oldest.Arrival >= [2]time.Duration{p.o.Read, p.o.Write}[p.op] {
		return oldest
	}
	r, _ := p.sweeps[p.op].next()
	return r
}

func (p *line) choose() Op {
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

func (p *line) Done(_, _ time.Duration, _ Grant) {}
