package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/internal/durable"
)

// LogsDir is the directory of the message logs of a job, LogDir that of a rank.
func LogsDir(job *image.Job) string { return filepath.Join(job.Dir(), "logs") }

func LogDir(job *image.Job, rank int) string {
	return filepath.Join(LogsDir(job), fmt.Sprintf("rank-%d", rank))
}

// LogID says whose the message log of a rank is.
func LogID(job *image.Job, rank int) (msglog.ID, error) {
	digest, err := job.Digest()
	return msglog.ID{Job: job.Name(), Rank: rank, Digest: digest}, err
}

func OpenLog(job *image.Job, rank int) (*msglog.Log, error) {
	id, err := LogID(job, rank)
	if err != nil {
		return nil, err
	}
	log, _, err := msglog.Open(job.FS(), LogDir(job, rank), id, msglog.Options{})
	return log, err
}

// readLog opens the message log of a rank from a frame on.
func readLog(job *image.Job, rank int, from uint64) (*msglog.Reader, msglog.Recovery, error) {
	id, err := LogID(job, rank)
	if err != nil {
		return nil, msglog.Recovery{}, err
	}
	return msglog.OpenReader(job.FS(), LogDir(job, rank), id, from)
}

// EmptyLogs removes what an earlier history has left in the message logs of ranks.
func EmptyLogs(job *image.Job, ranks []int) error {
	for _, rank := range ranks {
		dir := LogDir(job, rank)
		files, err := job.FS().ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := job.FS().Remove(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
		if err := job.FS().SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Logged returns, by rank and checkpoint, the states in the message logs of a job, for
// supervisor.Config.Logged.
func Logged(ctx context.Context, job *image.Job, spec *Resolved, cfg supervisor.Config) ([]map[int][]channel.Vector, error) {
	all := make([]map[int][]channel.Vector, spec.NP)
	for group, ranks := range cfg.Groups {
		var numbers []int
		if len(cfg.Base) == 0 || cfg.Base[group] == 0 {
			numbers = append(numbers, 0)
		}
		for _, k := range cfg.Known {
			if k.Group == group {
				numbers = append(numbers, k.Number)
			}
		}
		for _, rank := range ranks {
			all[rank] = make(map[int][]channel.Vector)
			for _, n := range numbers {
				states, err := LoggedStates(ctx, job, spec, rank, n)
				if err != nil {
					return nil, fmt.Errorf("message log of rank %d: %w", rank, err)
				}
				all[rank][n] = states
			}
		}
	}
	return all, nil
}

// LoggedStates returns the states that a rank can be put into by replaying its log
// from checkpoint number, 0 the beginning.
func LoggedStates(ctx context.Context, job *image.Job, spec *Resolved, rank, number int) ([]channel.Vector, error) {
	saved, err := spec.InitialChannels(rank)
	if number > 0 && err == nil {
		var m *image.Manifest
		if m, err = job.Manifest(number); err == nil {
			saved, err = ReadChannels(ctx, job, spec, m, rank)
		}
	}
	if err != nil {
		return nil, err
	}
	dir := LogDir(job, rank)
	r, _, err := readLog(job, rank, saved.LogFrom)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it never logged anything
	}
	if err != nil {
		return nil, err
	}
	states, err := saved.Logged(r.Next)
	return states, errors.Join(AsDamage(dir, err), r.Close())
}

// CheckLogs reads the message logs of the ranks of a group from the newest of their
// checkpoints on, from the beginning if there is none.
func CheckLogs(job *image.Job, spec *Resolved, group int, found []*image.Manifest) error {
	for _, rank := range spec.Groups[group] {
		if err := checkLog(job, spec, rank, found); err != nil {
			return err
		}
	}
	return nil
}

// checkLog reads that of one of them, and replays it.
func checkLog(job *image.Job, spec *Resolved, rank int, found []*image.Manifest) error {
	saved, err := spec.InitialChannels(rank)
	if n := len(found); n > 0 && err == nil {
		saved, err = ReadChannels(context.Background(), job, spec, found[n-1], rank)
	}
	if err != nil {
		return err
	}
	dir, from := LogDir(job, rank), saved.LogFrom
	r, rec, err := readLog(job, rank, from)
	if errors.Is(err, fs.ErrNotExist) && from <= 1 {
		return nil // it never logged anything
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &MissingError{What: fmt.Sprintf("%s, the message log of rank %d", dir, rank)}
	}
	if err != nil {
		return fmt.Errorf("message log of rank %d: %w", rank, err)
	}
	if rec.Next < from {
		err = &durable.DamageError{File: dir,
			Reason: fmt.Sprintf("it ends before frame %d, and the checkpoint of rank %d was taken at frame %d", rec.Next, rank, from)}
		return errors.Join(err, r.Close())
	}
	cfg := channel.Config{Kind: saved.Kind, Rank: rank, Size: spec.NP, Group: spec.Groups[spec.GroupOf[rank]]}
	_, _, err = channel.Restore(cfg, saved.State, withoutData(r.Next), nil)
	if err = errors.Join(AsDamage(dir, err), r.Close()); err != nil {
		return fmt.Errorf("message log of rank %d: %w", rank, err)
	}
	return nil
}

// AsDamage calls what no rank writes damage to a message log.
func AsDamage(dir string, err error) error {
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
