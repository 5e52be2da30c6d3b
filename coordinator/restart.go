package coordinator

import (
	"context"
	"path/filepath"

	"ckpt/coordinator/job"
	"ckpt/image"
)

// Restart continues a job from a checkpoint and runs it to its end.
func Restart(ctx context.Context, opt RestartOptions) (*Result, error) {
	return attend(opt.Options, func(attended Options) (*Result, error) {
		opt.Options = attended
		return resume(ctx, opt)
	})
}

func resume(ctx context.Context, opt RestartOptions) (*Result, error) {
	dir, err := filepath.Abs(opt.Store) // ranks run in directories of their own
	if err != nil {
		return nil, err
	}
	store, err := image.OpenStore(opt.fileSystem(), dir)
	if err != nil {
		return nil, err
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		return nil, err
	}
	if err := j.Lock(); err != nil {
		return nil, err
	}
	defer j.Unlock()
	spec, err := job.ReadSpec(j)
	if err == nil {
		err = job.CheckDescription(j)
	}
	if err != nil {
		return nil, err
	}
	if err := spec.CheckRunnable(j); err != nil {
		return nil, err
	}
	if spec.Program != nil {
		return resumeProgram(ctx, spec, j, store, opt)
	}
	was := spec.Mapping
	again, err := opt.onRanks(spec, j)
	if err != nil {
		return nil, err
	}
	if spec, err = checkRun(again, opt.Options); err != nil {
		return nil, err
	}
	library, err := identifySelf()
	if err != nil {
		return nil, err
	}
	if err := spec.CheckRestart(was, opt.Checkpoint); err != nil {
		return nil, err
	}
	if opt.withoutLog = opt.WithoutLog; opt.WithoutLog {
		if err := spec.CheckWithoutLog(); err != nil {
			return nil, err
		}
	}
	from, err := job.ChooseCheckpoint(j, spec, opt.Checkpoint)
	if err != nil {
		return nil, err
	}
	if from == nil { // there are message logs, perhaps
		return runJob(ctx, spec, j, store, library, nil, opt.Options)
	}
	if from.Library != nil && from.Library.Blake3 != library.digest {
		return nil, &job.OtherBuildError{Checkpoint: from.Number}
	}
	return runJob(ctx, spec, j, store, library, from, opt.Options)
}
