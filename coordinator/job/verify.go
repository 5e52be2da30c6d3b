package job

import (
	"errors"
	"io/fs"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
)

// VerifyLogs reads the message logs of a job that has any, and whatever says which
// of them are needed. It returns how many bytes these are, and what is wrong.
func VerifyLogs(job *image.Job) (bytes int64, damage []*durable.DamageError, err error) {
	spec, err := ReadSpec(job)
	if err != nil || spec.Origin != "" {
		return 0, nil, err
	}
	groups := spec.Groups(spec.Mapping)
	kind, err := spec.LogKind()
	if err != nil || len(groups) == 1 || !kind.Logs() {
		return 0, nil, err
	}
	for i := 1; ; i++ {
		before, _ := ReadBaseline(job, len(groups)) // what is wrong with it, verifyLogs says
		bytes, damage, err = verifyLogs(job, spec, groups)
		// A job that runs cuts its logs and gives checkpoints up meanwhile, after it
		// has said so.
		after, _ := ReadBaseline(job, len(groups))
		if err != nil || len(damage) == 0 || i == attempts || before.same(&after) {
			return bytes, damage, err
		}
	}
}

func verifyLogs(job *image.Job, spec *Spec, groups [][]int) (bytes int64, damage []*durable.DamageError, err error) {
	note := func(file string, err error) {
		d := new(durable.DamageError)
		if !errors.As(err, &d) {
			d = &durable.DamageError{File: file, Reason: err.Error()}
		}
		damage = append(damage, d)
	}
	noted, err := ReadBaseline(job, len(groups))
	if err != nil {
		note(filepath.Join(job.Dir(), baselineName), err)
	}
	stored, err := ReadStored(job, spec, groups, noted.Base)
	if err != nil {
		return 0, nil, err
	}
	known := len(stored.Passed)
	stored.Miss(&noted)
	for _, err := range stored.Passed[known:] { // the others are told of with their checkpoints
		note(job.Dir(), err)
	}
	for g, ranks := range groups {
		for _, rank := range ranks {
			dir := LogDir(job, rank)
			files, err := job.FS().ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, nil, err
			}
			for _, f := range files {
				if info, err := f.Info(); err == nil {
					bytes += info.Size()
				}
			}
			if noted.FromScratch() {
				continue // they are empty, or will be before anybody reads them
			}
			if err := checkLog(job, spec, ranks, rank, stored.Found[g]); err != nil {
				note(dir, err)
			}
		}
	}
	return bytes, damage, nil
}
