package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"ckpt/coordinator/app"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/mpi"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/zones"
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
	if spec.NP > 1 { // else a script that compares numbers of ranks would need other settings
		if err := job.CheckCombinations(resolved.Lookup("one")); err != nil {
			return nil, err
		}
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
	j, err := opt.newJob(spec, forsake)
	if err != nil {
		return nil, err
	}
	defer j.Unlock()
	d, err := opt.simulated(resolved, j, library)
	if err != nil {
		return nil, err
	}
	return d.runNew(ctx, opt)
}

// simulated returns the driver of a job of simulated ranks.
func (o Options) simulated(spec *job.Resolved, j *image.Job, library libraryID) (*driver, error) {
	launcher, err := launch.New(spec.Launcher, spec.NP)
	if err != nil {
		return nil, err
	}
	d := o.newDriver(spec, j, library)
	d.run(&processes{Launcher: launcher, d: d}, o.alive)
	return d, nil
}

// forsake ends what an earlier job of the same name has left.
func forsake(j *image.Job) error { return job.Forsake(j) }

// checkRun resolves a description, and refuses what this machine cannot run.
func checkRun(text job.Spec, opt Options) (*job.Resolved, error) {
	spec, err := text.Resolve()
	if err != nil {
		return nil, err
	}
	if _, err := launch.New(spec.Launcher, spec.NP); err != nil {
		return nil, err
	}
	if opt.Listen == "" { // else other hosts have memory as well
		if err := launch.CheckMemory(spec); err != nil {
			return nil, err
		}
		if err := launch.CheckRoom(spec, opt.fileSystem(), opt.Store); err != nil {
			return nil, err
		}
		if opt.Room != nil && spec.Program == nil {
			if err := opt.Room(spec.NP); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range opt.Failures {
		if err := f.Check(&spec.Spec); err != nil {
			return nil, err
		}
	}
	if spec.Program != nil {
		return spec, nil
	}
	return spec, checkApp(spec)
}

// reserved are the names of the regions that are not arrays of a workload.
var reserved = []string{job.PendingRegion, job.LibraryRegion, "segment"}

// checkApp refuses an application that no rank could set up. It allocates the
// memory of one rank without touching it.
func checkApp(spec *job.Resolved) error {
	inst, err := spec.Instance()
	if err != nil {
		return err
	}
	if inst.Workload.IsProgram() {
		return &job.UsageError{Text: fmt.Sprintf("workload %s describes a program of yours, which ckpt does not simulate", inst.Name),
			Fix: fmt.Sprintf("run it by its command, as in mpiexec -n %d ./%s; or change the kernel to generic, which computes on the same arrays", inst.NP, inst.Name)}
	}
	for _, a := range inst.Arrays {
		if slices.Contains(reserved, a.Name) {
			return &job.UsageError{Text: fmt.Sprintf("workload %s: array %q has a name that ckpt uses itself", inst.Name, a.Name), Fix: "rename the array"}
		}
	}
	err = setsUp(inst)
	if mpi.Shortage(err) {
		return err // the class may be right
	}
	if err != nil {
		return &job.UsageError{Text: err.Error(), Fix: "choose another class or number of ranks" + nearest(spec) + ", or correct the workload"}
	}
	return inst.CheckBlocks()
}

// setsUp sets the first rank of an application up.
func setsUp(inst *dataset.Instance) error {
	mem := mpi.NewMemory()
	defer mem.Close()
	_, err := app.New(inst, 0, func(name string, elem zones.Elem, bytes int64) ([]byte, error) {
		return mem.Alloc(name, zones.Data, elem, bytes)
	})
	return err
}

// nearest names the number of ranks next to a job's that its application can have.
func nearest(spec *job.Resolved) string {
	return dataset.Nearest(spec.NP, func(np int) bool {
		other := spec.Spec
		other.NP = np
		inst, err := other.Evaluate()
		return err == nil && setsUp(inst) == nil
	})
}

// createStore makes the store of a job if need be.
func (o Options) createStore(spec *job.Spec) (*image.Store, error) {
	dir, err := filepath.Abs(o.Store) // ranks, and DMTCP, run in other directories
	if err == nil {
		err = cmp.Or(levels.CheckApart(dir, spec), launch.CheckStore(o.fileSystem(), dir, spec))
	}
	if err != nil {
		return nil, err
	}
	return image.CreateStore(o.fileSystem(), dir)
}

// newJob makes the job of a description, which it locks, and its store if need be. Clear ends
// what a job of that name, without a checkpoint, has left.
func (o Options) newJob(spec job.Spec, clear func(*image.Job) error) (*image.Job, error) {
	store, err := o.createStore(&spec)
	if err != nil {
		return nil, err
	}
	text, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	return createJob(store, o.Job, spec.App, text, clear)
}

// createJob makes the job, under a free name like bt.S.4-1 if name is empty: the
// first, unless some in between have gone. Clear ends what a job of that name, without a
// checkpoint, has left.
func createJob(store *image.Store, name, app string, spec []byte, clear func(*image.Job) error) (*image.Job, error) {
	if name != "" {
		if err := image.CheckJobName(name); err != nil {
			return nil, &job.UsageError{Text: err.Error()}
		}
		return store.TakeOverJob(name, spec, clear)
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

// firstFree returns a number from 1 that is free, and is 1 or follows one that
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

// endGrace is how long a run may take to end after the second interrupt.
const endGrace = 2 * time.Second

// attend carries a run out and passes its interrupts on. After the second one it waits
// for endGrace and no longer, whatever the run is blocked in: then the caller gets a
// *LeftError, and should exit.
func attend(opt Options, run func(Options) (*Result, error)) (*Result, error) {
	if opt.Listen != "" {
		var err error
		if opt.Listen, err = launch.ListenAddress(opt.Listen); err != nil {
			return nil, err
		}
	}
	if opt.Interrupts == nil {
		return run(opt)
	}
	type ending struct {
		result *Result
		err    error
	}
	asked, passed, over := opt.Interrupts, make(chan struct{}, 2), make(chan ending, 1)
	opt.Interrupts, opt.alive = passed, &launch.Account{}
	go func() {
		r, err := run(opt)
		over <- ending{r, err}
	}()
	var late <-chan time.Time
	for n := 0; ; {
		select {
		case e := <-over:
			return e.result, e.err
		case <-asked:
			passed <- struct{}{}
			if n++; n == cap(passed) {
				asked, late = nil, time.After(max(endGrace, opt.grace))
			}
		case <-late:
			return nil, &LeftError{opt.alive.Kill()}
		}
	}
}
