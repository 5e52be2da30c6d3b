package coordinator

import (
	"errors"
	"fmt"

	"ckpt/coordinator/job"
	"ckpt/image"
)

// createJob makes the job, under a free name like bt.S.4-1 if none is given: the
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
