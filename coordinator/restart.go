package coordinator

import (
	"context"
	"path/filepath"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/wording"
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
	if opt.Moved {
		if err := store.Moved(); err != nil {
			return nil, err
		}
	}
	j, spec, err := job.Take(store, opt.Job)
	if err != nil {
		return nil, err
	}
	defer j.Unlock()
	if opt.StorageTurns != nil {
		again := *spec
		again.StorageTurns = *opt.StorageTurns
		spec = &again
	}
	if err := spec.CheckRunnable(j); err != nil {
		return nil, err
	}
	if spec.Lone() {
		return resumeDMTCP(ctx, spec, j, opt)
	}
	if opt.inventory, err = takeInventory(ctx, spec, j, opt.Listen != "", opt.Observer); err != nil {
		return nil, err
	}
	if opt.inventory != nil {
		opt.levels = opt.inventory.levels
	}
	spec = opt.withoutForeign(spec)
	return opt.resumeNewest(func(opt RestartOptions) (*Result, error) {
		if spec.Program != nil {
			return resumeProgram(ctx, spec, j, store, opt)
		}
		return resumeRanks(ctx, spec, j, store, opt)
	})
}

// resumeRanks continues a job of simulated ranks.
func resumeRanks(ctx context.Context, spec *job.Resolved, j *image.Job, store *image.Store, opt RestartOptions) (*Result, error) {
	if opt.Dir != "" {
		return nil, &job.UsageError{Text: wording.Sprintf("{chdir} %s: only programs run in a directory of their own", opt.Dir), Fix: "leave it out"}
	}
	if len(opt.Command) > 0 {
		return nil, &job.UsageError{Text: "only programs that call ckpt are restarted with another command", Fix: "leave out what follows --"}
	}
	was := spec.Mapping
	again, err := opt.onRanks(spec, j)
	if err != nil {
		return nil, err
	}
	if spec, err = checkRun(fitTier(again, opt.Observer), opt.Options); err != nil {
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
	from, err := opt.choose(j, spec)
	if err != nil {
		return nil, err
	}
	if from != nil && from.Library != nil && from.Library.Blake3 != library.digest {
		return nil, &job.OtherBuildError{Checkpoint: from.Number}
	}
	d, err := opt.simulated(spec, j, store, library)
	if err != nil {
		return nil, err
	}
	return d.drive(ctx, from, opt.Failures, opt.Interrupts) // without a checkpoint there are message logs, perhaps
}

// choose returns the checkpoint to continue from, wherever it is.
func (o *RestartOptions) choose(j *image.Job, spec *job.Resolved) (*image.Manifest, error) {
	m, err := o.inventory.choose(o.Checkpoint)
	if m == nil && err == nil {
		m, err = job.ChooseCheckpoint(j, spec, o.Checkpoint)
	}
	if o.inventory != nil && err == nil {
		o.inventory.warnUnseen(m, o.Observer)
	}
	return m, o.levels.Explain(o.Checkpoint, err)
}
