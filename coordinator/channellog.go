package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// logsDir is the directory of the message logs of a job, logDir that of a rank.
func logsDir(job *image.Job) string { return filepath.Join(job.Dir(), "logs") }

func logDir(job *image.Job, rank int) string {
	return filepath.Join(logsDir(job), fmt.Sprintf("rank-%d", rank))
}

func openLog(fsys vfs.FS, job *image.Job, rank int) (*msglog.Log, error) {
	log, _, err := msglog.Open(fsys, logDir(job, rank), msglog.ID{Job: job.Name(), Rank: rank}, msglog.Options{})
	return log, err
}

// emptyLogs removes what an earlier history has left in the message logs of ranks.
func emptyLogs(fsys vfs.FS, job *image.Job, ranks []int) error {
	for _, rank := range ranks {
		dir := logDir(job, rank)
		files, err := fsys.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := fsys.Remove(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// loggedStates returns the states that a rank can be put into by replaying its log
// from checkpoint number, 0 the beginning.
func loggedStates(ctx context.Context, fsys vfs.FS, job *image.Job, spec *Spec, rank, number int) ([]channel.Vector, error) {
	saved, err := spec.initialChannels(rank)
	if number > 0 && err == nil {
		var m *image.Manifest
		if m, err = job.Manifest(number); err == nil {
			saved, err = readChannels(ctx, job, spec, m, rank)
		}
	}
	if err != nil {
		return nil, err
	}
	dir := logDir(job, rank)
	r, _, err := msglog.OpenReader(fsys, dir, msglog.ID{Job: job.Name(), Rank: rank}, msglog.LSN(saved.logFrom))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it never logged anything
	}
	if err != nil {
		return nil, err
	}
	states, err := saved.Logged(r.Next)
	return states, errors.Join(asDamage(dir, err), r.Close())
}
