package replay

import (
	"container/heap"

	"ckpt/iotrace"
)

// A summation adds up operations in the order in which they begin.
type summation struct {
	sums                         [iotrace.Barrier + 1]Sum
	total                        Side
	ranks, files                 map[int32]bool
	first, last, busyUntil, busy int64
	active                       moments // ends of operations under way
}

func newSummation() *summation {
	return &summation{ranks: make(map[int32]bool), files: make(map[int32]bool)}
}

// add adds an operation that lasted from begin to end.
func (s *summation) add(e *iotrace.Event, begin, end int64) {
	if s.total.Operations == 0 {
		s.first, s.last, s.busyUntil = begin, end, begin
	}
	s.total.Operations++
	s.last = max(s.last, end)
	s.ranks[e.Rank] = true
	if e.File != iotrace.None {
		s.files[e.File] = true
	}
	c := &s.sums[e.Op]
	c.Count++
	c.Time += float64(end-begin) / 1e9
	switch e.Op {
	case iotrace.Read:
		s.total.BytesRead += e.Bytes
		c.Bytes += e.Bytes
	case iotrace.Write:
		s.total.BytesWritten += e.Bytes
		c.Bytes += e.Bytes
	case iotrace.Barrier:
		return
	}
	if end > s.busyUntil {
		s.busy += end - max(begin, s.busyUntil)
		s.busyUntil = end
	}
	for len(s.active) > 0 && s.active[0] <= begin {
		heap.Pop(&s.active)
	}
	heap.Push(&s.active, end)
	s.total.AtOnce = max(s.total.AtOnce, int64(len(s.active)))
}

func (s *summation) side() Side {
	s.total.Processes, s.total.Files = len(s.ranks), len(s.files)
	s.total.Wall, s.total.Busy = float64(s.last-s.first)/1e9, float64(s.busy)/1e9
	return s.total
}

// moments are times, the earliest first.
type moments []int64

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i] < m[j] }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)        { *m = append(*m, x.(int64)) }
func (m *moments) Pop() any {
	last := len(*m) - 1
	x := (*m)[last]
	*m = (*m)[:last]
	return x
}
