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
type missingError struct{ what string }

func (e *missingError) Error() string { return "missing from the recovery line: " + e.what }

func (e *missingError) Is(target error) bool { return target == image.ErrCheckpointNotFound }

// Hint says how to go on.
func (e *missingError) Hint() string {
	return "put it back from a copy of the store; without it, the job has to be launched again"
}

// checkStored looks whether the files of a checkpoint on the line are there, in
// full length, and whether the logs behind it can be read.
func (l *StoredLine) checkStored(job *image.Job, g int, found []*image.Manifest, number int) error {
	from := make(map[int]uint64)
	if i := slices.IndexFunc(found, func(m *image.Manifest) bool { return m.Number == number }); i >= 0 {
		for _, f := range found[i].Files {
			path := filepath.Join(job.Dir(), f.Path)
			info, err := vfs.OS{}.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return &missingError{fmt.Sprintf("%s, which checkpoint %d needs", path, number)}
			case err != nil:
				return err
			case info.Size() != f.Bytes:
				return &image.DamageError{File: path, Offset: min(info.Size(), f.Bytes), Reason: fmt.Sprintf("it has %d bytes, checkpoint %d says %d", info.Size(), number, f.Bytes)}
			}
		}
		for _, r := range found[i].Ranks {
			from[r.Rank] = r.LogFrom
		}
	}
	if l.Single() || !l.Log.Logs() {
		return nil
	}
	for _, rank := range l.Groups[g] {
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
		return &missingError{fmt.Sprintf("%s, the message log of rank %d", logDir(job, rank), rank)}
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
