package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A missingError says that something is not there that a recovery line needs.
type missingError struct {
	what  string
	cause error // damage that is behind it; may be nil
}

func (e *missingError) Error() string {
	text := "missing from the recovery line: " + e.what
	if e.cause != nil {
		text += "; " + e.cause.Error()
	}
	return text
}

func (e *missingError) Is(target error) bool { return target == image.ErrCheckpointNotFound }
func (e *missingError) Unwrap() error        { return e.cause }

// Hint says how to go on.
func (e *missingError) Hint() string {
	return "put it back from a copy of the store; without it, the job has to be launched again"
}

// A storedJob is what the store holds of a job of several groups.
type storedJob struct {
	// found are the manifests of each group, oldest first, of the checkpoints that
	// it can go back to.
	found [][]*image.Manifest
	// passed says which checkpoints it passes over, for they are missing or
	// damaged: each group keeps a spare one.
	passed     []error
	unreadable []int // their numbers
}

// anew reports whether the job begins again, whatever is left of its checkpoints and
// logs: somebody has begun to remove them.
func (l *groupLine) anew() bool { return slices.Contains(l.Base, -1) }

// miss adds to what was passed over the newest checkpoint of each group, if it has
// gone without a trace. If the job begins anew, nothing is missed, and found is nil.
func (s *storedJob) miss(l *groupLine) {
	if l.anew() {
		s.found = nil
		return
	}
	for g, n := range l.Taken {
		if g >= len(s.found) || n <= 0 || slices.Contains(s.unreadable, n) ||
			slices.ContainsFunc(s.found[g], func(m *image.Manifest) bool { return m.Number >= n }) {
			continue
		}
		s.passed = append(s.passed, &missingError{what: fmt.Sprintf("checkpoint %d, which has been taken", n)})
	}
}

// why joins what was passed over: the first says what is wrong.
func (s *storedJob) why() error {
	if n := len(s.passed); n > 2 {
		return fmt.Errorf("%w; and %d more", s.passed[0], n-1)
	}
	return errors.Join(s.passed...)
}

// readStored reads manifests, lengths of files and the states of channels; a rank that
// restores a checkpoint reads the rest. It leaves out checkpoints older than the baseline
// of their group.
func readStored(fsys vfs.FS, job *image.Job, spec *Spec, groups [][]int, base []int) (*storedJob, error) {
	numbers, err := job.Checkpoints()
	if err != nil {
		return nil, err
	}
	s := &storedJob{found: make([][]*image.Manifest, len(groups))}
	for _, n := range numbers {
		if g := (n - 1) % len(groups); g < len(base) && n < base[g] {
			continue
		}
		m, err := readTaken(fsys, job, spec, groups, n)
		if err != nil {
			if _, err := job.Manifest(n); errors.Is(err, image.ErrCheckpointNotFound) {
				continue // removed this moment, its files too
			}
		}
		if err != nil && len(groups) > 1 && unrestorable(err) && !ofDescription(job, err) {
			s.passed = append(s.passed, fmt.Errorf("checkpoint %d is passed over: %w", n, err))
			s.unreadable = append(s.unreadable, n)
			continue
		}
		if err != nil {
			return nil, err
		}
		s.found[m.Group] = append(s.found[m.Group], m)
	}
	return s, nil
}

// readTaken reads checkpoint n as far as readStored does.
func readTaken(fsys vfs.FS, job *image.Job, spec *Spec, groups [][]int, n int) (*image.Manifest, error) {
	m, err := job.Manifest(n)
	if err != nil {
		return nil, err
	}
	if err := spec.checkTaken(job, m, groups); err != nil {
		return nil, err
	}
	if err := checkFiles(fsys, job, m); err != nil {
		return nil, err
	}
	if len(groups) == 1 {
		return m, nil // there are no channels
	}
	for i := range m.Ranks {
		if _, err := readChannels(context.Background(), job, spec, m, m.Ranks[i].Rank); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// ofDescription reports whether the description of the job is damaged: no checkpoint
// makes up for that.
func ofDescription(job *image.Job, err error) bool {
	d := new(durable.DamageError)
	return errors.As(err, &d) && d.File == job.SpecPath()
}

// checkFiles looks whether the files of a checkpoint are there, in full length.
func checkFiles(fsys vfs.FS, job *image.Job, m *image.Manifest) error {
	for _, f := range m.Files {
		path := filepath.Join(job.Dir(), f.Path)
		info, err := fsys.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &missingError{what: fmt.Sprintf("%s, which checkpoint %d needs", path, m.Number)}
		case err != nil:
			return err
		case info.Size() != f.Bytes:
			return &durable.DamageError{File: path, Offset: min(info.Size(), f.Bytes), Reason: fmt.Sprintf("it has %d bytes, checkpoint %d says %d", info.Size(), m.Number, f.Bytes)}
		}
	}
	return nil
}

// checkLogs reads the message logs of the ranks of a group from the newest of their
// checkpoints on, from the beginning if there is none.
func checkLogs(job *image.Job, spec *Spec, ranks []int, found []*image.Manifest) error {
	for _, rank := range ranks {
		if err := checkLog(job, spec, ranks, rank, found); err != nil {
			return err
		}
	}
	return nil
}

// checkLog reads that of one of them, and replays it.
func checkLog(job *image.Job, spec *Spec, group []int, rank int, found []*image.Manifest) error {
	saved, err := spec.initialChannels(rank)
	if n := len(found); n > 0 && err == nil {
		saved, err = readChannels(context.Background(), job, spec, found[n-1], rank)
	}
	if err != nil {
		return err
	}
	dir, from := logDir(job, rank), msglog.LSN(saved.logFrom)
	r, rec, err := msglog.OpenReader(vfs.OS{}, dir, msglog.ID{Job: job.Name(), Rank: rank}, from)
	if errors.Is(err, fs.ErrNotExist) && from <= 1 {
		return nil // it never logged anything
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &missingError{what: fmt.Sprintf("%s, the message log of rank %d", dir, rank)}
	}
	if err != nil {
		return fmt.Errorf("message log of rank %d: %w", rank, err)
	}
	if rec.Next < from {
		err = &durable.DamageError{File: dir,
			Reason: fmt.Sprintf("it ends before frame %d, and the checkpoint of rank %d was taken at frame %d", rec.Next, rank, from)}
		return errors.Join(err, r.Close())
	}
	cfg := channel.Config{Kind: saved.Kind, Rank: rank, Size: spec.NP, Group: group}
	_, _, err = channel.Restore(cfg, saved.State, withoutData(r.Next), nil)
	if err = errors.Join(asDamage(dir, err), r.Close()); err != nil {
		return fmt.Errorf("message log of rank %d: %w", rank, err)
	}
	return nil
}

// asDamage calls what no rank writes damage to a message log.
func asDamage(dir string, err error) error {
	if errors.Is(err, channel.ErrCorrupt) || errors.Is(err, mpi.ErrCorrupt) {
		return &durable.DamageError{File: dir, Reason: err.Error()}
	}
	return err
}

// withoutData takes the messages out of frames: a log may be larger than the memory
// of whoever checks it.
func withoutData(next func() (channel.Frame, error)) func() (channel.Frame, error) {
	return func() (channel.Frame, error) {
		f, err := next()
		if f.Kind != channel.Cut {
			f.Message.Data = nil
		}
		return f, err
	}
}
