package protocol

import (
	"fmt"
	"slices"
	"time"
)

// checkpoint returns what is known so far of the checkpoint under way.
func (c *Coordinator) checkpoint() Checkpoint {
	cp := Checkpoint{Number: c.next, Iter: c.boundary, Coordination: c.wrote - c.began}
	for i := range c.ranks {
		r := &c.ranks[i]
		cp.Bodies = append(cp.Bodies, r.body)
		cp.Stopped = append(cp.Stopped, r.stopped)
		cp.Waited = append(cp.Waited, c.wrote-r.stopped)
	}
	return cp
}

func (c *Coordinator) commit() {
	cp := c.checkpoint()
	cp.Writing = c.now - c.wrote
	c.phase = committing
	c.durable = c.now
	c.do(Commit{cp})
}

func (c *Coordinator) committed(ev Committed) {
	if c.behind != nil && c.behind.step == committingBehind && ev.Number == c.behind.cp.Number {
		c.committedBehind()
		return
	}
	if c.phase != committing || ev.Number != c.next {
		return
	}
	first := c.firstStop()
	c.taken(ev.Number, c.boundary, first, c.now-first, c.now-c.durable)
	served := c.serving
	c.serving = nil
	c.endAttempt(true)
	if c.loss != nil {
		for _, r := range served {
			c.answer(r, ev.Number, "")
		}
		c.lossAfterCommit()
		return
	}
	for i, r := range served {
		if r.Stop {
			for _, later := range served[i+1:] {
				c.answer(later, ev.Number, "")
			}
			c.phase = running
			c.stop(r, ev.Number)
			return
		}
		c.answer(r, ev.Number, "")
	}
	c.resume()
}

func (c *Coordinator) taken(number, iter int, stopped, pause, commit time.Duration) {
	c.known[number] = iter
	c.futile, c.stuck = 0, 0
	c.report(Notice{Kind: CheckpointTaken, Rank: -1, Checkpoint: number, Iter: iter, Lag: c.now - stopped, Pause: pause, Commit: commit})
}

func (c *Coordinator) firstStop() time.Duration {
	first := c.now
	for i := range c.ranks {
		if s := c.ranks[i].stopped; s >= c.began {
			first = min(first, s)
		}
	}
	return first
}

func (c *Coordinator) commitFailed(ev CommitFailed) {
	if c.phase == committing {
		// No rank writes any more; the caller has removed what there was.
		c.reportAborted(-1, ev.Reason, ev.Body)
		c.endAttempt(false)
		if c.loss != nil {
			c.lossAfterCommit()
			return
		}
		c.resume()
		return
	}
	c.abort(-1, ev.Reason, ev.Body) // Prepare failed
}

// endAttempt closes the account of the checkpoint under way, which was taken or aborted: the job
// stood still for it from the first stop until now.
func (c *Coordinator) endAttempt(taken bool) {
	first := c.firstStop()
	c.disturbed(first)
	c.budget.slowed(c.boundary, first)
	c.budget.charge(first, c.now, c.held, taken)
	c.held = 0
	c.lastEnd = c.now
	c.next += c.cfg.Stride
	if c.boundary > 0 {
		c.arm(c.boundary)
	}
	c.announce()
}

// arm sets the boundary after iteration iter at which the ranks stop by themselves.
func (c *Coordinator) arm(iter int) {
	c.armed = c.cfg.Schedule.next(iter, c.cfg.Iterations)
	if c.finishing {
		c.armed = 0
	}
}

func (c *Coordinator) resume() {
	c.phase = running
	c.do(Broadcast{Resume{c.armed, c.next}})
}

// abort ends the checkpoint under way and waits until no rank writes any more.
func (c *Coordinator) abort(rank int, why string, body []byte) {
	c.reportAborted(rank, why, body)
	if c.phase == proposing || c.phase == agreeing {
		c.boundary = 0 // without an agreement, the armed one still lies ahead
	}
	c.enter(aborting)
	c.do(Broadcast{Abort{c.next}})
}

// abandoned ends an abort: all ranks have stopped writing.
func (c *Coordinator) abandoned() {
	c.do(Discard{c.next})
	c.endAttempt(false)
	c.resume()
}

// reportAborted reports that the checkpoint under way will not be, and tells those who asked for
// it.
func (c *Coordinator) reportAborted(rank int, why string, body []byte) {
	c.tellAborted(Notice{Checkpoint: c.next, Rank: rank, Iter: c.boundary, Text: why, Body: body}, c.serving)
	c.serving = nil
}

func (c *Coordinator) tellAborted(n Notice, serving []Request) {
	n.Kind = CheckpointAborted
	c.report(n)
	for _, r := range serving {
		text := fmt.Sprintf("checkpoint %d was aborted: %s", n.Checkpoint, n.Text)
		if n.Rank >= 0 && !c.cfg.Lone {
			text = fmt.Sprintf("checkpoint %d was aborted: rank %d: %s", n.Checkpoint, n.Rank, n.Text)
		}
		c.answer(r, 0, text)
	}
}

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
