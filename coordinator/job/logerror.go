package job

import (
	"errors"
	"math"
	"slices"

	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/internal/wording"
)

// A LogError says that a message log cannot be read that the recovery line of a job
// needs. RestartOptions.WithoutLog does without all of them.
type LogError struct {
	Job string
	// From are, by group, the checkpoints that the job resumes from then; 0 is the
	// beginning. The group that is the least far is at Iteration.
	From      []int
	Iteration int
	Err       error
}

func (e *LogError) Error() string { return e.Err.Error() }
func (e *LogError) Unwrap() error { return e.Err }

// Anew reports whether nothing but the beginning is left.
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
func Known(found [][]*image.Manifest) ([]supervisor.Stored, error) {
	var known []supervisor.Stored
	for g, list := range found {
		for _, m := range list {
			k := supervisor.Stored{Group: g, Number: m.Number, Iter: int(m.Iteration)}
			if len(found) > 1 {
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

// CheckWithoutLog refuses to do without logs where there are none.
func (s *Resolved) CheckWithoutLog() error {
	if !s.Several() || s.Log == channel.None {
		return &UsageError{"the job logs no messages: there is no log to do without", wording.Sprintf("leave {without-log} out")}
	}
	return nil
}
