package protocol

import (
	"slices"
	"time"
)

// A Schedule says when checkpoints are taken without being asked for. At most one of the first
// four fields is set; the zero value takes none.
type Schedule struct {
	Every    int           // at every multiple of this number of iterations
	At       []int         // at these iterations, ascending
	Interval time.Duration // this long after the previous one ended
	// Overhead takes a checkpoint as soon as the time spent on checkpoints, that one included,
	// will stay within this fraction of the time computed.
	Overhead float64

	// Groups of a job that do not want to store all at the same time shift their schedules
	// against each other: Offset is added to the multiples of Every, Shift to the first Interval
	// of a run.
	Offset int
	Shift  time.Duration
	// Jitter delays each boundary of Every, or lengthens each Interval, by a random part of up to
	// this fraction of the period, in [0, 1), that follows from Seed.
	Jitter float64
	Seed   uint64
}

// next returns the first scheduled boundary after iteration iter, or 0 before the end: a
// checkpoint at the very end would protect nothing. With 0 iterations the end is not known.
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

// jitter returns the delay of number k of the schedule as a fraction of the period. It is a hash
// rather than the next of a sequence, so that a rank that goes back finds the same boundaries
// again.
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

// due returns when the next checkpoint of the schedule is due, if that is a matter of time.
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

// A Walltime says when a job that has a limit of time is to be stopped: early enough for a last
// checkpoint. Times count from the start of the run.
type Walltime struct {
	End    time.Duration // when the job is killed
	Margin time.Duration // to spare
	costs  []time.Duration
}

// wallMargin is what a run leaves for its program to end and for other delays. A short run leaves
// a part of its time.
const (
	wallMargin = time.Minute
	wallPart   = 10
)

// NewWalltime returns the limit of a run that may take so long. Cost is what a checkpoint is
// expected to take until it is durable.
func NewWalltime(end, cost time.Duration) *Walltime {
	return &Walltime{End: end, Margin: min(wallMargin, end/wallPart), costs: []time.Duration{cost}}
}

// Took notes what a checkpoint took until it was durable. The first one replaces what was
// expected.
func (w *Walltime) Took(cost time.Duration, first bool) {
	if first {
		w.costs = nil
	}
	w.costs = append(w.costs, cost)
	if len(w.costs) > recentCosts {
		w.costs = slices.Delete(w.costs, 0, 1)
	}
}

// At returns when the job is to be stopped: twice what the slowest of the newest checkpoints
// took, and the margin, before the end. One may be under way, which the last one has to wait for.
func (w *Walltime) At() time.Duration {
	return max(0, w.End-2*slices.Max(w.costs)-w.Margin)
}

// Left returns what is left at time now.
func (w *Walltime) Left(now time.Duration) time.Duration { return max(0, w.End-now) }

// demanded takes the wish of a rank that waits at a boundary for a checkpoint. All ranks demand
// one at the same boundary, so that one serves them all. A rank that is alone with its demand
// must not wait for ever.
func (c *Coordinator) demanded(r *rankState, m Demand) {
	r.iter = max(r.iter, m.Iter)
	switch {
	case c.phase == running, c.phase == aborting && r.answered:
		r.demand = m.Iter // until startDue may serve it
	case c.phase == stopping && m.Iter < c.boundary:
		c.goOn(r)
	}
	// In all other phases a message that ends the wait is on its way, or will be.
}

func (c *Coordinator) demands() bool {
	return slices.ContainsFunc(c.ranks, func(r rankState) bool { return r.demand > 0 })
}

func (c *Coordinator) passDemands() {
	for i := range c.ranks {
		if r := &c.ranks[i]; r.demand > 0 && r.demand < c.boundary {
			c.goOn(r)
		}
	}
}

func (c *Coordinator) goOn(r *rankState) {
	r.demand = 0
	c.do(Send{r.rank, StopAt{c.next, c.boundary}})
}

// refuseDemands lets ranks go on that wait for a checkpoint which will not come, because a rank
// has ended.
func (c *Coordinator) refuseDemands() {
	c.propose()
	c.abort(-1, "the job is finishing", nil)
}

// propose begins a checkpoint at a boundary that is still to be found.
func (c *Coordinator) propose() {
	for i := range c.ranks {
		c.ranks[i].demand = 0
	}
	c.enter(proposing)
	c.boundary = 0
	c.serving, c.waiting = c.waiting, nil
	c.began = c.now
}
