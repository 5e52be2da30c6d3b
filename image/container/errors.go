package container

import (
	"errors"
	"fmt"

	"ckpt/internal/durable"
)

var (
	// ErrRegionsDiffer says that the regions to load into are not those that
	// the image holds.
	ErrRegionsDiffer = errors.New("the regions of the image are not those of the process")
	// ErrUnsupported says that a file uses a codec or filter whose number this
	// version does not know.
	ErrUnsupported = errors.New("not supported by this version")
)

// An OtherJobError is durable.ErrOtherJob with the details.
type OtherJobError struct{ File, Job, Want string }

// Reason is the error without the name of the file.
func (e *OtherJobError) Reason() string {
	return fmt.Sprintf("%v: it is of job %s, not %s", durable.ErrOtherJob, e.Job, e.Want)
}

func (e *OtherJobError) Error() string { return e.File + " " + e.Reason() }

// Is makes it answer to durable.ErrOtherJob.
func (e *OtherJobError) Is(target error) bool { return target == durable.ErrOtherJob }
