package analyze

import (
	"cmp"
	"slices"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// A request is a read or write at the layer that counts, reduced to what its pattern
// needs.
type request struct {
	off, size int64 // off is negative if unknown
	// The event, as its complement if it is a read, so that a request has 24 bytes.
	coded int32
	took  float32 // s
}

func (q *request) read() bool { return q.coded < 0 }

// event is the index of the event.
func (q *request) event() int32 { return max(q.coded, ^q.coded) }

// A stream has the events of one rank on one file. It may have no requests.
type stream struct {
	file, rank int32
	requests   []request
	opens      []int32 // events after which the process may begin again: opens, and truncations to 0
}

// streams sorts the requests of a trace by file and rank without comparisons. A first
// pass over the events finds the streams and their lengths, a second one puts each
// request into place. Both access memory sequentially, which matters more than the 24
// bytes per request.
type streams struct {
	trace *iotrace.Trace
	table []int32          // stream + 1 by file and rank, if that is small
	index map[uint64]int32 // else
	list  []stream
	count []int32 // requests
	of    []int32 // stream of each event that is a request, or -1
}

// tableSize bounds the table, in entries.
const tableSize = 1 << 22

func newStreams(tr *iotrace.Trace) *streams {
	s := &streams{trace: tr, of: make([]int32, len(tr.Events))}
	if n := uint64(len(tr.Files)) * uint64(len(tr.Ranks)+1); n <= tableSize {
		s.table = make([]int32, n)
	} else {
		s.index = map[uint64]int32{}
	}
	return s
}

// add assigns event i to a file and rank. isRequest tells whether it is a request,
// reopens whether the process may begin again after it.
func (s *streams) add(i, file, rank int, isRequest, reopens bool) {
	s.of[i] = -1
	var id int32
	if s.table != nil {
		at := file*(len(s.trace.Ranks)+1) + rank
		if id = s.table[at] - 1; id < 0 {
			id = s.open(file, rank)
			s.table[at] = id + 1
		}
	} else {
		key := uint64(file)<<32 | uint64(rank)
		var ok bool
		if id, ok = s.index[key]; !ok {
			id = s.open(file, rank)
			s.index[key] = id
		}
	}
	switch {
	case isRequest:
		s.count[id]++
		s.of[i] = id
	case reopens:
		s.list[id].opens = append(s.list[id].opens, int32(i))
	}
}

func (s *streams) open(file, rank int) int32 {
	s.list = append(s.list, stream{file: int32(file), rank: int32(rank)})
	s.count = append(s.count, 0)
	return int32(len(s.list) - 1)
}

// none marks event i as having no file.
func (s *streams) none(i int) { s.of[i] = -1 }

// sorted returns the streams by file and rank. Call it once.
func (s *streams) sorted() []stream {
	total := 0
	for _, n := range s.count {
		total += int(n)
	}
	byPlace := make([]int32, len(s.list))
	for i := range byPlace {
		byPlace[i] = int32(i)
	}
	slices.SortFunc(byPlace, func(a, b int32) int {
		x, y := &s.list[a], &s.list[b]
		return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.rank, y.rank))
	})
	all := make([]request, total)
	at := 0
	for _, id := range byPlace {
		n := int(s.count[id])
		s.list[id].requests = all[at : at : at+n]
		at += n
	}
	for i, id := range s.of {
		if id >= 0 {
			e := &s.trace.Events[i]
			x := &s.list[id]
			q := request{off: e.Offset, size: max(e.Bytes, 0), coded: int32(i), took: float32(seconds(e.Start, e.End))}
			if e.Op == iotrace.Read {
				q.coded = ^q.coded
			}
			x.requests = append(x.requests, q)
		}
	}
	out := make([]stream, len(s.list))
	for i, id := range byPlace {
		out[i] = s.list[id]
	}
	s.of, s.table, s.index = nil, nil, nil
	return out
}

// fileOf and rankOf return the indexes of an event's file and rank, or the number of
// files or ranks without an existing one.
func fileOf(tr *iotrace.Trace, e *iotrace.Event) int {
	if uint(e.File) < uint(len(tr.Files)) {
		return int(e.File)
	}
	return len(tr.Files)
}

// isRank reports whether a process, as numbered by rankOf, is a rank. An unknown
// process may be one.
func isRank(tr *iotrace.Trace, rank int) bool {
	return rank == len(tr.Ranks) || tr.Ranks[rank].Rank >= 0
}

func rankOf(tr *iotrace.Trace, e *iotrace.Event) int {
	if uint(e.Rank) < uint(len(tr.Ranks)) {
		return int(e.Rank)
	}
	return len(tr.Ranks)
}

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
