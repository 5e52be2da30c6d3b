package coordinator

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"ckpt/coordinator/job"
	"ckpt/coordinator/turns"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// storersAtOnce is how many parts are copied into the store at once when no ranks do it.
const storersAtOnce = 4

// storeVersion copies a version into the store while no ranks run. Nobody is slowed, so no
// rate limits it. The client, which may be nil, takes a turn on the storage.
func storeVersion(ctx context.Context, client *turns.Client, j *image.Job, nodes *nodes.Tier, m *image.Manifest, library func(number int) (*container.File, error)) (turns.Report, error) {
	var report turns.Report
	zone, err := library(m.Number)
	if err != nil {
		return report, err
	}
	tx, err := beginStoring(j, m.Number)
	if err != nil {
		return report, err
	}
	report, err = inTurn(ctx, client, j.FS(), partsBurst(m), func(through vfs.FS) error {
		all, ctx := errgroup.WithContext(ctx)
		all.SetLimit(storersAtOnce)
		for _, r := range m.Ranks {
			all.Go(func() error {
				_, err := job.StorePart(ctx, through, nodes, m, r.Rank, tx.RankPath(r.Rank), nil)
				return err
			})
		}
		return all.Wait()
	})
	if err != nil {
		return report, errors.Join(err, tx.Abort())
	}
	return report, tx.Commit(context.WithoutCancel(ctx), inStore(m, zone))
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

// drain stores the newest version before the run is over, or says that it is on the
// nodes only. The ranks have ended.
func (t *tier) drain() {
	d := t.g.d
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
	m := t.unstored()
	if m == nil {
		return
	}
	if d.hurried || d.broken != nil || t.ways != nil || t.nodes.Setting().Drain.Mode == nodes.DrainNone {
		d.out.Warn(notStored(d.job.Name(), m.Number, nil))
		return
	}
	t.tell(m.Number, nodes.Draining, storedBytes(m))
	begun := d.now()
	var report turns.Report
	if err := d.interruptible(func(ctx context.Context) (err error) {
		report, err = storeVersion(ctx, d.turns.client, d.job, t.nodes, m, t.g.storedLibrary)
		return err
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
		delete(t.kept, n)
	}
	t.tellCopied(&LevelEvent{Number: m.Number, Level: nodes.Stored, Bytes: storedBytes(m), Seconds: (d.now() - begun).Seconds(),
		TurnWait: report.Waited.Seconds()})
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
