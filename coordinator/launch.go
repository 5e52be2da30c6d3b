package coordinator

import (
	"context"
	"path/filepath"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/image"
)

// Launch runs a new job to its end. The ranks of a program tell how many they are when they
// come.
func Launch(ctx context.Context, spec job.Spec, opt Options) (*Result, error) {
	return attend(opt, func(opt Options) (*Result, error) {
		switch {
		case spec.Program == nil:
			return begin(ctx, spec, opt)
		case spec.Origin != "":
			return beginDMTCP(ctx, spec, opt)
		}
		return beginProgram(ctx, spec, opt)
	})
}

func begin(ctx context.Context, spec job.Spec, opt Options) (*Result, error) {
	resolved, err := checkRun(spec, opt)
	if err != nil {
		return nil, err
	}
	for _, note := range []string{resolved.OneGroup(), resolved.FewerAggregators(), resolved.NoCheckpoints()} {
		if note != "" {
			opt.Observer.Warn(note)
		}
	}
	library, err := identifySelf()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(opt.Store) // ranks run in directories of their own
	if err != nil {
		return nil, err
	}
	if err := checkApart(dir, resolved); err != nil {
		return nil, err
	}
	store, err := image.CreateStore(opt.fileSystem(), dir)
	if err != nil {
		return nil, err
	}
	text, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	j, err := createJob(store, opt.Job, spec.App, text, forsake)
	if err != nil {
		return nil, err
	}
	defer j.Unlock()
	d, err := opt.simulated(resolved, j, store, library)
	if err != nil {
		return nil, err
	}
	return d.runNew(ctx, opt)
}

// simulated returns the driver of a job of simulated ranks.
func (o Options) simulated(spec *job.Resolved, j *image.Job, store *image.Store, library libraryID) (*driver, error) {
	launcher, err := launch.New(spec.Launcher, spec.NP)
	if err != nil {
		return nil, err
	}
	d := o.newDriver(spec, j, store, library)
	d.run(&processes{launcher, d}, o.alive)
	return d, nil
}

// forsake ends what an earlier job of the same name has left.
func forsake(j *image.Job) error { return job.Forsake(j) }
