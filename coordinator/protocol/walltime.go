package protocol

import (
	"slices"
	"time"
)

// A Walltime says when a job that has a limit of time is to be stopped: early enough for
// a last checkpoint. Times count from the start of the run.
type Walltime struct {
	End    time.Duration // when the job is killed
	Margin time.Duration // to spare
	costs  []time.Duration
}

// wallMargin is what a run leaves for its program to end and for other delays. A short run
// leaves a part of its time.
const (
	wallMargin = time.Minute
	wallPart   = 10
)

// NewWalltime returns the limit of a run that may take so long. Cost is what a checkpoint
// is expected to take until it is durable.
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

// At returns when the job is to be stopped: twice what the slowest of the newest
// checkpoints took, and the margin, before the end. One may be under way, which the last
// one has to wait for.
func (w *Walltime) At() time.Duration {
	return max(0, w.End-2*slices.Max(w.costs)-w.Margin)
}

// Left returns what is left at time now.
func (w *Walltime) Left(now time.Duration) time.Duration { return max(0, w.End-now) }
