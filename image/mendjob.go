package image

import (
	"context"
	"errors"
	"fmt"

	"ckpt/image/container"
	"ckpt/internal/durable"
)

// Mend makes checkpoint n whole again from a copy of the job in another store: what this one
// lacks of it, or has damaged, is read there. Each byte has been read here, and is sound, when it
// returns. It needs the lock, and fails with ErrParted if the copy is another checkpoint.
func (j *Job) Mend(ctx context.Context, from *Job, n int) (Copied, error) {
	m, err := from.Manifest(n)
	if err != nil {
		return Copied{}, err
	}
	c := &JobCopy{From: from, To: j.store, to: j, memo: new(container.Memo), mends: true}
	is, err := j.Manifest(n)
	switch {
	case errors.As(err, new(*durable.DamageError)):
		if err = j.Drop(n); err == nil {
			err = c.checkpoint(ctx, m)
		}
	case errors.Is(err, ErrCheckpointNotFound):
		err = c.checkpoint(ctx, m)
	case err == nil && !m.Same(is):
		err = fmt.Errorf("%w: checkpoint %d in %s is another one", ErrParted, n, from.dir)
	case err == nil:
		err = c.check(ctx, m)
	}
	return c.Copied, err
}
