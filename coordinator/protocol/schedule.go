package protocol

import (
	"slices"
	"time"
)

// A Schedule says when checkpoints are taken without being asked for. At most
// one of the first four fields is set; the zero value takes none.
type Schedule struct {
	Every    int           // at every multiple of this number of iterations
	At       []int         // at these iterations, ascending
	Interval time.Duration // this long after the previous one ended
	// Overhead takes a checkpoint as soon as the time spent on checkpoints,
	// that one included, will stay within this fraction of the time computed.
	Overhead float64

	// Groups of a job that do not want to store all at the same time shift their
	// schedules against each other: Offset is added to the multiples of Every,
	// Shift to the first Interval of a run.
	Offset int
	Shift  time.Duration
	// Jitter delays each boundary of Every, or lengthens each Interval, by a
	// random part of up to this fraction of the period, in [0, 1), that follows
	// from Seed.
	Jitter float64
	Seed   uint64
}

// next returns the first scheduled boundary after iteration iter, 0 if there
// is none before the end: a checkpoint at the very end would protect nothing. With 0
// iterations the end is not known.
func (s Schedule) next(iter, iterations int) int {
	boundary := 0
	switch {
	case s.Every > 0:
		for k := (iter-s.Offset)/s.Every - 1; boundary <= iter; k++ {
			if k > 0 || k == 0 && s.Offset > 0 {
				boundary = s.Offset + k*s.Every + int(s.jitter(k)*float64(s.Every))
			}
		}
	case len(s.At) > 0:
		if i, _ := slices.BinarySearch(s.At, iter+1); i < len(s.At) {
			boundary = s.At[i]
		}
	}
	if iterations > 0 && boundary >= iterations {
		return 0
	}
	return boundary
}

// jitter returns the delay of number k of the schedule as a fraction of the
// period. It is a hash rather than the next of a sequence, so that a rank that
// goes back finds the same boundaries again.
func (s Schedule) jitter(k int) float64 {
	if s.Jitter <= 0 {
		return 0
	}
	x := s.Seed + uint64(k)*0x9e3779b97f4a7c15 // SplitMix64 (Steele, Lea and Flood 2014)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return s.Jitter * float64(x>>11) / (1 << 53)
}

// due returns when the next checkpoint of the schedule is due, if that is a matter of
// time.
func (c *Coordinator) due() (time.Duration, bool) {
	s := c.cfg.Schedule
	switch {
	case s.Interval > 0:
		at := c.lastEnd + s.Interval + time.Duration(s.jitter(c.budget.tries)*float64(s.Interval))
		if c.budget.tries == 0 {
			at = max(c.lastEnd, at+s.Shift)
		}
		return at, true
	case s.Overhead > 0:
		return c.budget.due(), true
	}
	return 0, false
}
