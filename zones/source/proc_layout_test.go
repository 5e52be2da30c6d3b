package source

import (
	"testing"

	"pgregory.net/rapid"
)

// records walks over pages as mtcp_write_anonymous_pages of DMTCP 5.0 does, one
// range at a time, and returns what it writes after the header of the area.
func records(touched []bool, next func(rest []bool) (n int, full bool)) (count int, data int64) {
	for len(touched) > 0 {
		n, full := next(touched)
		count++
		if full {
			data += int64(n) * 4096
		}
		touched = touched[n:]
	}
	return count, data
}

// byResidency is scanOccupiedRangeBatch.
func byResidency(rest []bool) (int, bool) {
	n := 1
	for n < len(rest) && rest[n] == rest[0] {
		n++
	}
	return n, rest[0]
}

// byContents is mtcp_get_next_page_range.
func byContents(rest []bool) (int, bool) {
	const pages = step / 4096
	if len(rest) < pages {
		return len(rest), true
	}
	any := func(p []bool) bool {
		for _, t := range p {
			if t {
				return true
			}
		}
		return false
	}
	full := any(rest[:pages])
	n := pages
	for n < len(rest) {
		more := min(pages, len(rest)-n)
		if any(rest[n:n+more]) != full {
			break
		}
		n += more
	}
	return n, full
}

func TestLayoutIsWhatDMTCPWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Ranges of pages, touched and not, some shorter than a step and some
		// longer.
		var touched []bool
		state := rapid.Bool().Draw(t, "first")
		for _, n := range rapid.SliceOfN(rapid.IntRange(1, 700), 1, 12).Draw(t, "ranges") {
			for range n {
				touched = append(touched, state)
			}
			state = !state
		}
		const start = 0x7f0000003000
		tr := newTracer(start, start+uint64(len(touched))*4096)
		for i := 0; i < len(touched); {
			n := 1
			for i+n < len(touched) && touched[i+n] == touched[i] {
				n++
			}
			if touched[i] {
				// In one piece or in two that adjoin, as the kernel may list it.
				from, to := start+uint64(i)*4096, start+uint64(i+n)*4096
				cut := from + uint64(rapid.IntRange(0, n).Draw(t, "cut"))*4096
				tr.add(from, cut)
				tr.add(cut, to)
			}
			i += n
		}
		l := tr.done()
		if n, data := records(touched, byResidency); l.runs+l.gaps != n || l.touched != data {
			t.Fatalf("pages: %+v, want %d records of %d bytes", l, n, data)
		}
		if n, data := records(touched, byContents); l.stepRecords != n || l.stepData != data {
			t.Fatalf("steps: %+v, want %d records of %d bytes", l, n, data)
		}
	})
}

// The figures of an image of a small program under DMTCP: its allocator's arena
// of 16 MiB, of which one page in four is touched, takes 12.1 MiB; its stack of
// 8 MiB, of which the uppermost 1.9 are in use, has two full steps; a
// reservation takes two headers.
func TestLayoutOfMeasuredAreas(t *testing.T) {
	arena := newTracer(0, 16<<20)
	for at := uint64(0); at < 16<<20; at += 16 << 10 {
		arena.add(at, at+4096)
	}
	l := arena.done()
	stored := dmtcpHeader*int64(1+l.runs+l.gaps) + l.touched
	if mib := float64(stored) / (1 << 20); l.runs+l.gaps != 2048 || mib < 12 || mib > 12.15 {
		t.Errorf("arena: %d records, %.2f MiB", l.runs+l.gaps, mib)
	}
	stack := newTracer(0, 8<<20)
	stack.add(8<<20-1900<<10, 8<<20)
	if l := stack.done(); l.stepRecords != 2 || l.stepData != 2<<20 {
		t.Errorf("stack: %+v", l)
	}
	if l := assume(64<<20, 0, 0); l.runs+l.gaps != 1 || l.touched != 0 {
		t.Errorf("reservation: %+v", l)
	}
	if l := assume(1<<20, 1<<19, 30); l.runs != 30 || l.gaps != 30 || l.touched != 1<<19 {
		t.Errorf("by the fields: %+v", l)
	}
}
