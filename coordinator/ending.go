package coordinator

import (
	"errors"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
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
	for _, g := range d.groups {
		g.level.letGo()
	}
	if d.broken == nil && d.outcome.Result != protocol.Failed && !d.hurried {
		d.engine.settle()
	}
	for _, g := range d.groups {
		if err := g.endIncarnation(); err != nil {
			d.out.Warn(err.Error())
		}
	}
	for _, g := range d.groups {
		g.level.drain()
	}
	for _, g := range d.groups {
		g.cleanUp()
	}
	d.startPrunes()
	d.requests.end()
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
		return &d.result, &JobFailedError{Job: d.job.Name(), Err: cause, Restartable: d.spec.Several() || err == nil && newest > 0 || len(d.groups[0].level.versions()) > 0, Several: d.spec.Several(),
			Tried: d.spec.AutoRestart}
	}
	if err := d.checkPlace(); err != nil {
		return &d.result, err
	}
	d.tellAborted()
	if o.Result == protocol.Completed {
		d.tellIdle()
		if err := d.engine.complete(o.Results); err != nil {
			return nil, err
		}
	}
	return &d.result, nil
}
