package analyze

import (
	"cmp"
	"slices"

	"ckpt/iotrace"
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
// files or ranks if it has none that exists.
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
