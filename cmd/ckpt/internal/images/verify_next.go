package images

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// addNext verifies what the next stores of jobs have: all of it, or one checkpoint. It names what
// their record says that they have, and that has gone.
func (r *verifyResult) addNext(ctx context.Context, g *ui.Globals, jobs []verifiedJob, number int) error {
	add, done := g.Progress("verify", 0)
	defer done()
	for i := range jobs {
		j := jobs[i].job
		before, err := levels.ReadNext(j)
		if err != nil {
			r.skip(j.Name(), 0, err)
		}
		list := levels.Known(nil, before)
		if spec, err := job.ReadSpec(j); err == nil { // else the check of logs says what is wrong
			list = levels.Known(spec.Next, before)
		}
		copies, wrong := levels.CopiesOf(vfs.OS{}, j.Name(), list)
		for _, err := range wrong {
			r.skip(j.Name(), number, err)
		}
		for _, c := range copies {
			if same, err := j.Store().Same(c.Job.Store()); err == nil && same {
				continue // the job is verified in a next store
			}
			if err := r.verifyCopy(ctx, j, c, number, add); err != nil {
				return err
			}
		}
		if after, err := levels.ReadNext(j); err == nil && len(wrong) == 0 {
			r.addGone(j, copies, before, after, number)
		}
	}
	return nil
}

// verifyCopy verifies a job in one next store, which may have gone its own way there.
func (r *verifyResult) verifyCopy(ctx context.Context, j *image.Job, c levels.Copy, number int, add func(int64)) error {
	verification := c.Job.Verification()
	for _, n := range c.Numbers {
		if number > 0 && n != number {
			continue
		}
		if own, err := j.Manifest(n); err == nil {
			if is, err := c.Job.Manifest(n); err == nil && !own.Same(is) {
				r.damagedNext(j.Name(), n, c.Store, fmt.Sprintf("checkpoint %d there is another one than in the store: the job has run in both since", n),
					fmt.Sprintf("ckpt copy %s --to ANOTHER copies it elsewhere", j.Name()))
				continue
			}
		}
		report, err := verification.Checkpoint(ctx, n, add)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, image.ErrCheckpointNotFound):
			continue // a running job has taken it back
		case err != nil:
			r.skip(c.Job.Name(), n, err)
			continue
		}
		r.Next++
		r.CheckedBytes += report.CheckedBytes
		r.damaged(c.Job.Name(), n, report.Damage...)
	}
	return nil
}

// addGone names checkpoints that the record of a job has in a next store that lacks them, before
// and after a look there: a running job may take some back meanwhile.
func (r *verifyResult) addGone(j *image.Job, copies []levels.Copy, before, after []levels.NextStore, number int) {
	for _, next := range before {
		for _, s := range next.Checkpoints {
			still := slices.ContainsFunc(after, func(o levels.NextStore) bool { return o.Store == next.Store && o.Has(s.Number) })
			if number > 0 && s.Number != number || !still || levels.Has(copies, next.Store, s.Number) {
				continue
			}
			r.damagedNext(j.Name(), s.Number, next.Store, fmt.Sprintf("the record of the job has checkpoint %d there, and it is gone", s.Number),
				fmt.Sprintf("ckpt copy %s --to '%s' copies what the store has, and notes what is there", j.Name(), next.Store))
		}
	}
}

// damagedNext notes that a next store has not what it should have.
func (r *verifyResult) damagedNext(name string, number int, store, reason, remedy string) {
	r.damaged(name, number, image.Damage{File: store, Reason: reason})
	r.Damage[len(r.Damage)-1].remedy = remedy
}
