package dmtcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/internal/family"
)

// awaitReady returns when all processes of the program compute and no more come.
func (e *engine) awaitReady(inc *incarnation) ([]worker, error) {
	ctx, cancel := context.WithCancelCause(e.ctx)
	defer cancel(nil)
	go e.watchProgress(ctx, inc.progress, cancel)
	began, changed, was := time.Now(), time.Now(), 0
	for {
		peers, running, err := inc.server.status(ctx)
		if peers != was {
			changed, was = time.Now(), peers
		}
		if inc.program.ended() {
			return nil, errEnded
		}
		calm := time.Since(changed) >= e.opt.settle
		if len(inc.images) > 0 {
			calm = calm && peers == len(inc.images)
		} else {
			calm = peers > 0 && (calm || time.Since(began) > e.opt.Limits.Patience/2) // some programs start others all the time
		}
		if err == nil && running && calm {
			list := inc.server.workers(ctx)
			if len(inc.images) > 0 || e.allRanks(list) || time.Since(began) > e.opt.Limits.Patience/2 {
				return list, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d processes are back: %w", was, len(inc.images), context.Cause(ctx))
		case <-inc.program.over:
		case <-time.After(pollEvery):
		}
	}
}

// errEnded says that the program ended before it was ready.
var errEnded = errors.New("the program has ended")

// progress is a number that changes as long as a restart makes progress: processes come,
// and the images are read. A process that waits or spins reads next to nothing, and one
// that computes reads no images.
func (i *incarnation) progress() int64 {
	const parts = 100
	below := family.Descendants(i.program.self.PID)
	return min(parts, family.BytesRead(below)/(i.bytes/parts+64<<10)) + int64(len(below))<<32
}
