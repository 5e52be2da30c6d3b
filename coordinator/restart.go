package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
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
	spec = opt.instead(spec)
	if err := cmp.Or(spec.CheckRunnable(j), launch.CheckStore(opt.fileSystem(), dir, &spec.Spec), levels.CheckNext("", spec.Next)); err != nil {
		return nil, err
	}
	opt.fallBack = opt.Checkpoint == 0 && !opt.Exact
	if err := levels.Nearest(ctx, opt.fileSystem(), j, spec, opt.Checkpoint, !opt.fallBack, opt.Observer.Warn); err != nil {
		return nil, err
	}
	if spec.Lone() {
		return resumeDMTCP(ctx, spec, j, opt)
	}
	if opt.inventory, err = levels.TakeInventory(ctx, spec, j, opt.Listen != "", opt.Observer.Warn); err != nil {
		return nil, err
	}
	if opt.inventory != nil {
		opt.levels = opt.inventory.Levels
	}
	spec = opt.withoutForeign(spec)
	var r *Result
	err = opt.inventory.WithNewest(opt.Checkpoint, func() error {
		if spec.Program != nil {
			r, err = resumeProgram(ctx, spec, j, opt)
		} else {
			r, err = resumeRanks(ctx, spec, j, opt)
		}
		return err
	})
	return r, err
}

// resumeRanks continues a job of simulated ranks.
func resumeRanks(ctx context.Context, spec *job.Resolved, j *image.Job, opt RestartOptions) (*Result, error) {
	if err := job.CheckCombinations(opt.lookup(spec, spec.Mapping)); err != nil {
		return nil, err
	}
	if spec, again, r, err := opt.recut(ctx, spec, j); r != nil || err != nil {
		return r, err
	} else if again {
		return resumeRanks(ctx, spec, j, opt)
	}
	stored, was := spec, spec.Mapping
	again, err := opt.onRanks(spec, j)
	if err != nil {
		return nil, err
	}
	if spec, err = checkRun(levels.Fit(again, opt.Observer.Warn), opt.Options); err != nil {
		return nil, err
	}
	spec.Continue(stored)
	library, err := identifySelf()
	if err != nil {
		return nil, err
	}
	if err := job.CheckCombinations(opt.lookup(spec, was)); err != nil {
		return nil, err
	}
	opt.withoutLog = opt.WithoutLog
	from, err := opt.choose(j, spec)
	if err != nil {
		return nil, err
	}
	if from != nil && from.Library != nil && from.Library.Blake3 != library.digest {
		return nil, &job.OtherBuildError{Checkpoint: from.Number}
	}
	d, err := opt.simulated(spec, j, library)
	if err != nil {
		return nil, err
	}
	return d.drive(ctx, from, opt.Failures, opt.Interrupts) // without a checkpoint there are message logs, perhaps
}

// cutTries is how often a job resumes to be cut.
const cutTries = 5

// recut deals a job of several groups to other ranks, or to other groups, if that is asked for:
// all groups resume, go on to one iteration, store there and stop; the job then restarts from
// these checkpoints. A result is of a job that ended before.
func (o *RestartOptions) recut(ctx context.Context, spec *job.Resolved, j *image.Job) (now *job.Resolved, dealt bool, r *Result, err error) {
	if spec.Mode == job.Coordinated {
		return spec, false, nil, nil
	}
	next, err := o.onOthers(spec)
	if err != nil || next == nil {
		return spec, false, nil, err
	}
	if o.Checkpoint != 0 {
		return spec, false, nil, job.Clash(job.ClashCut, wording.Sprintf("checkpoint %d on other groups", o.Checkpoint), "")
	}
	// Logs may replay messages of iterations after the cut. They are received some iterations later.
	cut, at, err := job.FindCut(ctx, j, spec)
	for try := 0; err == nil && cut == nil && try < cutTries; try++ {
		var users bool
		if r, users, err = o.halt(ctx, spec, j, at); err != nil || users || r.Outcome != job.StateStopped {
			if err == nil && r.Outcome == job.StateCompleted {
				r.Interrupted = false
				o.Observer.Warn(fmt.Sprintf("the job has completed on %d ranks before it could go on with %d", spec.NP, next.NP))
			}
			return spec, false, r, err
		}
		cut, at, err = job.FindCut(ctx, j, spec)
	}
	if err == nil && cut == nil {
		err = job.Clash(job.ClashMessages, wording.Sprintf("{np} %d: the checkpoints of the groups of job %s", next.NP, j.Name()), "")
	}
	if err == nil {
		err = job.Deal(j, spec, next, cut)
	}
	if err != nil {
		return spec, false, nil, err
	}
	now, err = job.ReadSpec(j)
	return now, true, nil, err
}

// onOthers describes the job on the ranks, and in the groups, that are asked for; nil if they are
// as they were.
func (o *RestartOptions) onOthers(spec *job.Resolved) (*job.Resolved, error) {
	np := cmp.Or(o.NP, spec.NP)
	mapping, err := spec.Mapping, error(nil)
	switch {
	case o.Mapping != nil:
		mapping, err = o.Mapping(np)
	case np != spec.NP:
		mapping, err = job.EvenMapping(np, min(np, len(spec.Mapping)))
	}
	if err != nil {
		return nil, err
	}
	next, err := checkRun(spec.On(np, mapping), o.Options)
	if err != nil || slices.EqualFunc(next.Groups, spec.Groups, slices.Equal[[]int]) {
		return nil, err
	}
	return next, spec.CheckRanks(nil, np)
}

// halt resumes a job as it was, and stops it as soon as all groups have stored at one
// iteration, not before the given one. It reports whether the user has stopped it.
func (o RestartOptions) halt(ctx context.Context, spec *job.Resolved, j *image.Job, at int) (*Result, bool, error) {
	asked := make(chan struct{}, 2)
	asked <- struct{}{}
	user, over := o.Interrupts, make(chan struct{})
	defer close(over)
	var users atomic.Bool
	go func() {
		for {
			select {
			case <-user:
				if users.Swap(true) { // the first waits for the stop that is under way
					asked <- struct{}{}
				}
			case <-over:
				return
			}
		}
	}()
	o.NP, o.Mapping, o.Failures, o.Interrupts, o.halts, o.haltsAt = 0, nil, nil, asked, true, at
	r, err := resumeRanks(ctx, spec, j, o)
	return r, users.Load(), err
}

// lookup tells what the restart of a job asks for that was on some mapping.
func (o *RestartOptions) lookup(spec *job.Resolved, was job.Mapping) job.Lookup {
	of := spec.Lookup("")
	return func(name string) (value string, given bool) {
		switch name {
		case "chdir":
			return o.Dir, o.Dir != ""
		case "command":
			return "", len(o.Command) > 0
		case "without-log":
			return "", o.WithoutLog
		case "exact":
			return "", o.Exact
		case "checkpoint":
			return strconv.Itoa(o.Checkpoint), o.Checkpoint != 0
		case "other-map":
			return spec.Mapping.String(), spec.Mapping.String() != was.String()
		case "other-np":
			return strconv.Itoa(o.NP), o.NP > 0 && o.NP != spec.NP
		}
		return of(name)
	}
}

// choose returns the checkpoint to continue from, wherever it is.
func (o *RestartOptions) choose(j *image.Job, spec *job.Resolved) (*image.Manifest, error) {
	passed := o.passed()
	if spec.Several() {
		passed = func(error) {} // the recovery line tells more
	}
	m, err := o.inventory.Choose(o.Checkpoint, passed)
	if m == nil && err == nil {
		m, err = job.ChooseCheckpoint(j, spec, o.Checkpoint, passed)
	}
	if unseen := o.inventory.Unseen(m); err == nil && unseen != nil {
		if o.Exact {
			return nil, unseen
		}
		o.warnOnce(fmt.Errorf("%w: the job continues from checkpoint %d", unseen, m.Number))
	}
	return m, o.levels.Explain(o.Checkpoint, err)
}

// passed is told why checkpoints are passed over for an earlier one; it is nil where only the
// newest will do.
func (o *RestartOptions) passed() func(error) {
	if !o.fallBack {
		return nil
	}
	return o.warnOnce
}

func (o *RestartOptions) warnOnce(err error) {
	if text := err.Error(); !slices.Contains(o.told, text) {
		o.told = append(o.told, text)
		o.Observer.Warn(text)
	}
}

// onRanks describes the run that continues a job of simulated ranks: on as many as the
// checkpoint is of, unless another number is asked for.
func (o *RestartOptions) onRanks(spec *job.Resolved, j *image.Job) (job.Spec, error) {
	again := spec.Spec
	again.AutoRestart = again.AutoRestart || o.AutoRestart
	np, from := cmp.Or(o.NP, spec.NP), (*image.Manifest)(nil)
	if spec.AnyRanks() {
		var err error
		if from, err = o.choose(j, spec); err != nil {
			return again, err
		}
		np = cmp.Or(o.NP, from.NP)
	}
	if np != spec.NP || from != nil && np != from.NP {
		if err := spec.CheckRanks(from, np); err != nil {
			return again, err
		}
	}
	again = again.OnRanks(np)
	var err error
	switch {
	case o.Mapping != nil:
		again.Mapping, err = o.Mapping(np)
	case np != spec.NP && np == from.NP:
		again.Mapping = from.Mapping
	case np != spec.NP:
		again.Mapping, err = job.EvenMapping(np, min(np, len(from.Mapping)))
	}
	return again, err
}

// runNew runs a job that was just made. A launch that is refused leaves no job.
func (d *driver) runNew(ctx context.Context, opt Options) (*Result, error) {
	r, err := d.drive(ctx, nil, opt.Failures, opt.Interrupts)
	if errors.As(err, new(*job.RefusedError)) {
		_, _, rerr := d.job.Remove()
		err = errors.Join(err, rerr)
	}
	return r, err
}

// withoutForeign leaves the nodes out of a restart if their directories belong to another
// job by now, as in a copied store, and hold nothing of this one.
func (o *RestartOptions) withoutForeign(spec *job.Resolved) *job.Resolved {
	err := o.inventory.Foreign()
	if err == nil {
		return spec
	}
	o.Observer.Warn(fmt.Sprintf("checkpoints go to the store at once: %v", err))
	o.inventory = nil
	again := *spec
	again.Tier = nil
	return &again
}

// instead describes the job with what takes the place of its settings in this run.
func (o *RestartOptions) instead(spec *job.Resolved) *job.Resolved {
	again := *spec
	if o.StorageTurns != nil {
		again.StorageTurns = *o.StorageTurns
	}
	if o.Next != nil {
		again.Next = o.Next
	}
	return &again
}
