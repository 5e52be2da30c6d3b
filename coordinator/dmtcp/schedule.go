package dmtcp

import (
	"slices"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
)

// A schedule says when the next checkpoint is due: at an interval, or as soon as a budget
// can pay for it.
type schedule struct {
	job.Schedule
	former time.Duration   // pause of earlier runs or predicted; 0 if not known
	pauses []time.Duration // of this run, oldest first
	told   time.Duration   // interval that was told
	spent  time.Duration   // of all pauses
	since  time.Time       // the run began
	last   time.Time       // the program computes since the last checkpoint or the start
}

const (
	recentPauses = 5
	// guessedRate is how many bytes are written per second, before anything is known.
	guessedRate = 256 << 20
	// material is the change of an interval that is told.
	material = 1.5
)

// computes notes that the program computes, after a pause for a checkpoint or, with 0,
// since it was started.
func (s *schedule) computes(now time.Time, pause time.Duration) {
	if s.since.IsZero() {
		s.since = now
	}
	s.last = now
	if pause > 0 {
		s.spent += pause
		s.pauses = append(s.pauses, pause)
		s.pauses = s.pauses[max(0, len(s.pauses)-recentPauses):]
	}
}

// expected is how long the next checkpoint will stop the program: as long as the median of
// the recent ones.
func (s *schedule) expected() time.Duration {
	if len(s.pauses) == 0 {
		return s.former
	}
	list := slices.Sorted(slices.Values(s.pauses))
	return list[(len(list)-1)/2]
}

// interval is the time of computing between two checkpoints, 0 if none are due.
func (s *schedule) interval() time.Duration {
	switch {
	case s.Interval > 0:
		return s.Interval
	case s.Overhead > 0:
		return max(time.Second, time.Duration(float64(s.expected())/s.Overhead))
	}
	return 0
}

// due is when the next checkpoint is due; false if none is.
func (s *schedule) due() (time.Time, bool) {
	n := s.interval()
	return s.last.Add(n), n > 0
}

// event says how often a budget lets checkpoints be taken, nil if that was told.
func (s *schedule) event(now time.Time) *coordinator.IntervalEvent {
	n := s.interval()
	if s.Overhead == 0 || s.told > 0 && n < time.Duration(material*float64(s.told)) && s.told < time.Duration(material*float64(n)) {
		return nil
	}
	s.told = n
	used := 0.0
	if ran := now.Sub(s.since) - s.spent; ran > 0 {
		used = s.spent.Seconds() / ran.Seconds()
	}
	return &coordinator.IntervalEvent{Type: "interval", Interval: n.Seconds(), Cost: s.expected().Seconds(), Next: max(0, s.last.Add(n).Sub(now).Seconds()),
		Measured: len(s.pauses), Overhead: s.Overhead, Used: used}
}
