package replay

import (
	"math"

	"ckpt/iotrace"
)

// mostFactor bounds Options.ScaleBytes.
const mostFactor = 1e6

// scaleBytes multiplies all offsets and lengths by a factor, so that the trace of a
// large job fits on a small disk, with as many requests in the same order. Requests
// that touch still do. None becomes shorter than a byte; in files with whole pages
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
	for i := range t.Events {
		e := &t.Events[i]
		if e.File == iotrace.None {
			continue
		}
		unit := int64(1)
		if paged[same[e.File]] {
			unit = pageSize
		}
		if far := (float64(max(e.Offset, 0)) + float64(e.Bytes)) * factor; far > math.MaxInt64/2 {
			return optionError("%d bytes at offset %d, %g times as far on, end beyond what a file can hold", e.Bytes, e.Offset, factor)
		}
		to := func(at int64) int64 { return int64(float64(at/unit)*factor) * unit }
		switch {
		case e.Op == iotrace.Truncate:
			e.Bytes = to(e.Bytes)
		case e.Op.Data() && e.Bytes > 0:
			from := max(e.Offset, 0)
			n := to(from+e.Bytes) - to(from)
			if e.Offset >= 0 {
				e.Offset = to(from)
			}
			e.Bytes = max(n, unit)
		case e.Offset > 0: // a seek
			e.Offset = to(e.Offset)
		}
	}
	return nil
}
