package coordinator

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/coordinator/msglog"
	"ckpt/image"
	"ckpt/image/vfs"
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

// readStored reads manifests and lengths of files; whoever restores a checkpoint
// reads the rest. What is older than the base of its group is as good as removed.
func readStored(fsys vfs.FS, job *image.Job, groups int, base []int) (*storedJob, error) {
	numbers, err := job.Checkpoints()
	if err != nil {
		return nil, err
	}
	s := &storedJob{found: make([][]*image.Manifest, groups)}
	for _, n := range numbers {
		if g := (n - 1) % groups; g < len(base) && n < base[g] {
			continue
		}
		m, err := job.Manifest(n)
		if errors.Is(err, image.ErrCheckpointNotFound) {
			continue // removed this moment
		}
		if err == nil && (max(1, m.Groups) != groups || m.Group >= groups) {
			return nil, fmt.Errorf("checkpoint %d is of group %d of %d, the job has %d: %w", n, m.Group, m.Groups, groups, image.ErrOtherJob)
		}
		if err == nil {
			err = checkFiles(fsys, job, m)
		}
		if errors.Is(err, image.ErrCheckpointNotFound) {
			if _, err := job.Manifest(n); errors.Is(err, image.ErrCheckpointNotFound) {
				continue // that is why its files have gone
			}
		}
		if err != nil && groups > 1 && unrestorable(err) {
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
			return &image.DamageError{File: path, Offset: min(info.Size(), f.Bytes), Reason: fmt.Sprintf("it has %d bytes, checkpoint %d says %d", info.Size(), m.Number, f.Bytes)}
		}
	}
	return nil
}

// checkLogs reads the message logs of ranks from the newest of their checkpoints
// on, from the beginning if there is none.
func checkLogs(job *image.Job, ranks []int, found []*image.Manifest) error {
	from := make(map[int]uint64)
	if n := len(found); n > 0 {
		for _, r := range found[n-1].Ranks {
			from[r.Rank] = r.LogFrom
		}
	}
	for _, rank := range ranks {
		if err := checkLog(job, rank, msglog.LSN(from[rank])); err != nil {
			return err
		}
	}
	return nil
}

// checkLog reads the log of a rank from a frame on, 0 for the beginning.
func checkLog(job *image.Job, rank int, from msglog.LSN) error {
	r, rec, err := msglog.OpenReader(vfs.OS{}, logDir(job, rank), msglog.ID{Job: job.Name(), Rank: rank}, from)
	if errors.Is(err, fs.ErrNotExist) && from <= 1 {
		return nil // it never logged anything
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &missingError{what: fmt.Sprintf("%s, the message log of rank %d", logDir(job, rank), rank)}
	}
	if err != nil {
		return fmt.Errorf("message log of rank %d: %w", rank, err)
	}
	if rec.Next < from {
		return errors.Join(&image.DamageError{File: logDir(job, rank),
			Reason: fmt.Sprintf("it ends before frame %d, and the checkpoint of rank %d was taken at frame %d", rec.Next, rank, from)}, r.Close())
	}
	for err == nil {
		_, _, err = r.Next()
	}
	if errors.Is(err, io.EOF) {
		return r.Close()
	}
	return fmt.Errorf("message log of rank %d: %w", rank, errors.Join(err, r.Close()))
}
