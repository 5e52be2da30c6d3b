package job

import (
	"errors"
	"fmt"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/wording"
)

// A noCheckpointError says that a job cannot be continued from anywhere.
type noCheckpointError struct{ job string }

func (e *noCheckpointError) Error() string {
	return fmt.Sprintf("job %s: %v: it has none", e.job, image.ErrCheckpointNotFound)
}

func (e *noCheckpointError) Is(target error) bool { return target == image.ErrCheckpointNotFound }

// Hint says how to go on.
func (e *noCheckpointError) Hint() string {
	return wording.Sprintf("{launch APP} {job} %s begins it again", e.job)
}

// A MissingError says that something is not there that a recovery line needs.
type MissingError struct {
	What    string
	Cause   error // damage that is behind it; may be nil
	OnNodes bool  // nodes had it, and only they
}

func (e *MissingError) Error() string {
	text := "missing from the recovery line: " + e.What
	if e.Cause != nil {
		text += "; " + e.Cause.Error()
	}
	return text
}

func (e *MissingError) Is(target error) bool { return target == image.ErrCheckpointNotFound }
func (e *MissingError) Unwrap() error        { return e.Cause }

// Hint says how to go on.
func (e *MissingError) Hint() string {
	if e.OnNodes {
		return "make the directories of the nodes visible under their names, or run ckpt where they are; or put the files back from a copy"
	}
	return "put it back from a copy of the store; without it, the job has to be launched again"
}

// A UsageError is a request that makes no sense as it stands. Package wording names settings
// and commands in its texts, and in other errors, hints and warnings.
type UsageError struct {
	Text string
	Fix  string // what to do about it
}

func (e *UsageError) Error() string { return e.Text }

// Hint returns what to do about it.
func (e *UsageError) Hint() string { return e.Fix }

// An OtherBuildError says that the library zone is not that of this binary.
type OtherBuildError struct{ Checkpoint int }

func (e *OtherBuildError) Error() string {
	return fmt.Sprintf("checkpoint %d was taken by another build of ckpt: its library zone differs", e.Checkpoint)
}

// Hint says how to go on.
func (e *OtherBuildError) Hint() string { return "restart it with the ckpt that launched the job" }

// senseless says what no job can be described by.
func senseless(job *image.Job, err error) error {
	return &durable.DamageError{File: job.SpecPath(), Reason: "the description of the job makes no sense: " + err.Error()}
}

// Unrestorable reports whether err says that a checkpoint cannot be restored,
// and not merely that it could not be just now.
func Unrestorable(err error) bool {
	for _, is := range []error{durable.ErrOtherJob, image.ErrCheckpointNotFound, container.ErrRegionsDiffer, container.ErrUnsupported, durable.ErrNewerVersion} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*durable.DamageError)) || errors.As(err, new(*OtherBuildError))
}
