package levels

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
	number int
	m      *image.Manifest
	room                  // nil Tx while the store makes it
	left   map[int]bool   // ranks that owe an answer
	told   *wire.Exchange // what they tell each other
	parts  []job.Copied
	waited time.Duration // of the turns of a rank, the longest
	passed string        // why bytes passed without turns
	began  time.Time
	err    error         // the first
	ended  bool          // it is being committed or removed
	over   chan struct{} // closed when its commit has ended; nil: that has not begun
}

// A room is the place of a version in the store, with what its manifest names there already.
type room struct {
	tx      *image.Tx
	library *container.File
	basis   job.Basis // of the copies
	way     *job.Way
	joint   *job.JointLayout
	paths   []string // of the files that the ranks write together
}

// errRestarted ends a copy whose ranks were restarted. It begins again.
var errRestarted = errors.New("the ranks were restarted")

// copy has the ranks copy a version into the store, while they compute.
func (t *Tier) copy(number int) {
	c := &copying{number: number, m: t.kept[number], left: map[int]bool{}, began: time.Now()}
	t.copying = c
	t.tell(number, nodes.Draining, storedBytes(c.m))
	t.g.AgainTurns()
	s := t.storing(number)
	t.g.Go(func() {
		made, err := s.makeRoom(c.m, t.g.Library)
		t.g.Post(func() {
			c.room = made
			switch {
			case err != nil:
				c.err = err
				t.drop(c)
			case c.ended || !t.g.Life().Started: // the ranks have gone meanwhile
				c.err = errRestarted
				t.drop(c)
			default:
				t.orderCopies(c)
			}
		})
	})
}

// orderCopies tells each rank where its part belongs.
func (t *Tier) orderCopies(c *copying) {
	rate := t.nodes.Setting().Rate
	c.told = wire.NewExchange(c.number, t.Ranks)
	for _, rank := range t.Ranks {
		c.left[rank] = true
		o := wire.StoreOrder{ID: c.m.ID, Basis: c.basis, Way: c.way}
		if o.Group = c.paths; c.joint == nil {
			o.Path = c.tx.RankPath(rank)
		}
		if rate > 0 {
			o.Rate = max(1, rate/int64(t.Spec.NP))
		}
		t.g.Send(rank, protocol.Store{Number: c.number, Body: job.Encode(o)})
	}
}

// makeRoom makes room for a version in the store, and sees to its library zone.
func (s *storing) makeRoom(m *image.Manifest, library func(number int) (*container.File, error)) (r room, err error) {
	if r.library, err = library(m.Number); err != nil {
		return r, err
	}
	if !s.whole {
		r.basis = s.spec.BasisOf(s.job, m)
	}
	if r.tx, err = beginStoring(s.job, m.Number); err != nil {
		return r, err
	}
	joint, err := s.spec.JointAs(m.Group, s.way)
	if err == nil && joint.Of(m) {
		r.way, r.joint = s.way, joint
		r.paths, err = r.tx.CreateJoint(r.joint.Settings.Layout, r.joint.Files)
	}
	return r, err
}

// tells passes on what a rank tells those that copy with it, and reports whether it is of a copy.
func (t *Tier) tells(rank int, m protocol.Share) bool {
	c := t.copying
	if c == nil || c.number != m.Number {
		return false
	}
	if all, complete := c.told.Add(rank, m); complete {
		for _, to := range t.Ranks {
			t.g.Send(to, protocol.Shares{Number: m.Number, Round: m.Round, Body: all})
		}
	}
	return true
}

// answered takes what a rank says of its copy.
func (t *Tier) answered(rank int, m protocol.Message) {
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
		c.parts = append(c.parts, report.Copied)
		c.waited, c.passed = max(c.waited, report.TurnWait), cmp.Or(c.passed, report.TurnPassed)
	case protocol.StoreFailed:
		if m.Number != c.number {
			return
		}
		if c.err == nil {
			c.err = fmt.Errorf("rank %d: %w", rank, wire.DecodeError(m.Body, m.Text))
			t.endCopies(c, rank)
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

// endCopies ends the work of the other ranks for a copy in which one has failed: they may wait for it.
func (t *Tier) endCopies(c *copying, failed int) {
	if c.joint == nil {
		return
	}
	for rank := range c.left {
		if rank != failed {
			t.g.Send(rank, protocol.Abort{Number: c.number})
		}
	}
}

// commitCopy makes the version exist in the store.
func (t *Tier) commitCopy(c *copying) {
	c.ended, c.over = true, make(chan struct{})
	t.beside(func() error {
		defer close(c.over)
		c.m = job.InStore(c.m, c.library, c.parts)
		return c.tx.Commit(context.Background(), c.m)
	}, func(err error) {
		if err != nil {
			c.err = err
			t.failed(c)
			return
		}
		t.stored(c)
	})
}

// bytesOf adds up what parts have taken.
func bytesOf(parts []job.Copied) (n int64) {
	for _, p := range parts {
		for _, f := range p.Files {
			n += f.Bytes - f.Holes
		}
	}
	return n
}

// stored notes that a version is in the store.
func (t *Tier) stored(c *copying) {
	t.copying = nil
	t.last = time.Since(c.began).Seconds()
	t.ledger.Drained(c.number)
	if t.alarmed {
		t.alarmed = false
		t.g.Warn(fmt.Sprintf("the store works again: checkpoint %d is there", c.number))
	}
	t.tellCopied(&LevelEvent{Number: c.number, Level: nodes.Stored, Bytes: bytesOf(c.parts), Seconds: t.last, TurnWait: c.waited.Seconds(), Risk: t.g.Durable(c.number)})
	done := Copied{Manifest: c.m, Full: c.basis.Number == 0, Bytes: bytesOf(c.parts), Passed: c.passed}
	if t.nodes.Setting().Rate == 0 {
		done.Seconds = max(0, t.last-c.waited.Seconds())
	}
	t.g.Stored(done)
	t.next()
}

// drop ends a copy that cannot be completed. No rank writes to it any more.
func (t *Tier) drop(c *copying) {
	c.ended = true
	if c.tx == nil {
		t.failed(c)
		return
	}
	t.beside(c.tx.Abort, func(err error) {
		c.err = errors.Join(c.err, err)
		t.failed(c)
	})
}

// failed notes that a version could not be stored. It is tried again.
func (t *Tier) failed(c *copying) {
	t.copying = nil
	if t.g.Over() {
		return // the end of the run sees to it
	}
	pause := t.ledger.DrainFailed(c.number, time.Now())
	if !t.alarmed && !errors.Is(c.err, errRestarted) {
		t.alarmed = true
		t.g.Warn(fmt.Sprintf("checkpoint %d is not in the store yet, and the job goes on: %v; it is tried again in %v, and then after longer pauses", c.number, c.err, pause))
	}
	t.slot()
	t.next()
}

// Gone leaves the store alone while the run goes on: a restart does not wait for it.
func (t *Tier) Gone() bool {
	if t.g.Over() {
		return false
	}
	t.ranksGone()
	return true
}

// ranksGone ends a copy whose ranks have ended.
func (t *Tier) ranksGone() {
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
func (t *Tier) unstored() *image.Manifest {
	n, ok := t.ledger.Unstored()
	if !ok {
		return nil
	}
	return t.kept[n]
}

// newestVersion returns the newest that the nodes have, or nil.
func (t *Tier) newestVersion() *image.Manifest {
	if len(t.kept) == 0 {
		return nil
	}
	return t.kept[slices.Max(slices.Collect(maps.Keys(t.kept)))]
}

// storersAtOnce is how many parts are copied into the store at once when no ranks do it.
const storersAtOnce = 4

// A storing copies a version into the store while no ranks run. No rank is slowed, so no rate
// limits it. The client, which may be nil, takes a turn on the storage.
type storing struct {
	client *turns.Client
	spec   *job.Resolved
	job    *image.Job
	nodes  *nodes.Tier
	way    *job.Way
	// whole says that it refers to no earlier checkpoint: after a copy that failed, a file of one
	// may be damaged.
	whole bool
}

func (t *Tier) storing(number int) *storing {
	return &storing{client: t.g.Turns(), spec: t.Spec, job: t.Job, nodes: t.nodes, way: t.g.Way(number), whole: t.alarmed}
}

// store copies a version, and returns how many bytes that took.
func (s *storing) store(ctx context.Context, m *image.Manifest, library func(number int) (*container.File, error)) (turns.Report, int64, error) {
	var report turns.Report
	r, err := s.makeRoom(m, library)
	if err == nil {
		parts := make([]job.Copied, len(m.Ranks))
		report, err = s.client.Move(ctx, s.job.FS(), partsBurst(m), func(through vfs.FS) error {
			return s.copy(ctx, m, &r, through, parts)
		})
		if err == nil {
			return report, bytesOf(parts), r.tx.Commit(context.WithoutCancel(ctx), job.InStore(m, r.library, parts))
		}
	}
	if r.tx != nil {
		err = errors.Join(err, r.tx.Abort())
	}
	return report, 0, err
}

// copy copies the parts of all ranks.
func (s *storing) copy(ctx context.Context, m *image.Manifest, r *room, through vfs.FS, parts []job.Copied) error {
	all, ctx := errgroup.WithContext(ctx)
	copied := (*job.Part).Copy
	if joint := r.joint; joint == nil {
		all.SetLimit(storersAtOnce)
	} else {
		table := container.NewTable(joint.Ranks)
		copied = func(p *job.Part, ctx context.Context) (job.Copied, error) {
			return p.CopyJoint(ctx, container.Joint{Settings: joint.Settings, Ranks: joint.Ranks, Rank: p.Rank, Paths: r.paths,
				Network: table.Seat(p.Rank)}, joint.Kind())
		}
	}
	for i, rank := range m.Ranks {
		part := &job.Part{Nodes: s.nodes, Version: m, Rank: rank.Rank, Store: s.job, Through: through, Basis: r.basis}
		part.Path = r.tx.RankPath(part.Rank)
		all.Go(func() (err error) {
			parts[i], err = copied(part, ctx)
			return err
		})
	}
	return all.Wait()
}

// partsBurst describes the burst of a version on its way into the store.
func partsBurst(m *image.Manifest) turns.Burst {
	b := turns.Burst{Kind: turns.Drain, File: fmt.Sprintf("%s/%s", container.FormatNumber(m.Number), container.ManifestName)}
	for _, r := range m.Ranks {
		b.Bytes += job.PartBytes(m, r.Rank)
	}
	return b
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

// Drain stores the newest version before the run is over, or says that it is on the
// nodes only. The ranks have ended.
func (t *Tier) Drain() {
	t.drain()
	t.Level.Drain()
}

func (t *Tier) drain() {
	if s, end := t.scrubs, t.g.End(); s != nil && !end.Hurried && !end.Broken {
		_ = t.g.Interruptible(func(ctx context.Context) error {
			select {
			case <-s.done:
			case <-ctx.Done():
			}
			return nil
		})
		t.g.Await(func() bool { return false }) // what it has posted
	}
	t.ranksGone()
	// It is being committed or removed, and the record has to tell of what was reclaimed.
	t.g.Await(func() bool { return t.copying != nil || len(t.reclaiming) > 0 })
	defer func() {
		_ = t.g.Interruptible(func(context.Context) error { t.record.wait(); return nil })
		if len(t.alone) > 0 && t == t.tiers[len(t.tiers)-1] {
			t.g.Warn(t.notStored(t.alone, nil))
		}
	}()
	m := t.unstored()
	if m == nil {
		return
	}
	end := t.g.End()
	if end.Hurried || end.Broken || t.ways != nil || t.nodes.Setting().Drain.Mode == nodes.DrainNone {
		t.alone = append(t.alone, m.Number)
		return
	}
	t.drainLast(m)
}

// drainLast stores a version while no ranks run.
func (t *Tier) drainLast(m *image.Manifest) {
	t.tell(m.Number, nodes.Draining, storedBytes(m))
	began := time.Now()
	var report turns.Report
	var bytes int64
	s := t.storing(m.Number)
	err := t.g.Interruptible(func(ctx context.Context) (err error) {
		report, bytes, err = s.store(ctx, m, t.g.Library)
		return err
	})
	if err != nil {
		t.g.Warn(t.notStored([]int{m.Number}, err))
		return
	}
	t.ledger.Drained(m.Number)
	t.g.Stored(Copied{Manifest: m, Passed: report.Passed})
	for _, n := range t.ledger.Reclaimable() {
		if err := t.nodes.Reclaim(n); err != nil {
			t.g.Warn(job.NotRemoved + err.Error())
			continue
		}
		t.reclaimed(n)
	}
	t.tellCopied(&LevelEvent{Number: m.Number, Level: nodes.Stored, Bytes: bytes, Seconds: time.Since(began).Seconds(),
		TurnWait: report.Waited.Seconds(), Risk: t.g.Durable(m.Number)})
}

// MayLeave keeps the ranks that reach the nodes until LetGo.
func (t *Tier) MayLeave() bool {
	t.leaving = t.ways != nil
	return !t.leaving
}

// LetGo lets the ranks leave. On several hosts they stay until the newest version is in the
// store: only they reach the directories of their nodes.
func (t *Tier) LetGo() {
	if !t.leaving {
		return
	}
	t.leaving = false
	if end := t.g.End(); !end.Broken && !end.Failed {
		t.storeByRanks()
	}
	for _, rank := range t.Ranks {
		t.g.Send(rank, protocol.Quit{})
	}
}

// storeByRanks has the ranks store the newest version, once, and waits.
func (t *Tier) storeByRanks() {
	t.awaitCopy() // that is under way
	m := t.unstored()
	if m == nil || t.copying != nil || t.g.End().Hurried || t.nodes.Setting().Drain.Mode == nodes.DrainNone {
		return
	}
	t.copy(m.Number)
	t.awaitCopy()
}

// awaitCopy waits for a copy, or for a rank that copies and has ended.
func (t *Tier) awaitCopy() {
	t.g.Await(func() bool { return t.copying != nil && !t.g.SomeGone() })
}
