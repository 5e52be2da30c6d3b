package coordinator

import (
	"errors"
	"fmt"

	"ckpt/internal/durable"
	"ckpt/internal/wording"
)

// A LeftError says that a run was left behind: it had been interrupted twice and did
// not end, since an operation of its store does not return. Its ranks are killed. For
// the next run it is as if its coordinator had been.
type LeftError struct {
	Job string // "" if it had none yet
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("interrupted; %s was left as it is: its storage does not answer", e.name())
}

func (e *LeftError) name() string {
	if e.Job == "" {
		return "the run"
	}
	return "job " + e.Job
}

// A JobFailedError says that a job failed and was not restarted.
type JobFailedError struct {
	Job         string
	Err         error
	Restartable bool // from a checkpoint, or from a recovery line
	Several     bool // it has several groups: from a line, which needs no checkpoint
	Tried       bool // to restart it, again and again
}

func (e *JobFailedError) Error() string { return fmt.Sprintf("job %s failed: %v", e.Job, e.Err) }
func (e *JobFailedError) Unwrap() error { return e.Err }

// Hint says how to go on.
func (e *JobFailedError) Hint() string {
	from := "the last checkpoint"
	if e.Several {
		from = "its recovery line"
	}
	switch {
	case e.Restartable && e.Tried:
		return wording.Sprintf("{restart %s} continues from %s, once it is clear what kills it", e.Job, from)
	case e.Tried:
		return wording.Sprintf("failures come faster than checkpoints; launch it again with more of them: {every}, {interval} or {count}")
	case e.Restartable:
		return wording.Sprintf("{restart %s} continues from %s; {auto-restart} does so by itself", e.Job, from)
	}
	return wording.Sprintf("there is no checkpoint yet; launch it again, with {every}, {interval} or {count} to take some")
}

// A fullError says that a job cannot go on without room in the store.
type fullError struct {
	job string
	err error
}

func (e *fullError) Error() string { return fmt.Sprintf("job %s cannot go on: %v", e.job, e.err) }
func (e *fullError) Unwrap() error { return e.err }

// Hint says how to go on.
func (e *fullError) Hint() string {
	return wording.Sprintf("free some space; {restart %s} continues then", e.job)
}

// cannotGoOn returns err with what to do about it if it is a full disk.
func (d *driver) cannotGoOn(err error) error {
	if errors.Is(err, durable.ErrStorageFull) {
		return &fullError{d.job.Name(), err}
	}
	return err
}
