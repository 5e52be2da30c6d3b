package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
)

// leaveGrace is how long ranks may take to leave by themselves, killGrace how
// long a killed process may take to be gone.

const (
	leaveGrace = 3 * time.Second
)

// recordEnding notes how the run has ended, before anybody can learn that it has. A
// restart that never came to compute leaves the last result alone.
func (d *driver) recordEnding(result *Result, err error) {
	if !d.result.began {
		return
	}
	if result == nil {
		job.RecordEnding(d.job, job.StateInterrupted, "", err, d.beginning(), nil)
		return
	}
	job.RecordEnding(d.job, result.Outcome, result.Digest, err, d.beginning(), result)
}

// settle lets the ranks leave, ends those that do not, and cleans up.
func (d *driver) settle() {
	d.letGo()
	if d.program != nil {
		d.settleProgram()
	} else {
		d.awaitLeaving()
	}
	for _, g := range d.groups {
		if err := g.endIncarnation(); err != nil {
			d.out.Warn(err.Error())
		}
	}
	d.storeLast()
	for _, g := range d.groups {
		g.cleanUp()
	}
	d.startPrunes()
	d.requests.end()
}

// awaitLeaving waits until the ranks have left, for leaveGrace at most.
func (d *driver) awaitLeaving() {
	deadline := time.NewTimer(leaveGrace)
	defer deadline.Stop()
	if d.broken == nil && d.outcome.Result != protocol.Failed && !d.hurried {
	wait:
		for _, m := range d.members {
			// Ranks that never connected were not told to leave; skip them.
			for gone := m == nil || m.link == nil; !gone; {
				select {
				case <-m.proc.Done():
					gone = true
				case <-d.ready: // somebody may wait for an answer
					d.take()()
				case <-deadline.C:
					break wait
				}
			}
		}
	}
}

// verdict makes the result, or the error, of the run.
func (d *driver) verdict() (*Result, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	o := d.outcome
	d.result.Outcome = o.Result.String()
	if d.full != nil && o.Result == protocol.StoppedByRequest {
		return &d.result, d.full
	}
	if o.Result == protocol.Failed {
		cause := errors.New(o.Text)
		if len(o.Body) > 0 {
			cause = wire.DecodeError(o.Body, o.Text)
		}
		if o.Restored {
			return &d.result, cause
		}
		newest, err := d.job.Latest()
		return &d.result, &JobFailedError{Job: d.job.Name(), Err: cause, Restartable: d.spec.Several() || err == nil && newest > 0 || d.tier != nil && len(d.tier.versions) > 0, Several: d.spec.Several(),
			Tried: d.spec.AutoRestart}
	}
	if err := d.checkPlace(); err != nil {
		return &d.result, err
	}
	d.tellAborted()
	if o.Result == protocol.Completed {
		d.tellIdle()
		if d.program != nil {
			return &d.result, nil
		}
		digests := make([]wire.DoneReport, len(o.Results))
		for rank, body := range o.Results {
			if err := json.Unmarshal(body, &digests[rank]); err != nil {
				return nil, fmt.Errorf("result of rank %d: %w", rank, err)
			}
		}
		d.result.Digest = jobDigest(digests)
		for _, r := range digests {
			d.result.addLog(r.Log)
		}
		d.result.Residual = digests[0].Residual
	}
	return &d.result, nil
}
