package coordinator

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/internal/durable"
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

// offerLine adds to the error of a message log what the checkpoints alone allow.
func offerLine(job string, cfg supervisor.Config, err error) error {
	if !unrestorable(err) {
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

// forgoLogs chooses what the checkpoints alone allow, if that is asked for.
func (d *driver) forgoLogs(cfg supervisor.Config) error {
	l := &d.line
	if !d.withoutLog || l.Unlogged {
		return nil
	}
	line, err := supervisor.LineWithoutLogs(cfg)
	if err != nil {
		return err
	}
	l.Base = nil
	for _, c := range line {
		l.Base = append(l.Base, c.Number)
	}
	if slices.Max(l.Base) == 0 {
		for g := range l.Base {
			l.Base[g] = -1 // the job begins anew
		}
		return nil
	}
	l.Taken, l.Unlogged = slices.Clone(l.Base), true
	return nil
}

// checkUnlogged checks that the checkpoints to resume from are a line by themselves.
func (l *groupLine) checkUnlogged(job *image.Job, cfg supervisor.Config) error {
	cfg.Known = l.only(slices.Clone(cfg.Known))
	line, err := supervisor.LineWithoutLogs(cfg)
	if err == nil && slices.EqualFunc(line, l.Base, func(k supervisor.Stored, n int) bool { return k.Number == n }) {
		return nil
	}
	return &durable.DamageError{File: filepath.Join(job.Dir(), lineName),
		Reason: fmt.Sprintf("checkpoints %v, from which the job is to resume without logs, do not fit together", l.Base)}
}

// only returns the checkpoints that the job resumes from.
func (l *groupLine) only(known []supervisor.Stored) []supervisor.Stored {
	return slices.DeleteFunc(known, func(k supervisor.Stored) bool { return k.Number != l.Base[k.Group] })
}

// noteLine writes d.line, and does what follows from it.
func (d *driver) noteLine() error {
	if err := writeLine(d.job, d.line); err != nil || !d.line.Unlogged {
		return err
	}
	return d.resetLogs()
}

// resetLogs removes what lies behind the checkpoints that the job resumes from, after
// that was noted: newer checkpoints, and all that was logged. The next frame of a log
// has the number at which the checkpoint was taken. A run that was cut short here is
// taken up again by the next.
func (d *driver) resetLogs() error {
	numbers, err := d.job.Checkpoints()
	if err != nil {
		return err
	}
	base := d.line.Base
	newer := slices.DeleteFunc(numbers, func(n int) bool { return n <= base[(n-1)%len(base)] })
	slices.Reverse(newer)
	if err := d.forget(newer); err != nil {
		return err
	}
	for g, number := range base {
		first := make(map[int]uint64)
		if number > 0 {
			m, err := d.job.Manifest(number)
			if err != nil {
				return err
			}
			for _, r := range m.Ranks {
				first[r.Rank] = r.LogFrom
			}
		}
		for _, rank := range d.groups[g].ranks {
			id := msglog.ID{Job: d.job.Name(), Rank: rank}
			if err := msglog.Reset(d.fs, logDir(d.job, rank), id, msglog.LSN(max(1, first[rank]))); err != nil {
				return err
			}
		}
	}
	d.line.Unlogged = false
	return writeLine(d.job, d.line)
}

// knownOf describes the checkpoints of a job to its protocol.
func knownOf(found [][]*image.Manifest) ([]supervisor.Stored, error) {
	var known []supervisor.Stored
	for g, list := range found {
		for _, m := range list {
			v, err := vectorsOf(m)
			if err != nil {
				return nil, err
			}
			known = append(known, supervisor.Stored{Group: g, Number: m.Number, Iter: int(m.Iteration), Vectors: v})
		}
	}
	return known, nil
}

// checkWithoutLog refuses to do without logs where there are none.
func (s *Spec) checkWithoutLog() error {
	kind, err := s.log()
	if err != nil {
		return err
	}
	if len(s.groups(s.Mapping)) < 2 || kind == channel.None {
		return &UsageError{"the job logs no messages: there is no log to do without", "leave --without-log out"}
	}
	return nil
}
