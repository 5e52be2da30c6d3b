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
