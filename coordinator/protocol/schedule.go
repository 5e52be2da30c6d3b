package protocol

import (
	"slices"
	"time"
)

// A Schedule says when checkpoints are taken without being asked for. At most
// one of the fields is set; the zero value takes none.
type Schedule struct {
	Every    int           // at every multiple of this number of iterations
	At       []int         // at these iterations, ascending
	Interval time.Duration // this long after the previous one ended
	// Overhead takes a checkpoint as soon as the time spent on checkpoints,
	// that one included, stays within this fraction of the time computed.
	Overhead float64
}

// next returns the first scheduled boundary after iteration iter, 0 if there
// is none before the end: a checkpoint at the very end would protect nothing.
func (s Schedule) next(iter, iterations int) int {
	boundary := 0
	switch {
	case s.Every > 0:
		boundary = (iter/s.Every + 1) * s.Every
	case len(s.At) > 0:
		if i, _ := slices.BinarySearch(s.At, iter+1); i < len(s.At) {
			boundary = s.At[i]
		}
	}
	if boundary >= iterations {
		return 0
	}
	return boundary
}

// A budget is the account of checkpoint time against computing time.
type budget struct {
	since time.Duration // start of the current stretch of computing
	spent time.Duration // by checkpoints
	ran   time.Duration // computing before since
	last  time.Duration // the previous checkpoint's cost, or its estimate
}

// due returns when the next checkpoint fits the budget.
func (b budget) due(s Schedule, from time.Duration) (time.Duration, bool) {
	switch {
	case s.Interval > 0:
		return from + s.Interval, true
	case s.Overhead > 0:
		need := time.Duration(min(float64(b.spent+b.last)/s.Overhead, 1<<61)) // 73 years
		return b.since + max(0, need-b.ran), true
	}
	return 0, false
}
