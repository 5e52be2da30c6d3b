package coordinator

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"ckpt/coordinator/app"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/internal/vfs"
	"ckpt/zones"
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
func Launch(ctx context.Context, spec Spec, opt Options) (*Result, error) {
	return attend(opt, func(opt Options) (*Result, error) { return begin(ctx, spec, opt) })
}

func begin(ctx context.Context, spec Spec, opt Options) (*Result, error) {
	if err := checkRun(&spec, opt); err != nil {
		return nil, err
	}
	for _, note := range []string{spec.oneGroup(), spec.fewerAggregators()} {
		if note != "" {
			opt.Observer.Warn(note)
		}
	}
	if opt.Job != "" {
		if err := image.CheckJobName(opt.Job); err != nil {
			return nil, &UsageError{Text: err.Error()}
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
	text, err := spec.encode()
	if err != nil {
		return nil, err
	}
	job, err := createJob(opt.fileSystem(), store, opt.Job, spec.App, text)
	if err != nil {
		return nil, err
	}
	defer job.Unlock()
	return runJob(ctx, spec, job, store, spec.Mapping, library, nil, opt)
}

// createJob makes the job, under a free name like bt.S.4-1 if none is given: the
// first, unless some in between have gone.
func createJob(fsys vfs.FS, store *image.Store, name, app string, spec []byte) (*image.Job, error) {
	if name != "" {
		return store.TakeOverJob(name, spec, func(job *image.Job) error { return forsake(fsys, job) })
	}
	numbered := func(i int) string { return fmt.Sprintf("%s-%d", app, i) }
	first, err := firstFree(func(i int) (bool, error) {
		_, err := store.Job(numbered(i))
		if errors.Is(err, image.ErrJobNotFound) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return nil, err
	}
	for i := first; ; i++ {
		job, err := store.CreateJob(numbered(i), spec)
		// In use is one that somebody else is creating this moment.
		if !errors.Is(err, image.ErrJobExists) && !errors.Is(err, image.ErrInUse) {
			return job, err
		}
	}
}

// firstFree returns a number from 1 that is free and has none before it or one that
// is taken. It asks for few of them, however many are taken.
func firstFree(free func(i int) (bool, error)) (int, error) {
	taken, end := 0, 1
	for {
		is, err := free(end)
		if err != nil {
			return 0, err
		}
		if is {
			break
		}
		taken, end = end, 2*end
	}
	for taken+1 < end {
		mid := (taken + end) / 2
		is, err := free(mid)
		if err != nil {
			return 0, err
		}
		if is {
			end = mid
		} else {
			taken = mid
		}
	}
	return end, nil
}

// RestartOptions say how to continue a job.
type RestartOptions struct {
	Options
	Checkpoint  int // 0: the newest
	Mapping     func(np int) (Mapping, error)
	AutoRestart bool // besides what the job was launched with
	// WithoutLog has a job of several groups resume from the newest checkpoints that
	// fit together without what the message logs hold, which is removed: a *LogError
	// tells which ones they are.
	WithoutLog bool
}

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
	job, err := store.Job(opt.Job)
	if err != nil {
		return nil, err
	}
	if err := job.Lock(); err != nil {
		return nil, err
	}
	defer job.Unlock()
	spec, err := specOf(job)
	if err == nil {
		err = checkDescription(job)
	}
	if err != nil {
		return nil, err
	}
	if err := spec.checkRunnable(job); err != nil {
		return nil, err
	}
	spec.AutoRestart = spec.AutoRestart || opt.AutoRestart
	was, mapping := spec.Mapping, spec.Mapping
	if opt.Mapping != nil {
		if mapping, err = opt.Mapping(spec.NP); err != nil {
			return nil, err
		}
	}
	spec.Mapping = mapping
	if err := checkRun(spec, opt.Options); err != nil {
		return nil, err
	}
	library, err := identifySelf()
	if err != nil {
		return nil, err
	}
	if err := spec.checkRestart(was, opt.Checkpoint); err != nil {
		return nil, err
	}
	if opt.withoutLog = opt.WithoutLog; opt.WithoutLog {
		if err := spec.checkWithoutLog(); err != nil {
			return nil, err
		}
	}
	from, err := chooseCheckpoint(job, spec, opt.Checkpoint)
	if err != nil {
		return nil, err
	}
	if from == nil { // there are message logs, perhaps
		return runJob(ctx, *spec, job, store, mapping, library, nil, opt.Options)
	}
	if from.Library != nil && from.Library.Blake3 != library.digest {
		return nil, &foreignBinaryError{from.Number}
	}
	return runJob(ctx, *spec, job, store, mapping, library, from, opt.Options)
}

// chooseCheckpoint reads the manifest of checkpoint n, 0 for the newest. A
// damaged newest one is not silently passed over. With several groups it is the
// newest that can be read, nil if there is none: the recovery line tells more.
func chooseCheckpoint(job *image.Job, spec *Spec, n int) (*image.Manifest, error) {
	groups := spec.groups(spec.Mapping)
	if len(groups) > 1 {
		return newestReadable(job, spec, groups)
	}
	if n == 0 {
		var err error
		if n, err = job.Latest(); err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, &noCheckpointError{job.Name()}
		}
	}
	m, err := job.Manifest(n)
	if err != nil {
		return nil, err
	}
	return m, spec.checkTaken(job, m, groups)
}

// A noCheckpointError says that a job cannot be continued from anywhere.
type noCheckpointError struct{ job string }

func (e *noCheckpointError) Error() string {
	return fmt.Sprintf("job %s: %v: it has none", e.job, image.ErrCheckpointNotFound)
}

func (e *noCheckpointError) Is(target error) bool { return target == image.ErrCheckpointNotFound }

// Hint says how to go on.
func (e *noCheckpointError) Hint() string {
	return fmt.Sprintf("ckpt launch APP --job %s begins it again", e.job)
}

func newestReadable(job *image.Job, spec *Spec, groups [][]int) (*image.Manifest, error) {
	numbers, err := job.Checkpoints()
	for _, n := range slices.Backward(numbers) {
		m, err := job.Manifest(n)
		if err == nil {
			err = spec.checkTaken(job, m, groups)
		}
		if err == nil || !unrestorable(err) {
			return m, err
		}
	}
	return nil, err
}

func checkRun(spec *Spec, opt Options) error {
	if err := spec.check(); err != nil {
		return err
	}
	if _, err := newLauncher(spec); err != nil {
		return err
	}
	if err := checkMemory(spec); err != nil {
		return err
	}
	for _, f := range opt.Failures {
		if err := f.check(spec); err != nil {
			return err
		}
	}
	return checkApp(spec)
}

// reserved are the names of the regions that are not arrays of a workload.
var reserved = []string{pendingRegion, libraryRegion, "segment"}

// checkApp refuses an application that no rank could set up. It allocates the
// memory of one rank without touching it.
func checkApp(spec *Spec) error {
	inst, err := spec.instance()
	if err != nil {
		return err
	}
	for _, a := range inst.Arrays {
		if slices.Contains(reserved, a.Name) {
			return &UsageError{fmt.Sprintf("workload %s: array %q has a name that ckpt uses itself", inst.Name, a.Name), "rename the array"}
		}
	}
	mem := mpi.NewMemory()
	defer mem.Close()
	_, err = app.New(inst, 0, func(name string, elem zones.Elem, bytes int64) ([]byte, error) {
		return mem.Alloc(name, zones.Data, elem, bytes)
	})
	if mpi.Shortage(err) {
		return err // the class may be right
	}
	if err != nil {
		return &UsageError{err.Error(), "choose another class or number of ranks, or correct the workload"}
	}
	return nil
}

func runJob(ctx context.Context, spec Spec, job *image.Job, store *image.Store, mapping Mapping, library libraryID, from *image.Manifest, opt Options) (*Result, error) {
	limits := opt.Limits
	if limits == (protocol.Limits{}) {
		limits = protocol.DefaultLimits
	}
	d := newDriver(spec, job, store.Dir(), mapping, library, limits, opt.Observer)
	launcher, err := newLauncher(&spec)
	if err != nil {
		return nil, err
	}
	d.launcher, d.watch = knownTo(launcher, opt.alive, job.Name()), opt.watch
	d.fs, d.stopOnFull, d.withoutLog = opt.fileSystem(), opt.StopOnFull, opt.withoutLog
	if opt.Log != nil {
		d.log = opt.Log
	}
	result, err := d.drive(ctx, from, opt.Failures, opt.Interrupts)
	if d.result.began {
		// A restart that never came to compute leaves the last result alone.
		outcome, digest := StateInterrupted, ""
		if result != nil {
			outcome, digest = result.Outcome, result.Digest
		}
		recordEnding(job.Dir(), outcome, digest, err)
	}
	return result, err
}

// program is the file whose content is the library zone. Tests of stored jobs name a
// small one, so that a store of before fits another build.
var program = self

// identifySelf digests the binary that the ranks will run.
func identifySelf() (libraryID, error) {
	f, err := os.Open(program)
	if err != nil {
		return libraryID{}, err
	}
	defer f.Close()
	h := blake3.New()
	n, err := io.Copy(h, f)
	return libraryID{hex.EncodeToString(h.Sum(nil)), n}, err
}
