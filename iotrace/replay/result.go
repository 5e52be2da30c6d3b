package replay

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"ckpt/iotrace"
)

// A Result compares a replay with its trace. Times are in seconds, sizes in bytes.
type Result struct {
	Dir    string `json:"dir"`
	Layout Layout `json:"layout"`
	Direct bool   `json:"direct"`
	Gaps   bool   `json:"keep_gaps"`

	// Wanted is Options.Bytes, before any bound; 0 without.
	Wanted int64 `json:"wanted_bytes,omitempty"`

	Traced     Side        `json:"traced"`
	Replayed   Side        `json:"replayed"`
	Operations []Operation `json:"compared_operations"` // by kind, in the trace or the replay

	LeftOut []LeftOut `json:"left_out"` // of the trace
	// PreparedFiles and PreparedBytes existed before the clock started.
	PreparedFiles int64 `json:"prepared_files"`
	PreparedBytes int64 `json:"prepared_bytes"`
	// Opens are files opened beyond the trace, for ranks without an open in the trace.
	Opens int64 `json:"more_opens"`
	// DirectRequests bypassed the page cache. The others were not aligned.
	DirectRequests int64 `json:"direct_requests"`
	// MissingBytes are bytes to read beyond the end of the file.
	MissingBytes    int64 `json:"missing_bytes"`
	RefusedBarriers int64 `json:"refused_barriers"` // ignored, because they contradict the times
}

// A Side has the figures of the replayed part of the trace, or of the replay.
type Side struct {
	Processes    int   `json:"processes"` // ranks, and others such as the coordinator
	Files        int   `json:"files"`
	Operations   int64 `json:"operations"`
	BytesWritten int64 `json:"bytes_written"`
	BytesRead    int64 `json:"bytes_read"`
	// Wall lasts from the beginning of the first operation to the end of the last.
	// Busy is the time with at least one operation under way, without barriers.
	Wall float64 `json:"wall_s"`
	Busy float64 `json:"busy_s"`
	// AtOnce is the largest number of concurrent operations.
	AtOnce int64 `json:"at_once"`
}

// An Operation compares the operations of one kind.
type Operation struct {
	Op       string `json:"op"`
	Traced   Sum    `json:"traced_sum"`
	Replayed Sum    `json:"replayed_sum"`
}

// A Sum is over the operations of all ranks.
type Sum struct {
	Count int64   `json:"count"`
	Bytes int64   `json:"bytes"` // read or written
	Time  float64 `json:"time_s"`
}

// Rate is bytes per second of one rank, or 0 if undefined.
func (s Sum) Rate() float64 {
	if s.Time <= 0 {
		return 0
	}
	return float64(s.Bytes) / s.Time
}

// Rate is bytes per second of all ranks while any was active, or 0 if undefined.
func (s Side) Rate() float64 {
	if s.Busy <= 0 {
		return 0
	}
	return float64(s.BytesWritten+s.BytesRead) / s.Busy
}

// traced adds the times of the trace.
func (res *Result) traced(t *iotrace.Trace) {
	s := newSummation()
	for i := range t.Events {
		if e := &t.Events[i]; e.Op.Valid() {
			s.add(e, e.Start, e.End)
		}
	}
	res.Traced = s.side()
	for op := iotrace.Open; op.Valid(); op++ {
		if s.sums[op].Count > 0 {
			res.Operations = append(res.Operations, Operation{Op: op.String(), Traced: s.sums[op]})
		}
	}
}

// measured adds the times of the replay.
func (res *Result) measured(r *running) {
	order := make([]int32, len(r.p.planned))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Compare(r.p.planned[i].begin, r.p.planned[j].begin) })
	s := newSummation()
	for _, i := range order {
		x := &r.p.planned[i]
		if !r.p.events[i].Op.Valid() {
			continue
		}
		s.add(&r.p.events[i], x.begin, x.end)
	}
	res.Replayed = s.side()
	var out []Operation
	for op := iotrace.Open; op.Valid(); op++ {
		x := Operation{Op: op.String(), Replayed: s.sums[op]}
		if i := slices.IndexFunc(res.Operations, func(o Operation) bool { return o.Op == x.Op }); i >= 0 {
			x.Traced = res.Operations[i].Traced
		}
		if x.Traced.Count+x.Replayed.Count > 0 {
			out = append(out, x)
		}
	}
	res.Operations = out
	for i := range r.p.files {
		if r.p.files[i].prepared {
			res.PreparedFiles++
		}
	}
	res.PreparedBytes, res.Opens = r.preparedBytes, r.opens.Load()
	res.DirectRequests, res.MissingBytes = r.direct.Load(), r.missed.Load()
}

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
	for s.active.Len() > 0 && s.active.Items[0] <= begin {
		heap.Pop(&s.active)
	}
	heap.Push(&s.active, end)
	s.total.AtOnce = max(s.total.AtOnce, int64(s.active.Len()))
}

func (s *summation) side() Side {
	s.total.Processes, s.total.Files = len(s.ranks), len(s.files)
	s.total.Wall, s.total.Busy = float64(s.last-s.first)/1e9, float64(s.busy)/1e9
	return s.total
}

// moments are times, the earliest first.
type moments struct{ iotrace.Heaped[int64] }

func (m *moments) Less(i, j int) bool { return m.Items[i] < m.Items[j] }

// An Error is a failed operation of the replay.
type Error struct {
	Op     string // write, open, prepare …
	Path   string
	Offset int64 // iotrace.None if it has none
	Bytes  int64
	Rank   int // iotrace.None before and after the replay itself
	Err    error
}

func (e *Error) Error() string {
	what := e.Op + " " + e.Path
	if e.Offset != iotrace.None {
		what = fmt.Sprintf("%s %s: %d bytes at offset %d", e.Op, e.Path, e.Bytes, e.Offset)
	}
	if e.Rank != iotrace.None {
		what = fmt.Sprintf("rank %d: %s", e.Rank, what)
	}
	// The message has the path already.
	err := e.Err
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	if link := (*os.LinkError)(nil); errors.As(err, &link) {
		err = link.Err
	}
	return fmt.Sprintf("%s: %v", what, err)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint returns a remedy, or "".
func (e *Error) Hint() string {
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		return "free some space, or replay into another directory"
	case errors.Is(e.Err, fs.ErrExist):
		return "name an empty directory, or one that is not there, or overwrite the files"
	case errors.Is(e.Err, ErrDirect):
		return "leave out O_DIRECT: this file system does not support it"
	case errors.Is(e.Err, syscall.EMFILE):
		return "ulimit -n raises the number of files that may be open"
	case errors.Is(e.Err, fs.ErrPermission):
		return "name a directory that you may write to"
	}
	return ""
}

// ErrDirect marks failures of O_DIRECT.
var ErrDirect = errors.New("O_DIRECT is not supported")

// An OptionError is an invalid option, possibly only for this trace.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

func optionError(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }
