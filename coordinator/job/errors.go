package job

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/wording"
)

// A noCheckpointError says that a job has nothing to continue from.
type noCheckpointError struct{ job string }

func (e *noCheckpointError) Error() string {
	return fmt.Sprintf("job %s: %v: it has none", e.job, image.ErrCheckpointNotFound)
}

func (e *noCheckpointError) Is(target error) bool { return target == image.ErrCheckpointNotFound }

func (e *noCheckpointError) Hint() string {
	return wording.Sprintf("{launch APP} {job} %s begins it again", e.job)
}

// A MissingError says that something is missing that a recovery line needs.
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

func (e *MissingError) Hint() string {
	if e.OnNodes {
		return "make the directories of the nodes visible under their names, or run ckpt where they are; or put the files back from a copy"
	}
	return "put it back from a copy of the store; without it, the job has to be launched again"
}

// A UsageError is a request that makes no sense as it stands. Package wording names settings and
// commands in its texts, and in other errors, hints and warnings.
type UsageError struct {
	Text string
	Fix  string // what to do about it
}

func (e *UsageError) Error() string { return e.Text }

func (e *UsageError) Hint() string { return e.Fix }

// An OtherBuildError says that the library zone is of another binary.
type OtherBuildError struct{ Checkpoint int }

func (e *OtherBuildError) Error() string {
	return fmt.Sprintf("checkpoint %d was taken by another build of ckpt: its library zone differs", e.Checkpoint)
}

func (e *OtherBuildError) Hint() string { return "restart it with the ckpt that launched the job" }

// senseless is the error of a description that no job can have.
func senseless(job *image.Job, err error) error {
	return &durable.DamageError{File: job.SpecPath(), Reason: "the description of the job makes no sense: " + err.Error()}
}

// Unrestorable reports whether a checkpoint cannot be restored, now or later.
func Unrestorable(err error) bool {
	for _, is := range []error{durable.ErrOtherJob, image.ErrCheckpointNotFound, container.ErrRegionsDiffer, container.ErrUnsupported, durable.ErrNewerVersion} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*durable.DamageError)) || errors.As(err, new(*OtherBuildError))
}

// Unfit reports whether a checkpoint is sound, and cannot be restored by these ranks.
func Unfit(err error) bool {
	for _, is := range []error{container.ErrRegionsDiffer, container.ErrUnsupported, durable.ErrNewerVersion} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*OtherBuildError))
}

// A LogError says that a message log which the recovery line needs cannot be read.
// RestartOptions.WithoutLog does without all logs.
type LogError struct {
	Job string
	// From are, by group, the checkpoints from which the job would resume; 0 is the beginning.
	// The group that is least far is at Iteration.
	From      []int
	Iteration int
	Err       error
}

func (e *LogError) Error() string { return e.Err.Error() }
func (e *LogError) Unwrap() error { return e.Err }

// Anew reports whether only the beginning is left.
func (e *LogError) Anew() bool { return slices.Max(e.From) == 0 }

// OfferLine adds to the error of a message log what the checkpoints alone allow.
func OfferLine(job string, cfg supervisor.Config, err error) error {
	if !Unrestorable(err) {
		return err
	}
	line, lerr := supervisor.LineWithoutLogs(cfg)
	if lerr != nil {
		return errors.Join(err, lerr)
	}
	e := &LogError{Job: job, Err: err, Iteration: math.MaxInt}
	for _, c := range line {
		e.From = append(e.From, c.Number)
		e.Iteration = min(e.Iteration, c.Iter)
	}
	return e
}

// Known describes the checkpoints of a job to its protocol.
func (s *storedJob) Known() ([]supervisor.Stored, error) {
	var known []supervisor.Stored
	for g, list := range s.Found {
		for _, m := range list {
			k := supervisor.Stored{Group: g, Number: m.Number, Iter: int(m.Iteration), Passing: slices.Contains(s.passing, m.Number)}
			if len(s.Found) > 1 {
				var err error
				if k.Vectors, err = VectorsOf(m); err != nil {
					return nil, err
				}
			}
			known = append(known, k)
		}
	}
	return known, nil
}

// A RefusedError says why a run did not begin: no rank was to compute.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

// NotRemoved begins the warning of what only costs room.
const NotRemoved = "what is not needed any more was not removed: "
