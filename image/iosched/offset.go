package iosched

import "time"

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

func (s *sweep) remove(r *Request) {
	s.tree.remove(leftKey(r))
	s.len--
}

// next takes out the request at the position or behind it, or else the first.
func (s *sweep) next() *Request {
	n := s.tree.from(s.at)
	if n == nil {
		n = s.tree.from(key{})
	}
	s.take(n.item)
	return n.item
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
	s.remove(r)
	s.at = key{file: r.place.file, offset: r.End()}
}

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

// elevator is the policy offset: one sweep over all files.
type elevator struct {
	sweep sweep
	files numbers
	out   [1]Grant
}

func newOffset() *elevator { return &elevator{files: make(numbers)} }

func (p *elevator) Name() string { return "offset" }
func (p *elevator) Len() int     { return p.sweep.len }

func (p *elevator) Add(_ time.Duration, r *Request) {
	r.left = r.Bytes
	r.place.file = p.files.of(r.File)
	p.sweep.add(r)
}

func (p *elevator) Next(time.Duration) ([]Grant, time.Duration) {
	if p.sweep.len == 0 {
		return nil, 0
	}
	p.out[0] = p.sweep.next().grant(0)
	return p.out[:], 0
}

func (p *elevator) Done(_, _ time.Duration, _ Grant) {}
