package analyze

import (
	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// A block collects requests of one direction for the classifier.
type block struct {
	off, end []int64
	bytes    int64
	took     float64
	last     int64 // end of the last request
	begun    bool
	pass     pass
}

// A pass over a file begins where a process opens the file again and goes back to the
// offset at which the pass before began, or to 0: a restart file that is rewritten at
// each step has as many passes as steps.
type pass struct {
	begun bool
	first int64 // offset
	opens int   // of the file by the process, before the last request
	// The requests of the block before the pass.
	requests int
	bytes    int64
	took     float64
}

// add adds a request and reports whether the block is full.
func (b *block) add(off, end int64) bool {
	b.off, b.end = append(b.off, off), append(b.end, end)
	return len(b.off) == pattern.BlockOps
}

// A classifier finds the patterns of blocks.
type classifier struct{ pattern.Classifier }

// pass begins a new pass if a request at an offset does, after so many opens.
func (c *classifier) pass(b *block, off int64, opens int, t *tally) {
	p := &b.pass
	again := !p.begun || opens > p.opens && (off == p.first || off == 0)
	p.opens = opens
	if again {
		c.endPass(b, t)
		*p = pass{begun: true, first: off, opens: opens, requests: len(b.off), bytes: b.bytes, took: b.took}
	}
}

// endPass counts a pass that is in order by itself, and takes it out of the block. Others
// are judged together.
func (c *classifier) endPass(b *block, t *tally) {
	p := &b.pass
	if p.requests == len(b.off) {
		return
	}
	v := c.Classify(b.off[p.requests:], b.end[p.requests:])
	if v.Detail.Spatial() != pattern.SequentialAccess {
		return
	}
	t.add(v, int64(len(b.off)-p.requests))
	b.off, b.end, b.bytes, b.took = b.off[:p.requests], b.end[:p.requests], p.bytes, p.took
}

// judge classifies the requests of a block, counts them, and empties it. It returns how
// many it judged together, after the passes that are in order, and their verdict.
func (c *classifier) judge(b *block, t *tally) (n int64, v pattern.Verdict) {
	if b.pass.requests > 0 {
		c.endPass(b, t)
	}
	if n = int64(len(b.off)); n > 0 {
		v = c.Classify(b.off, b.end)
		t.add(v, n)
	}
	b.off, b.end = b.off[:0], b.end[:0]
	b.pass.requests, b.pass.bytes, b.pass.took = 0, 0, 0
	return n, v
}

// empties reports whether an event leaves a file empty.
func empties(e *iotrace.Event) bool {
	return e.Op == iotrace.Open && e.Create || e.Op == iotrace.Truncate && e.Bytes == 0
}

// opensBefore counts the opens of a stream that come before a request, from those known
// to. A process that empties the file may go back as after an open.
func (s *stream) opensBefore(q *request, from int) int {
	for from < len(s.opens) && s.opens[from] < q.event() {
		from++
	}
	return from
}
