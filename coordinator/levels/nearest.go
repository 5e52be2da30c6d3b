package levels

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// A Copy is a job as a next store has it.
type Copy struct {
	Store   string
	Job     *image.Job
	Numbers []int // of its checkpoints
}

// CopiesOf opens a job in its next stores. Those that cannot be read are in wrong.
func CopiesOf(fsys vfs.FS, name string, list []image.Next) (copies []Copy, wrong []error) {
	for _, n := range list {
		c := Copy{Store: n.Store}
		store, err := image.OpenStore(fsys, n.Store)
		if err == nil {
			c.Job, err = store.Job(name)
		}
		if err == nil {
			c.Numbers, err = c.Job.Checkpoints()
		}
		switch {
		case err == nil:
			copies = append(copies, c)
		case !errors.Is(err, image.ErrJobNotFound) && !errors.Is(err, image.ErrNoStore):
			wrong = append(wrong, fmt.Errorf("next store %s: %w", n.Store, err))
		}
	}
	return copies, wrong
}

// Bring makes a job that a store lacks from the nearest next store that has it, with its newest
// checkpoint that is sound there, or with checkpoint n.
func Bring(ctx context.Context, fsys vfs.FS, dir, name string, n int, list []image.Next, warn func(string)) error {
	if len(list) == 0 {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	store, err := image.OpenStore(fsys, dir)
	if err == nil {
		err = begun(store, name)
	}
	if !errors.Is(err, image.ErrNoStore) && !errors.Is(err, image.ErrJobNotFound) {
		return nil // what is wrong with it, the restart says
	}
	missing := err
	if err := CheckNext(dir, list); err != nil {
		return err
	}
	copies, wrong := CopiesOf(fsys, name, list)
	numbers := numbersOf(n, copies)
	if len(numbers) == 0 && store != nil {
		if _, err := store.Job(name); err == nil {
			return nil // it restarts from scratch
		}
	}
	if len(numbers) == 0 {
		return errors.Join(append([]error{fmt.Errorf("%w, and no next store has a checkpoint of it", missing)}, wrong...)...)
	}
	for _, c := range copies {
		if err := checkSeal(c.Job, fsys, dir); err != nil {
			return err
		}
	}
	if store, err = image.CreateStore(fsys, dir); err != nil {
		return err
	}
	for _, number := range numbers {
		for _, c := range copies {
			if !slices.Contains(c.Numbers, number) {
				continue
			}
			err = (&image.JobCopy{From: c.Job, To: store, Journal: job.JournalName}).Run(ctx, []int{number})
			if err == nil {
				for _, err := range wrong {
					warn(err.Error())
				}
				warn(fmt.Sprintf("job %s is not in %s: it and its checkpoint %d were copied from next store %s", name, dir, number, c.Store))
				return nil
			}
			wrong = append(wrong, fmt.Errorf("checkpoint %d of next store %s: %w%s", number, c.Store, err, elsewhere(name, c.Store, number, err)))
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return errors.Join(wrong...)
}

// begun fails with image.ErrJobNotFound if a store lacks a job, or has no more than the beginning
// of a copy: its history comes after a checkpoint.
func begun(store *image.Store, name string) error {
	j, err := store.Job(name)
	if err != nil {
		return err
	}
	all, err := j.Checkpoints()
	_, jerr := j.FS().Stat(filepath.Join(j.Dir(), job.JournalName))
	if err == nil && len(all) == 0 && errors.Is(jerr, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s in %s", image.ErrJobNotFound, name, store.Dir())
	}
	return nil
}

// elsewhere says how a job continues from a checkpoint that its store does not take for a day.
func elsewhere(name, next string, number int, err error) string {
	if !errors.Is(err, vfs.ErrForbidden) {
		return ""
	}
	return wording.Sprintf("; {restart %s} with another {store}, and {next} '%s', continues from checkpoint %d", name, next, number)
}

// numbersOf lists the checkpoints of copies, newest first, or n if one has it.
func numbersOf(n int, copies []Copy) (numbers []int) {
	for _, c := range copies {
		numbers = append(numbers, c.Numbers...)
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	return slices.DeleteFunc(slices.Compact(numbers), func(k int) bool { return n > 0 && k != n })
}

// Nearest makes the store whole for a restart from checkpoint n, 0 for the newest. Files that nodes
// and store lack, or have damaged, are read from the nearest next store. If that fails, the next
// older checkpoint takes the place of n, unless exact is set. The caller has locked the job.
func Nearest(ctx context.Context, fsys vfs.FS, j *image.Job, spec *job.Resolved, n int, exact bool, warn func(string)) error {
	if len(spec.Next) == 0 {
		return nil
	}
	copies, wrong := CopiesOf(fsys, j.Name(), spec.Next)
	for _, err := range wrong {
		warn(err.Error())
	}
	copies = slices.DeleteFunc(copies, func(c Copy) bool {
		same, err := c.Job.Store().Same(j.Store())
		return err == nil && same // it has what the store has
	})
	own, err := j.Checkpoints()
	if err != nil || len(copies) == 0 {
		return nil // the restart tells what is wrong with the store
	}
	on, err := job.LevelsOf(ctx, j, spec)
	if err != nil {
		return err
	}
	for _, number := range numbersOf(n, append([]Copy{{Numbers: append(own, onNodes(on)...)}}, copies...)) {
		if v := on.Version(number); v != nil {
			return nil // the nearest
		}
		done, err := mend(ctx, j, slices.Contains(own, number), number, copies, warn)
		if done || err != nil || exact {
			return err
		}
	}
	return nil
}

func onNodes(on *job.Levels) (numbers []int) {
	for _, v := range on.Versions {
		numbers = append(numbers, v.Number)
	}
	return numbers
}

// mend reports whether the store has a checkpoint, all of which it has read and found sound.
func mend(ctx context.Context, j *image.Job, has bool, number int, copies []Copy, warn func(string)) (bool, error) {
	what := "is not in the store"
	if has {
		report, err := j.Verify(ctx, number, nil)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err == nil && len(report.Damage) == 0 {
			return true, nil
		}
		what = "is damaged in the store"
	}
	for _, c := range copies {
		if !slices.Contains(c.Numbers, number) {
			continue
		}
		_, err := j.Mend(ctx, c.Job, number)
		if err == nil {
			warn(fmt.Sprintf("checkpoint %d %s: it was read from next store %s", number, what, c.Store))
			return true, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		warn(fmt.Sprintf("checkpoint %d %s, and could not be read from next store %s: %v%s", number, what, c.Store, err, elsewhere(j.Name(), c.Store, number, err)))
	}
	return false, nil
}

// Has reports whether the job in a next store has a checkpoint.
func Has(copies []Copy, store string, number int) bool {
	return slices.ContainsFunc(copies, func(c Copy) bool { return c.Store == store && slices.Contains(c.Numbers, number) })
}
