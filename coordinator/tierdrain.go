package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// A copying is a version on its way into the store.
type copying struct {
	number  int
	m       *image.Manifest
	library *container.File
	tx      *image.Tx     // nil while the store makes room
	left    map[int]bool  // ranks that owe an answer
	bytes   int64         // copied
	waited  time.Duration // of the turns of a rank, the longest
	passed  string        // why bytes passed without turns
	began   time.Time
	err     error // the first
	ended   bool  // it is being committed or removed
}

// errRestarted ends a copy whose ranks were restarted. It begins again.
var errRestarted = errors.New("the ranks were restarted")

// copy has the ranks copy a version into the store, while they compute.
func (t *tier) copy(number int) {
	c := &copying{number: number, m: t.kept[number], left: map[int]bool{}, began: time.Now()}
	t.copying = c
	t.tell(number, nodes.Draining, storedBytes(c.m))
	t.g.d.againTurns()
	t.g.d.helpers.Go(func() {
		tx, library, err := t.g.makeRoom(number)
		t.g.d.post(func() {
			c.tx, c.library = tx, library
			switch {
			case err != nil:
				c.err = err
				t.drop(c)
			case c.ended || !t.g.started: // the ranks have gone meanwhile
				c.err = errRestarted
				t.drop(c)
			default:
				t.orderCopies(c)
			}
		})
	})
}

// orderCopies tells each rank where its part belongs.
func (t *tier) orderCopies(c *copying) {
	rate := t.nodes.Setting().Rate
	for _, rank := range t.g.ranks {
		c.left[rank] = true
		o := wire.StoreOrder{Path: c.tx.RankPath(rank), ID: c.m.ID}
		if rate > 0 {
			o.Rate = max(1, rate/int64(len(t.g.ranks)))
		}
		t.g.d.send(rank, protocol.Store{Number: c.number, Body: job.Encode(o)})
	}
}

// makeRoom makes room for a version in the store, and sees to its library zone.
func (g *group) makeRoom(number int) (*image.Tx, *container.File, error) {
	library, err := g.storedLibrary(number)
	if err != nil {
		return nil, nil, err
	}
	tx, err := beginStoring(g.job, number)
	return tx, library, err
}

// storedLibrary returns the library zone in the store, which it writes if it must; nil
// if the ranks have their own. No checkpoint has been begun in the store.
func (g *group) storedLibrary(number int) (*container.File, error) {
	if !g.spec.LibraryOnce || g.spec.Program != nil {
		return nil, nil
	}
	if f := g.libraryFile(); f != nil {
		return f, nil
	}
	f, _, err := g.d.writeLibrary(context.Background(), number, nil)
	if errors.Is(err, fs.ErrExist) { // of an attempt before
		_, _ = g.job.Sweep() // if it fails, the next line tells
		f, _, err = g.d.writeLibrary(context.Background(), number, nil)
	}
	return &f, err
}

// answered takes what a rank says of its copy.
func (t *tier) answered(rank int, m protocol.Message) {
	c := t.copying
	if c == nil {
		return
	}
	switch m := m.(type) {
	case protocol.Stored:
		var report wire.StoreReport
		if m.Number != c.number || json.Unmarshal(m.Body, &report) != nil {
			return
		}
		c.bytes += report.Bytes
		c.waited, c.passed = max(c.waited, report.TurnWait), cmp.Or(c.passed, report.TurnPassed)
	case protocol.StoreFailed:
		if m.Number != c.number {
			return
		}
		if c.err == nil {
			c.err = fmt.Errorf("rank %d: %w", rank, wire.DecodeError(m.Body, m.Text))
		}
	}
	if !c.left[rank] {
		return
	}
	delete(c.left, rank)
	switch {
	case len(c.left) > 0:
	case c.err != nil:
		t.drop(c)
	default:
		t.commitCopy(c)
	}
}

// commitCopy makes the version exist in the store.
func (t *tier) commitCopy(c *copying) {
	c.ended = true
	t.g.d.helpers.Go(func() {
		err := c.tx.Commit(context.Background(), inStore(c.m, c.library))
		t.g.d.post(func() {
			if err != nil {
				c.err = err
				t.failed(c)
				return
			}
			t.stored(c)
		})
	})
}

// inStore returns the manifest of a version as the store has it: with the library zone.
func inStore(m *image.Manifest, library *container.File) *image.Manifest {
	in := *m
	in.Files, in.Ranks = slices.Clone(m.Files), slices.Clone(m.Ranks)
	_ = addLibrary(&in, library, nil) // nothing is waited for
	return &in
}

// stored notes that a version is in the store.
func (t *tier) stored(c *copying) {
	t.copying = nil
	t.last = time.Since(c.began).Seconds()
	t.ledger.Drained(c.number)
	if t.alarmed {
		t.alarmed = false
		t.g.d.out.Warn(fmt.Sprintf("the store works again: checkpoint %d is there", c.number))
	}
	t.tellCopied(&LevelEvent{Number: c.number, Level: nodes.Stored, Bytes: c.bytes, Seconds: t.last, TurnWait: c.waited.Seconds()})
	t.g.d.hasTurns(c.passed)
	t.g.d.crowded = t.g.spec.Keep > 0
	t.g.d.startPrunes()
	t.next()
}

// drop ends a copy that cannot be completed. No rank writes to it any more.
func (t *tier) drop(c *copying) {
	c.ended = true
	if c.tx == nil {
		t.failed(c)
		return
	}
	t.g.d.helpers.Go(func() {
		err := c.tx.Abort()
		t.g.d.post(func() {
			c.err = errors.Join(c.err, err)
			t.failed(c)
		})
	})
}

// failed notes that a version could not be stored. It is tried again.
func (t *tier) failed(c *copying) {
	t.copying = nil
	if t.g.d.over() {
		return // the end of the run sees to it
	}
	pause := t.ledger.DrainFailed(c.number, time.Now())
	if !t.alarmed && !errors.Is(c.err, errRestarted) {
		t.alarmed = true
		t.g.d.out.Warn(fmt.Sprintf("checkpoint %d is not in the store yet, and the job goes on: %v; it is tried again in %v, and then after longer pauses", c.number, c.err, pause))
	}
	t.slot()
	t.next()
}

// gone leaves the store alone while the run goes on: a restart does not wait for it.
func (t *tier) gone() bool {
	if t.g.d.outcome != nil || t.g.d.broken != nil {
		return false
	}
	t.ranksGone()
	return true
}

// ranksGone ends a copy whose ranks have ended.
func (t *tier) ranksGone() {
	if t.scrubs != nil {
		t.scrubs.cancel()
	}
	c := t.copying
	if c == nil || c.ended {
		return
	}
	c.ended = true
	if c.tx != nil { // else it ends when the store has made room
		c.err = errRestarted
		t.drop(c)
	}
}

// unstored returns the newest version that the nodes have, or nil: the store
// has it or a newer one.
func (t *tier) unstored() *image.Manifest {
	n, ok := t.ledger.Unstored()
	if !ok {
		return nil
	}
	return t.kept[n]
}

// newestVersion returns the newest that the nodes have, or nil.
func (t *tier) newestVersion() *image.Manifest {
	if len(t.kept) == 0 {
		return nil
	}
	return t.kept[slices.Max(slices.Collect(maps.Keys(t.kept)))]
}

// storersAtOnce is how many parts are copied into the store at once when no ranks do it.
const storersAtOnce = 4

// storeVersion copies a version into the store while no ranks run. No rank is slowed, so no
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

// lookAgain is how often it is seen to that the ranks that store the last version live.
const lookAgain = time.Second

// mayLeave keeps the ranks that reach the nodes until letGo.
func (t *tier) mayLeave() bool {
	t.leaving = t.ways != nil
	return !t.leaving
}

// letGo lets the ranks leave. On several hosts they stay until the newest version is in the
// store: only they reach the directories of their nodes.
func (t *tier) letGo() {
	d := t.g.d
	if !t.leaving {
		return
	}
	t.leaving = false
	if d.broken == nil && d.outcome.Result != protocol.Failed {
		t.storeByRanks()
	}
	for _, rank := range t.g.ranks {
		d.send(rank, protocol.Quit{})
	}
}

// storeByRanks has the ranks store the newest version, once, and waits.
func (t *tier) storeByRanks() {
	d := t.g.d
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for tried := false; !d.hurried; {
		m := t.unstored()
		if m == nil || t.nodes.Setting().Drain.Mode == nodes.DrainNone {
			return
		}
		if t.copying == nil {
			if tried {
				return
			}
			tried = true
			t.copy(m.Number)
		}
		select {
		case <-d.ready:
			d.take()()
		case <-d.interrupts:
			d.hurried = true
		case <-look.C:
			if t.g.someGone() {
				return
			}
		}
	}
}

// someGone reports whether a rank has ended, or gives no sign of life.
func (g *group) someGone() bool {
	for _, rank := range g.ranks {
		m := g.d.members[rank]
		if m == nil || m.lost || m.closed || g.d.now()-time.Duration(m.signs.heard.Load()) > g.limits.Silence {
			return true
		}
	}
	return false
}
