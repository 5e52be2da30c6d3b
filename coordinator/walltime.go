package coordinator

import (
	"time"

	"ckpt/coordinator/protocol"
)

// limitTime sets the limit of time of the run, if it has one.
func (d *driver) limitTime(end time.Time, cost time.Duration) {
	if !end.IsZero() {
		d.wall = protocol.NewWalltime(max(time.Millisecond, end.Sub(d.since)), cost)
	}
}

// wallDue returns when the run is to be stopped for its limit of time, false if never.
func (d *driver) wallDue() (time.Duration, bool) {
	if d.wall == nil || d.result.Interrupted || !d.result.began {
		return 0, false
	}
	return d.wall.At(), true
}

// tookWall notes what a checkpoint took.
func (d *driver) tookWall(latency float64) {
	if d.wall != nil {
		d.wall.Took(seconds(latency), d.result.Checkpoints == 1)
	}
}

// timeIsUp stops the job after a last checkpoint, to be queued again.
func (d *driver) timeIsUp() {
	d.result.Requeue = true
	d.out.Warn("the time of this run is nearly up")
	d.interrupt(false)
}
