package analyze

import (
	"slices"
	"sort"

	"ckpt/iotrace"
)

// A readRun is a part of a file that a process has read last, and not written since, by
// requests that follow each other in the stream and in the file.
type readRun struct {
	from, to    int64
	first, last int // requests
}

// maxReadRuns is how many runs are remembered of a stream.
const maxReadRuns = 8

// A rewriteFinder finds reads whose bytes are soon written by the same process.
type rewriteFinder struct {
	runs    []readRun // without common bytes, the last one at the end
	counted []uint64  // bits of the reads
}

// find adds the findings about a stream to those about its file.
func (f *rewriteFinder) find(x *activity, s *stream) {
	f.runs = f.runs[:0]
	f.counted = slices.Grow(f.counted[:0], (len(s.requests)+63)/64)[:(len(s.requests)+63)/64]
	clear(f.counted)
	for i := range s.requests {
		q := &s.requests[i]
		if q.off < 0 || q.size == 0 {
			continue
		}
		to := end(q.off, q.size)
		if !q.read() {
			f.write(x, s, q, to)
			continue
		}
		f.forget(q.off, to)
		if n := len(f.runs); n > 0 && i > 0 && f.runs[n-1].last == i-1 && f.runs[n-1].to == q.off && end(s.requests[i-1].off, s.requests[i-1].size) == q.off {
			f.runs[n-1].to, f.runs[n-1].last = to, i
			continue
		}
		f.runs = append(f.runs, readRun{q.off, to, i, i})
		f.limit()
	}
}

// write counts the bytes of a write that were read, and the reads.
func (f *rewriteFinder) write(x *activity, s *stream, q *request, to int64) {
	m := &x.modify
	var bytes int64
	events := x.a.trace.Events
	start := events[q.event()].Start
	for k := range f.runs {
		run := &f.runs[k]
		low, high := max(run.from, q.off), min(run.to, to)
		if low >= high {
			continue
		}
		of := s.requests[run.first : run.last+1]
		for i := sort.Search(len(of), func(i int) bool { return end(of[i].off, of[i].size) > low }); i < len(of) && of[i].off < high; i++ {
			r := &of[i]
			n := min(end(r.off, r.size), high) - max(r.off, low)
			if n <= 0 || after(events[r.event()].End, start, int64(x.a.options.BurstGap)) {
				continue
			}
			bytes += n
			m.ReadTime += float64(r.took) * (float64(n) / float64(r.size))
			if at := run.first + i; f.counted[at/64]>>(at%64)&1 == 0 {
				f.counted[at/64] |= 1 << (at % 64)
				m.Reads++
			}
		}
	}
	if bytes > 0 {
		m.Writes++
		m.BytesRead, m.BytesWritten = iotrace.Sum(m.BytesRead, bytes), iotrace.Sum(m.BytesWritten, bytes)
		m.WriteTime += float64(q.took) * (float64(bytes) / float64(q.size))
	}
	f.forget(q.off, to)
}

// forget removes a range from the runs.
func (f *rewriteFinder) forget(from, to int64) {
	for k := 0; k < len(f.runs); k++ {
		switch r := &f.runs[k]; {
		case r.to <= from || to <= r.from:
		case r.from < from && to < r.to:
			rest := *r
			r.to, rest.from = from, to
			f.runs = slices.Insert(f.runs, k+1, rest)
			k++
		case r.from < from:
			r.to = from
		case to < r.to:
			r.from = to
		default:
			f.runs = slices.Delete(f.runs, k, k+1)
			k--
		}
	}
	f.limit()
}

// limit drops the oldest runs.
func (f *rewriteFinder) limit() {
	if n := len(f.runs) - maxReadRuns; n > 0 {
		f.runs = slices.Delete(f.runs, 0, n)
	}
}

func (m *ReadModifyWrite) merge(o *ReadModifyWrite) {
	m.Writes += o.Writes
	m.Reads += o.Reads
	m.BytesWritten, m.BytesRead = iotrace.Sum(m.BytesWritten, o.BytesWritten), iotrace.Sum(m.BytesRead, o.BytesRead)
	m.WriteTime += o.WriteTime
	m.ReadTime += o.ReadTime
}
