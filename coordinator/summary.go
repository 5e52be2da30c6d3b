package coordinator

import (
	"fmt"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/internal/wording"
)

// tellAborted says that half of the checkpoints of the run, or more, did not fit into the
// storage.
func (d *driver) tellAborted() {
	r := &d.result
	if r.Full == 0 || 2*r.Full < r.Checkpoints+r.Lost {
		return
	}
	newest := "no other was taken"
	if r.Checkpoints > 0 {
		newest = fmt.Sprintf("the newest is of iteration %d", d.groups[0].durable)
		if d.spec.Several() {
			newest = fmt.Sprintf("%d others were taken", r.Checkpoints)
		}
	}
	remedy := wording.Sprintf("{prune %s} {keep} 1 frees space, and a launch with {keep} 2 keeps it free", d.job.Name())
	if d.spec.Several() || r.Checkpoints == 0 {
		remedy = "free space in " + d.store
	}
	if r := d.groups[0].level.facts().remedy; r != "" { // the store was not what they were waiting for
		remedy = r
	}
	d.out.Warn(fmt.Sprintf("%d of %d checkpoints were aborted because the storage is full, and %s; %s", r.Full, r.Checkpoints+r.Lost, newest, remedy))
}

// tellIdle says that the schedule never came to a checkpoint in a job that has none.
func (d *driver) tellIdle() {
	if d.result.Checkpoints+d.result.Lost > 0 || d.result.Last > 0 {
		return
	}
	switch s := d.spec.Schedule; {
	case s.Interval > 0:
		d.out.Warn(wording.Sprintf("no checkpoint was taken: the job ended after %v, before the first {interval} of %v",
			d.now().Round(10*time.Millisecond), s.Interval))
	case s.Overhead > 0:
		d.out.Warn(wording.Sprintf("no checkpoint was taken: the job ended before one fitted into {overhead} %g%%", 100*s.Overhead))
	}
}

// checkPlace looks whether the directory of the job is still there. A result is shown
// all the same; a job that was to be continued cannot be.
func (d *driver) checkPlace() error {
	err := d.job.InPlace()
	if err == nil {
		return nil
	}
	if d.outcome.Result == protocol.Completed {
		d.out.Warn("nothing of this run is stored: " + err.Error())
		return nil
	}
	return fmt.Errorf("job %s has no last checkpoint: %w", d.job.Name(), err)
}
