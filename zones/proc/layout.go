package proc

// A layout is how the touched pages of an area lie in it, which is what the
// price of an area in an image of DMTCP depends on: every range of pages with
// contents, and every range between them, is a record with a header.
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

// step is what DMTCP looks through at once.
const step = 1 << 20

// A tracer builds the layout of the area [start, end) from its ranges of
// touched pages, which it takes in ascending order.
type tracer struct {
	layout
	start, end uint64
	at         uint64 // end of the last range
	next       uint64 // first step that is undecided
	full       bool   // whether the step before it is
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

// done returns the layout, what follows the last range being untouched.
func (t *tracer) done() layout {
	if t.at < t.end {
		t.gaps++
	}
	size := t.end - t.start
	left := size - min(size, t.next*step)
	switch {
	case left == 0:
	case left < step && (t.full || t.next == 0):
		// Less than a step is stored unseen where a record would begin with it.
		t.stepRecords++
		t.stepData += int64(left)
	default:
		t.stepRecords++
	}
	return t.layout
}

// assume returns the layout of an area of which no more is known than how many
// bytes were touched, and perhaps in how many ranges: from its start on, and
// gaps as many as ranges, where there may be one more or less.
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
