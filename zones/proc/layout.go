package proc

// A layout is the distribution of touched pages in an area. It determines the size of
// an area in an image of DMTCP, where every range of pages with contents, and every
// range between them, is a record with a header.
//
// DMTCP knows two granules. It asks the kernel for the touched pages of
// anonymous memory that has no name; it searches memory with a name ([heap],
// [stack]) for contents in steps of 1 MiB (mtcp_write_anonymous_pages in
// src/writeckpt.cpp of DMTCP 5.0).
type layout struct {
	touched int64 // bytes of touched pages
	runs    int   // ranges of touched pages
	gaps    int   // ranges of untouched ones

	stepData    int64 // bytes stored if searched in steps
	stepRecords int   // ranges of full or empty steps
}

// step is the unit of DMTCP's search.
const step = 1 << 20

// A tracer builds the layout of the area [start, end) from its ranges of touched
// pages, in ascending order.
type tracer struct {
	layout
	start, end uint64
	at         uint64 // end of the last range
	next       uint64 // first undecided step
	full       bool   // whether the step before it is full
}

func newTracer(start, end uint64) *tracer {
	return &tracer{start: start, end: end, at: start}
}

func (t *tracer) add(from, to uint64) {
	from, to = max(from, t.at), min(to, t.end)
	if from >= to {
		return
	}
	t.touched += int64(to - from)
	if from > t.at {
		t.gaps++
	}
	if from > t.at || t.runs == 0 {
		t.runs++
	}
	t.at = to

	first, last := (from-t.start)/step, (to-1-t.start)/step
	if first > t.next {
		t.stepRecords++
		t.next, t.full = first, false
	}
	if last >= t.next {
		if !t.full {
			t.stepRecords++
			t.full = true
		}
		t.stepData += int64(min(t.end, t.start+(last+1)*step) - (t.start + t.next*step))
		t.next = last + 1
	}
}

// done returns the layout. Everything behind the last range is untouched.
func (t *tracer) done() layout {
	if t.at < t.end {
		t.gaps++
	}
	size := t.end - t.start
	left := size - min(size, t.next*step)
	switch {
	case left == 0:
	case left < step && (t.full || t.next == 0):
		// DMTCP stores less than a step unseen if a record would begin with it.
		t.stepRecords++
		t.stepData += int64(left)
	default:
		t.stepRecords++
	}
	return t.layout
}

// assume returns the layout of an area from the number of touched bytes, and perhaps
// of ranges. Touched pages begin at its start, and there are as many gaps as ranges;
// the true number may differ by one.
func assume(size, touched int64, runs int) layout {
	t := newTracer(0, uint64(size))
	if touched > 0 {
		t.add(0, uint64(touched))
	}
	l := t.done()
	if runs > 1 && touched < size {
		l.runs, l.gaps = runs, runs
	}
	return l
}
