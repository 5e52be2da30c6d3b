package coordinator

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nvcache"
)

// storersAtOnce is how many parts are copied into the store at once when no ranks do it.
const storersAtOnce = 4

// storeVersion copies a version into the store while no ranks run. Nobody is slowed, so no
// rate limits it.
func storeVersion(ctx context.Context, j *image.Job, nodes *nvcache.Tier, m *image.Manifest, library func(number int) (*container.File, error)) error {
	zone, err := library(m.Number)
	if err != nil {
		return err
	}
	tx, err := beginStoring(j, m.Number)
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(storersAtOnce)
	for _, r := range m.Ranks {
		all.Go(func() error {
			_, err := job.StorePart(ctx, j.FS(), nodes, m, r.Rank, tx.RankPath(r.Rank), nil)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return errors.Join(err, tx.Abort())
	}
	return tx.Commit(context.WithoutCancel(ctx), inStore(m, zone))
}

// beginStoring makes room for a version in the store, in the place of what an attempt before
// has left.
func beginStoring(j *image.Job, number int) (*image.Tx, error) {
	tx, err := j.BeginApart(number)
	if errors.Is(err, fs.ErrExist) {
		_, _ = j.Sweep() // if it fails, the next line tells
		tx, err = j.BeginApart(number)
	}
	return tx, err
}

// storeLast stores the newest version before the run is over, or says that it is on the
// nodes only. The ranks have ended.
func (d *driver) storeLast() {
	t := d.tier
	if t == nil {
		return
	}
	if s := t.scrubs; s != nil && !d.hurried && d.broken == nil {
		_ = d.interruptible(func(ctx context.Context) error {
			select {
			case <-s.done:
			case <-ctx.Done():
			}
			return nil
		})
		d.takeAll()
	}
	t.ranksGone()
	// It is being committed or removed, and the record has to tell of what was reclaimed.
	for (t.copying != nil || len(t.reclaiming) > 0) && !d.hurried {
		select {
		case <-d.ready:
			d.take()()
		case <-d.interrupts:
			d.hurried = true
		}
	}
	defer func() {
		_ = d.interruptible(func(context.Context) error { t.record.wait(); return nil })
	}()
	m := t.newestVersion()
	if m == nil || t.ledger.State(m.Number) == nvcache.Stored {
		return
	}
	if d.hurried || d.broken != nil || t.ways != nil || t.nodes.Setting().Drain.Mode == nvcache.DrainNone {
		d.out.Warn(notStored(d.job.Name(), m.Number, nil))
		return
	}
	t.tell(m.Number, nvcache.Draining, storedBytes(m), 0)
	begun := d.now()
	if err := d.interruptible(func(ctx context.Context) error {
		return storeVersion(ctx, d.job, t.nodes, m, d.groups[0].storedLibrary)
	}); err != nil {
		d.out.Warn(notStored(d.job.Name(), m.Number, err))
		return
	}
	t.ledger.Drained(m.Number)
	for _, n := range t.ledger.Reclaimable() {
		if err := t.nodes.Reclaim(n); err != nil {
			d.out.Warn(notRemoved + err.Error())
			continue
		}
		t.ledger.Reclaimed(n)
		delete(t.versions, n)
	}
	t.tell(m.Number, nvcache.Stored, storedBytes(m), (d.now() - begun).Seconds())
}

// takeAll does what has been posted.
func (d *driver) takeAll() {
	for {
		select {
		case <-d.ready:
			d.take()()
		default:
			return
		}
	}
}

// interruptible does what may take long after the loop has ended. An interrupt ends it, and
// those who wait for answers get them meanwhile.
func (d *driver) interruptible(do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan error, 1)
	d.helpers.Go(func() { over <- do(ctx) })
	for {
		select {
		case err := <-over:
			return err
		case <-d.ready:
			d.take()()
		case <-d.interrupts:
			d.hurried = true
			cancel()
		}
	}
}
