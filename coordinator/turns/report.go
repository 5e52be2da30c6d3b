package turns

import "time"

// A Report says how a burst went.
type Report struct {
	// Bytes is how much moved.
	Bytes int64
	// Waited is the time for which at least one operation waited, Times how often that
	// was, and Waits the first MaxSpans of those times.
	Waited time.Duration
	Times  int
	Waits  []Span
	// Passed says why bytes passed without turns; "" if none did.
	Passed string
}

// A Span is a time of waiting.
type Span struct{ Start, End time.Time }

// MaxSpans bounds Report.Waits.
const MaxSpans = 64

// standing adds up the times for which at least one operation of a turn waits.
type standing struct {
	now   int // operations that wait
	since time.Time
	total time.Duration
	times int
	spans []Span
}

// add notes that one operation more waits.
func (s *standing) add(now time.Time) {
	if s.now == 0 {
		s.since = now
	}
	s.now++
}

// remove notes that one operation waits no more. Over says that it was the last.
func (s *standing) remove(now time.Time) (span Span, over bool) {
	if s.now == 0 {
		return Span{}, false // the gate has opened meanwhile
	}
	if s.now--; s.now > 0 {
		return Span{}, false
	}
	return s.close(now), true
}

// clear notes that no operation waits any more.
func (s *standing) clear(now time.Time) (span Span, over bool) {
	if s.now == 0 {
		return Span{}, false
	}
	s.now = 0
	return s.close(now), true
}

func (s *standing) close(now time.Time) Span {
	span := Span{s.since, now}
	s.total += span.End.Sub(span.Start)
	s.times++
	if len(s.spans) < MaxSpans {
		s.spans = append(s.spans, span)
	}
	return span
}
