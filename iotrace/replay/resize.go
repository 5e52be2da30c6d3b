package replay

import (
	"math"
	"slices"
	"sort"

	"ckpt/iotrace"
)

const (
	// largeRequest is the size from which requests grow with the data. Smaller ones
	// are headers: León's DMTCP writes some hundred of at most 4 KiB whatever the size
	// of the process, and few large ones (PhD thesis, UAB 2022, section 3.3.1).
	largeRequest = 64 << 10
	pageSize     = 4096
	mostBytes    = 1 << 50
)

// resize makes it the trace of a job that writes another number of bytes: large
// requests grow or shrink alike, small ones keep their size, and everything behind
// them in a file moves. It changes the events in place.
func resize(t *iotrace.Trace, bytes int64) error {
	if bytes < 1 || bytes > mostBytes {
		return optionError("%d bytes: want a number from 1 to %d", bytes, int64(mostBytes))
	}
	least := int64(largeRequest)
	maps := stretches(t, least)
	small, large := written(t, maps)
	if large == 0 {
		least = 1
		maps = stretches(t, least)
		small, large = written(t, maps)
	}
	switch {
	case large == 0:
		return optionError("%d bytes: the trace writes none", bytes)
	case bytes <= small:
		return optionError("%d bytes: requests below %d bytes alone write %d", bytes, least, small)
	}
	factor := float64(bytes-small) / float64(large)
	for i := range maps {
		maps[i].scale(factor)
	}
	moveAll(t, maps)
	return nil
}

// moveAll changes the operations as the files say where their bytes go.
func moveAll(t *iotrace.Trace, maps []stretch) {
	for i := range t.Events {
		if e := &t.Events[i]; e.File != iotrace.None {
			maps[e.File].move(e)
		}
	}
}

// volumeOf returns the bytes that a trace writes.
func volumeOf(t *iotrace.Trace) (sum int64) {
	for i := range t.Events {
		if e := &t.Events[i]; e.Op == iotrace.Write {
			sum += e.Bytes
		}
	}
	return sum
}

// A stretch says where the bytes of a file go.
type stretch struct {
	bounds []int64 // where parts begin, from 0; the last part has no end
	large  []bool  // whether the part that begins there grows
	at     []int64 // where it begins afterwards
	factor float64
	unit   int64 // if not 0, all of the file grows or shrinks alike, in such units
}

// stretches finds the parts of each file that large requests cover.
func stretches(t *iotrace.Trace, least int64) []stretch {
	type edge struct {
		at   int64
		open int // of large requests, 0 for others
	}
	edges, same := make([][]edge, len(t.Files)), sameFiles(t)
	for i := range t.Events {
		e := &t.Events[i]
		if !e.Op.Data() || e.Offset < 0 {
			continue
		}
		n := 0
		if e.Bytes >= least {
			n = 1
		}
		file := same[e.File]
		edges[file] = append(edges[file], edge{e.Offset, n}, edge{e.Offset + e.Bytes, -n})
	}
	out := make([]stretch, len(t.Files))
	for f, list := range edges {
		slices.SortFunc(list, func(a, b edge) int {
			if a.at != b.at {
				return int(max(-1, min(1, a.at-b.at)))
			}
			return 0
		})
		s := &out[f]
		s.bounds, s.large = []int64{0}, []bool{false}
		open := 0
		for i, x := range list {
			open += x.open
			if i+1 < len(list) && list[i+1].at == x.at {
				continue
			}
			if x.at == s.bounds[len(s.bounds)-1] {
				s.large[len(s.large)-1] = open > 0
				continue
			}
			s.bounds, s.large = append(s.bounds, x.at), append(s.large, open > 0)
		}
	}
	for f, first := range same {
		out[f] = out[first]
	}
	return out
}

// sameFiles returns for each name the one that stands for all names of its file: a file
// that is renamed has the same bytes as before.
func sameFiles(t *iotrace.Trace) []int32 {
	same := make([]int32, len(t.Files))
	for i := range same {
		same[i] = int32(i)
	}
	first := func(f int32) int32 {
		for same[f] != f {
			same[f] = same[same[f]]
			f = same[f]
		}
		return f
	}
	for i := range t.Events {
		if e := &t.Events[i]; renames(e) && e.Peer != iotrace.None {
			same[first(e.Peer)] = first(e.File)
		}
	}
	for i := range same {
		same[i] = first(int32(i))
	}
	return same
}

// written adds up the writes, in parts that stay and parts that grow.
func written(t *iotrace.Trace, maps []stretch) (small, large int64) {
	for i := range t.Events {
		e := &t.Events[i]
		if e.Op != iotrace.Write {
			continue
		}
		grows := int64(0)
		if e.Offset < 0 {
			if e.Bytes >= largeRequest {
				grows = e.Bytes
			}
		} else {
			s := &maps[e.File]
			for p := s.part(e.Offset); p < len(s.bounds) && s.bounds[p] < e.Offset+e.Bytes; p++ {
				if s.large[p] {
					grows += min(s.end(p), e.Offset+e.Bytes) - max(s.bounds[p], e.Offset)
				}
			}
		}
		small, large = small+e.Bytes-grows, large+grows
	}
	return small, large
}

// part returns the part in which an offset lies.
func (s *stretch) part(off int64) int {
	return sort.Search(len(s.bounds), func(i int) bool { return s.bounds[i] > off }) - 1
}

func (s *stretch) end(p int) int64 {
	if p+1 < len(s.bounds) {
		return s.bounds[p+1]
	}
	return math.MaxInt64
}

// scale places the parts. Parts of whole pages stay so.
func (s *stretch) scale(factor float64) {
	s.factor = factor
	s.at = make([]int64, len(s.bounds))
	for p := 1; p < len(s.bounds); p++ {
		n := s.bounds[p] - s.bounds[p-1]
		if s.large[p-1] {
			unit := int64(1)
			if n%pageSize == 0 {
				unit = pageSize
			}
			n = max(1, int64(math.Round(float64(n)*factor/float64(unit)))) * unit
		}
		s.at[p] = s.at[p-1] + n
	}
}

// to returns where an offset goes.
func (s *stretch) to(off int64) int64 {
	if s.unit > 0 {
		return int64(float64(off/s.unit)*s.factor) * s.unit
	}
	p := s.part(off)
	into := off - s.bounds[p]
	if into == 0 || p+1 == len(s.bounds) || !s.large[p] {
		return s.at[p] + into
	}
	share := float64(into) / float64(s.bounds[p+1]-s.bounds[p])
	return s.at[p] + int64(share*float64(s.at[p+1]-s.at[p]))
}

// move changes the place and the length of an operation.
func (s *stretch) move(e *iotrace.Event) {
	switch {
	case e.Op == iotrace.Truncate && e.Bytes >= 0:
		e.Bytes = s.to(e.Bytes)
	case e.Op.Data() && e.Bytes == 0 && s.unit > 0: // nothing stays nothing
		if e.Offset > 0 {
			e.Offset = s.to(e.Offset)
		}
	case e.Op.Data() && e.Offset < 0:
		if s.unit > 0 {
			e.Bytes = max(s.to(e.Bytes), s.unit)
		} else if e.Bytes >= largeRequest {
			e.Bytes = max(1, int64(float64(e.Bytes)*s.factor))
		}
	case e.Op.Data():
		from := s.to(e.Offset)
		e.Offset, e.Bytes = from, max(s.to(e.Offset+e.Bytes)-from, s.unit)
	case e.Offset > 0: // a seek
		e.Offset = s.to(e.Offset)
	}
}

// mostFactor bounds Options.ScaleBytes.
const mostFactor = 1e6

// scaleBytes multiplies all offsets and lengths by a factor, so that the trace of a
// large job fits on a small disk, with as many requests in the same order. Requests
// that touch still do. A request keeps a byte at least; in files with whole pages
// only, all pieces stay whole pages. It changes the events in place.
func scaleBytes(t *iotrace.Trace, factor float64) error {
	if !(factor > 0 && factor <= mostFactor) {
		return optionError("a factor of %g for the bytes: want a number above 0, at most %g", factor, float64(mostFactor))
	}
	paged, same := make([]bool, len(t.Files)), sameFiles(t)
	for i := range paged {
		paged[i] = true
	}
	for i := range t.Events {
		e := &t.Events[i]
		if e.File != iotrace.None && e.Op.Data() && (max(e.Offset, 0)%pageSize != 0 || e.Bytes%pageSize != 0) {
			paged[same[e.File]] = false
		}
	}
	maps := make([]stretch, len(t.Files))
	for i := range maps {
		maps[i] = stretch{factor: factor, unit: 1}
		if paged[same[i]] {
			maps[i].unit = pageSize
		}
	}
	for i := range t.Events {
		e := &t.Events[i]
		if far := (float64(max(e.Offset, 0)) + float64(e.Bytes)) * factor; e.File != iotrace.None && far > math.MaxInt64/2 {
			return optionError("%d bytes at offset %d, %g times as far on, end beyond what a file can hold", e.Bytes, e.Offset, factor)
		}
	}
	moveAll(t, maps)
	return nil
}
