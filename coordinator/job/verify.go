package job

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
)

// VerifyLogs reads what a restart reads beside checkpoints: the message logs of a job that has
// any, and whatever says which of them are needed, the lines of output, the result of the last
// run, and of a program its standard input and what its engine keeps. It returns how many bytes the logs are, and what
// is wrong.
func VerifyLogs(job *image.Job) (bytes int64, damage []*durable.DamageError, err error) {
	spec, err := ReadSpec(job)
	if err != nil {
		return 0, nil, err
	}
	beside, err := verifyBeside(job, spec)
	if err != nil || spec.Origin != "" || spec.Program != nil {
		return 0, beside, err
	}
	bytes, damage, err = verifyAllLogs(job, spec)
	return bytes, append(beside, damage...), err
}

// verifyBeside reads the small files.
func verifyBeside(job *image.Job, spec *Resolved) (damage []*durable.DamageError, err error) {
	for _, read := range []func() error{
		func() error { _, err := readEnding(job); return err },
		func() error { _, _, err := OpenOutput(job, spec.NP); return err },
		func() error { _, err := ReadInput(job); return err },
		func() error { return ReadState(job, new(json.RawMessage)) },
	} {
		err := read()
		for i := 1; i < attempts && errors.As(err, new(*durable.DamageError)); i++ {
			err = read() // a job that runs may be writing this moment
		}
		if d := new(durable.DamageError); errors.As(err, &d) {
			damage = append(damage, d)
		} else if err != nil {
			return damage, err
		}
	}
	return damage, nil
}

// verifyAllLogs reads the message logs.
func verifyAllLogs(job *image.Job, spec *Resolved) (bytes int64, damage []*durable.DamageError, err error) {
	if !spec.Several() || !spec.Log.Logs() {
		return 0, nil, nil
	}
	for i := 1; ; i++ {
		before, _ := ReadBaseline(job, len(spec.Groups)) // what is wrong with it, verifyLogs says
		bytes, damage, err = verifyLogs(job, spec)
		// A job that runs cuts its logs and gives checkpoints up meanwhile, after it
		// has said so.
		after, _ := ReadBaseline(job, len(spec.Groups))
		if err != nil || len(damage) == 0 || i == attempts || before.same(&after) {
			return bytes, damage, err
		}
	}
}

func verifyLogs(job *image.Job, spec *Resolved) (bytes int64, damage []*durable.DamageError, err error) {
	note := func(file string, err error) {
		d := new(durable.DamageError)
		if !errors.As(err, &d) {
			d = &durable.DamageError{File: file, Reason: err.Error()}
		}
		damage = append(damage, d)
	}
	noted, err := ReadBaseline(job, len(spec.Groups))
	if err != nil {
		note(filepath.Join(job.Dir(), baselineName), err)
	}
	stored, err := ReadStored(job, spec, noted.Base)
	if err != nil {
		return 0, nil, err
	}
	known := len(stored.Passed)
	stored.Miss(&noted)
	for _, err := range stored.Passed[known:] { // the others are reported with their checkpoints
		note(job.Dir(), err)
	}
	for g, ranks := range spec.Groups {
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
			if err := checkLog(job, spec, rank, stored.Found[g]); err != nil {
				note(dir, err)
			}
		}
	}
	return bytes, damage, nil
}
