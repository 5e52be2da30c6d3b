package replay

import (
	"cmp"
	"slices"

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
	Operations []Operation `json:"compared_operations"` // by kind, those of the trace or the replay

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

// An interval is the time of an operation.
type interval struct {
	op         iotrace.Op
	rank, file int32
	bytes      int64
	begin, end int64
}

// traced adds the times of the trace.
func (res *Result) traced(t *iotrace.Trace) {
	list := make([]interval, len(t.Events))
	for i := range t.Events {
		e := &t.Events[i]
		list[i] = interval{e.Op, e.Rank, e.File, e.Bytes, e.Start, e.End}
	}
	sums := res.Traced.sum(list)
	for op := iotrace.Open; op.Valid(); op++ {
		if sums[op].Count > 0 {
			res.Operations = append(res.Operations, Operation{Op: op.String(), Traced: sums[op]})
		}
	}
}

// measured adds the times of the replay.
func (res *Result) measured(r *running) {
	list := make([]interval, len(r.p.ops))
	for i := range r.p.ops {
		o := &r.p.ops[i]
		list[i] = interval{o.Op, o.Rank, o.file, o.moved, o.begin, o.end}
	}
	sums := res.Replayed.sum(list)
	var out []Operation
	for op := iotrace.Open; op.Valid(); op++ {
		x := Operation{Op: op.String(), Replayed: sums[op]}
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

// sum adds up one side.
func (s *Side) sum(list []interval) (sums [iotrace.Barrier + 1]Sum) {
	slices.SortFunc(list, func(a, b interval) int { return cmp.Compare(a.begin, b.begin) })
	ranks, files := make(map[int32]bool), make(map[int32]bool)
	var first, last, busyUntil, busy int64
	for i, x := range list {
		ranks[x.rank] = true
		if x.file != iotrace.None {
			files[x.file] = true
		}
		c := &sums[x.op]
		c.Count++
		c.Time += float64(x.end-x.begin) / 1e9
		switch x.op {
		case iotrace.Read:
			s.BytesRead += x.bytes
			c.Bytes += x.bytes
		case iotrace.Write:
			s.BytesWritten += x.bytes
			c.Bytes += x.bytes
		}
		if i == 0 {
			first, last, busyUntil = x.begin, x.end, x.begin
		}
		last = max(last, x.end)
		if x.op != iotrace.Barrier && x.end > busyUntil {
			busy += x.end - max(x.begin, busyUntil)
			busyUntil = x.end
		}
	}
	s.Processes, s.Files, s.Operations = len(ranks), len(files), int64(len(list))
	s.Wall, s.Busy = float64(last-first)/1e9, float64(busy)/1e9
	s.AtOnce = atOnce(list)
	return sums
}

// atOnce returns the largest number of overlapping intervals, sorted by begin.
func atOnce(list []interval) int64 {
	ends := make([]int64, 0, len(list))
	for _, x := range list {
		if x.op != iotrace.Barrier {
			ends = append(ends, x.end)
		}
	}
	slices.Sort(ends)
	var most, now int64
	k := 0
	for _, x := range list {
		if x.op == iotrace.Barrier {
			continue
		}
		for k < len(ends) && ends[k] <= x.begin {
			k++
			now--
		}
		now++
		most = max(most, now)
	}
	return most
}
