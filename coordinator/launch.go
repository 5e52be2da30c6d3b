package coordinator

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// Options are what a run needs besides the description of the job.
type Options struct {
	Store    string // directory
	Job      string // name; Launch makes one up if it is empty
	Failures []Failure
	Limits   protocol.Limits // zero: protocol.DefaultLimits
	Observer Observer
	Log      *slog.Logger // of the coordinator's actions; nil for none
	// Interrupts asks the run to stop: the first after a last checkpoint, the
	// second at once, with a *LeftError if the store blocks it.
	Interrupts <-chan struct{}
	// StopOnFull ends the run when a checkpoint is given up because the storage
	// is full; otherwise that checkpoint is skipped. The error answers to
	// durable.ErrStorageFull.
	StopOnFull bool
	// FS holds the store; nil is the machine's.
	FS vfs.FS

	watch func(protocol.Action)
	alive *processes    // of the run; may be nil
	grace time.Duration // of tests, if longer than endGrace

	withoutLog bool
}

func (o Options) fileSystem() vfs.FS {
	if o.FS == nil {
		return vfs.OS{}
	}
	return o.FS
}

// Launch runs a new job to its end.
func Launch(ctx context.Context, spec job.Spec, opt Options) (*Result, error) {
	return attend(opt, func(opt Options) (*Result, error) { return begin(ctx, spec, opt) })
}

func begin(ctx context.Context, spec job.Spec, opt Options) (*Result, error) {
	resolved, err := checkRun(spec, opt)
	if err != nil {
		return nil, err
	}
	for _, note := range []string{resolved.OneGroup(), resolved.FewerAggregators()} {
		if note != "" {
			opt.Observer.Warn(note)
		}
	}
	if opt.Job != "" {
		if err := image.CheckJobName(opt.Job); err != nil {
			return nil, &job.UsageError{Text: err.Error()}
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
	store, err := image.CreateStore(opt.fileSystem(), dir)
	if err != nil {
		return nil, err
	}
	text, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	job, err := createJob(opt.fileSystem(), store, opt.Job, spec.App, text)
	if err != nil {
		return nil, err
	}
	defer job.Unlock()
	return runJob(ctx, resolved, job, store, library, nil, opt)
}

func runJob(ctx context.Context, spec *job.Resolved, j *image.Job, store *image.Store, library libraryID, from *image.Manifest, opt Options) (*Result, error) {
	limits := opt.Limits
	if limits == (protocol.Limits{}) {
		limits = protocol.DefaultLimits
	}
	d := newDriver(spec, j, store.Dir(), library, limits, opt.Observer)
	launcher, err := launch.New(spec.Launcher, spec.NP)
	if err != nil {
		return nil, err
	}
	d.launcher, d.watch = knownTo(launcher, opt.alive, j.Name()), opt.watch
	d.stopOnFull, d.withoutLog = opt.StopOnFull, opt.withoutLog
	if opt.Log != nil {
		d.log = opt.Log
	}
	result, err := d.drive(ctx, from, opt.Failures, opt.Interrupts)
	if d.result.began {
		// A restart that never came to compute leaves the last result alone.
		outcome, digest := job.StateInterrupted, ""
		if result != nil {
			outcome, digest = result.Outcome, result.Digest
		}
		job.RecordEnding(j, outcome, digest, err)
	}
	return result, err
}
