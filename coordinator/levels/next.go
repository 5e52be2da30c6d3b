package levels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// A Beyond is the store of a job that has next stores: what comes into it is copied on into each
// of them, behind the ranks. A next store that fails costs the job a warning. All that it needs
// to go on in a later run is in the stores.
type Beyond struct {
	Level // the store
	Setting
	g      Group
	fs     vfs.FS // of the next stores
	to     []*onward
	record nextKeeper
	next   int // number after all that the next stores and the journal know of
	last   int // checkpoint that all are to get before the run is over; 0: it goes on
	copies sync.WaitGroup
	ctx    context.Context // of the copies
	cancel context.CancelFunc
}

// An onward is the way to one next store.
type onward struct {
	image.Next
	copy     *image.JobCopy
	newest   int   // checkpoint that the next store has had
	next     int   // number after all that it has
	waiting  []int // to be copied on, ascending
	copying  int   // checkpoint, or 0
	failures int   // since the last copy
	timer    bool  // it is tried again later
	stopped  bool  // the user knows why nothing is copied there
	failed   error // of the last copy
}

// heldMost is for how many checkpoints the store waits with its retention while a next store
// fails: a full store would cost the job its checkpoints.
const heldMost = 8

// damagePatience is how often damage in a next store is met before the version is left out there: what
// could not be read once may be readable.
const damagePatience = 3

// OpenNext makes the next stores of a job the level behind its store. It fails with a
// job.RefusedError if a new job could not be copied into one. Files are of a file system.
func OpenNext(set Setting, g Group, store Level, fsys vfs.FS) (Level, error) {
	if len(set.Spec.Next) == 0 {
		return store, nil
	}
	b := &Beyond{Level: store, Setting: set, g: g, fs: fsys, record: nextKeeper{job: set.Job}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if err := b.record.read(); err != nil {
		g.Warn(fmt.Sprintf("what the next stores have is looked up there: %v", err))
	}
	_, err := set.Job.FS().Stat(filepath.Join(set.Job.Dir(), job.JournalName))
	fresh := errors.Is(err, fs.ErrNotExist)
	for n := range job.ReadEvents(set.Job, 0) {
		b.next = max(b.next, n+1)
	}
	others := []*image.Store{set.Job.Store()}
	for _, n := range set.Spec.Next {
		o := &onward{Next: n, newest: b.record.newest(n.Store)}
		is, err := o.accepts(set.Job, fsys, others)
		switch same := errors.Is(err, image.ErrSameStore); {
		case err == nil:
			others = append(others, is)
		case fresh && same:
			return store, &job.RefusedError{Err: &job.UsageError{Text: err.Error(), Fix: "name stores that are apart"}}
		case fresh:
			return store, &job.RefusedError{Err: err}
		case same:
			o.stopped = true
			g.Warn(fmt.Sprintf("%v: nothing is copied on there", err))
		}
		b.next = max(b.next, o.next, o.newest+1)
		b.to = append(b.to, o)
	}
	return b, nil
}

// accepts makes the next store if need be. It fails if that has another job of this name, and with
// image.ErrSameStore if it is one of the others, under whatever name.
func (o *onward) accepts(j *image.Job, fsys vfs.FS, others []*image.Store) (*image.Store, error) {
	store, err := o.open(j, fsys)
	for i := 0; err == nil && i < len(others); i++ {
		same, serr := store.Same(others[i])
		if err = serr; same {
			err = fmt.Errorf("it %w or another next store", image.ErrSameStore)
		}
	}
	var other *image.Job
	if err == nil {
		other, err = store.Job(j.Name())
	}
	if errors.Is(err, image.ErrJobNotFound) {
		return store, nil
	}
	if err != nil {
		return nil, fmt.Errorf("next store %s: %w", o.Store, err)
	}
	was, err := other.Digest()
	is, ierr := j.Digest()
	if err == nil && ierr == nil && was == is {
		o.next, err = other.Next()
		return store, err
	}
	return nil, &job.UsageError{Text: fmt.Sprintf("next store %s has another job %s", o.Store, j.Name()), Fix: wording.Sprintf("another {job} name, or another store for {next}")}
}

// open makes the next store if need be.
func (o *onward) open(j *image.Job, fsys vfs.FS) (*image.Store, error) {
	if err := checkSeal(j, fsys, o.Store); err != nil {
		return nil, err
	}
	return image.CreateStore(fsys, o.Store)
}

// checkSeal refuses to copy from a sealed store into one that is not.
func checkSeal(from *image.Job, fsys vfs.FS, to string) error {
	if !from.Store().Sealed() {
		return nil
	}
	is, err := image.IsSealed(fsys, to)
	if err == nil && !is {
		return &job.UsageError{Text: fmt.Sprintf("%s is not sealed, as %s is: others could read there what the job keeps", to, from.StoreDir()), Fix: "make it a sealed store first, with ckpt seal"}
	}
	return err
}

// CheckNext refuses next stores that are the store, or each other.
func CheckNext(store string, list []image.Next) error {
	seen := []string{filepath.Clean(store)}
	for _, n := range list {
		if dir := filepath.Clean(n.Store); slices.ContainsFunc(seen, func(o string) bool { return within(dir, o) || within(o, dir) }) {
			return &job.UsageError{Text: wording.Sprintf("{next} %s lies in the store or in another next store, or holds one", n.Store), Fix: "name directories that are apart"}
		}
		seen = append(seen, filepath.Clean(n.Store))
	}
	return nil
}

// CheckApart refuses a store in the directory of a node, and one in the jobs of the store:
// each would take the files of the other for its own. The mapping of a program is known
// only when its ranks have come.
func CheckApart(store string, spec *job.Spec) error {
	on := spec.Tier
	if on == nil && spec.Program != nil {
		on = spec.Program.Local
	}
	if on == nil {
		return CheckNext(store, spec.Next)
	}
	for node := range spec.Mapping {
		dir := on.NodeDir(node)
		if within(store, dir) || within(dir, filepath.Join(store, "jobs")) {
			return job.Clash(job.ClashStore, wording.Sprintf("{store} %s and the directory of node %d, %s, lie in each other", store, node, dir),
				"name two directories that are apart")
		}
	}
	return CheckNext(store, spec.Next)
}

// within reports whether a directory is another or lies in it.
func within(dir, in string) bool {
	rel, err := filepath.Rel(in, dir)
	return err == nil && filepath.IsLocal(rel)
}

// InStore has a version copied on that has come into the store.
func (b *Beyond) InStore(number int) {
	b.Level.InStore(number)
	b.look()
}

// Computing goes on with what an earlier run has left.
func (b *Beyond) Computing() {
	b.Level.Computing()
	b.look()
}

// Facts adds the versions that the store is to keep until they were copied on, and the numbers
// that checkpoints of the next stores have taken.
func (b *Beyond) Facts() Facts {
	f := b.Level.Facts()
	f.Next = b.next
	for _, o := range b.to {
		if o.copying > 0 {
			f.Held = append(f.Held, o.copying)
		}
		if o.Every > 0 && !o.stopped {
			f.Held = append(f.Held, o.waiting...)
		}
	}
	return f
}

// look lists what the next stores lack, and begins to copy it.
func (b *Beyond) look() {
	all, err := b.Job.Checkpoints()
	if err != nil {
		return // the next version that comes looks again
	}
	for _, o := range b.to {
		had := max(o.newest, o.copying)
		if o.waiting = o.Due(all, had); b.last > had && !slices.Contains(o.waiting, b.last) {
			o.waiting = append(o.waiting, b.last)
		}
		if n := len(o.waiting) - heldMost; n > 0 {
			o.waiting = o.waiting[n:]
		}
		b.start(o)
	}
}

// start copies the oldest version that waits for a next store, unless one is on its way or a
// pause is not over.
func (b *Beyond) start(o *onward) {
	if o.copying > 0 || o.timer || o.stopped || len(o.waiting) == 0 {
		return
	}
	o.copying, o.waiting = o.waiting[0], o.waiting[1:]
	number, began := o.copying, time.Now()
	b.copies.Go(func() {
		err := b.copy(o, number)
		b.g.Post(func() { b.copied(o, number, time.Since(began), err) })
	})
}

// copy copies a version, and notes what the next store has then.
func (b *Beyond) copy(o *onward, number int) error {
	if o.copy == nil {
		store, err := o.open(b.Job, b.fs)
		if err != nil {
			return err
		}
		o.copy = &image.JobCopy{From: b.Job, To: store, Journal: job.JournalName, Keep: o.Keep}
	}
	if err := cmp.Or(o.copy.Run(b.ctx, []int{number}), b.ctx.Err()); err != nil { // the job may be another run's then
		return err
	}
	if err := b.record.keep(o.Store, o.copy.There); err != nil {
		return fmt.Errorf("it is there, and the record of the job does not say so: %w", err)
	}
	return nil
}

// copied notes the end of a copy, in the loop.
func (b *Beyond) copied(o *onward, number int, took time.Duration, err error) {
	o.copying = 0
	switch {
	case errors.Is(err, image.ErrCheckpointNotFound):
		err = nil // it has left the store meanwhile
	case err != nil:
		b.failed(o, number, err)
		return
	case len(o.copy.Checkpoints) > 0:
		b.g.Event(&LevelEvent{Type: "storage_level", Number: number, Level: nodes.InNext, Store: o.Store, Bytes: o.copy.Bytes, Seconds: took.Seconds()})
	}
	if o.failures > 0 {
		b.g.Warn(fmt.Sprintf("next store %s works again: checkpoint %d is there", o.Store, number))
	}
	o.failures, o.failed, o.newest = 0, err, max(o.newest, number)
	if b.Spec.Keep > 0 {
		b.g.Thin()
	}
	b.look()
}

// failed notes that a version could not be copied on. It is tried again, unless the copy has its
// own future.
func (b *Beyond) failed(o *onward, number int, err error) {
	o.failed = err
	var damage *durable.DamageError
	switch parted := errors.Is(err, image.ErrParted) || errors.Is(err, image.ErrJobExists) || errors.Is(err, image.ErrSameStore); {
	case parted:
		o.stopped = true
		b.g.Warn(wording.Sprintf("nothing more is copied on into %s: %v; {restart %s} {next} with another store copies there", o.Store, err, b.Job.Name()))
		return
	case b.g.Over():
		o.waiting = append([]int{number}, o.waiting...)
		return // the end of the run tells
	case errors.Is(err, vfs.ErrForbidden):
		o.newest = max(o.newest, number)
		b.g.Warn(fmt.Sprintf("checkpoint %d does not come into next store %s, newer ones do: %v", number, o.Store, err))
		b.look()
		return
	case errors.As(err, &damage) && (within(damage.File, b.Job.Dir()) || o.failures >= damagePatience):
		o.newest = max(o.newest, number) // a newer one may be sound
	default:
		o.waiting = append([]int{number}, o.waiting...) // the store is to keep it until then
	}
	pause := nodes.PauseAfter(o.failures)
	if o.failures++; o.failures == 1 {
		b.g.Warn(fmt.Sprintf("checkpoint %d is not in next store %s yet, and the job goes on: %v; it is tried again in %v, and then after longer pauses", number, o.Store, err, pause))
	}
	o.timer = true
	time.AfterFunc(pause, func() {
		b.g.Post(func() {
			if o.timer = false; !b.g.Over() {
				b.look()
			}
		})
	})
}

// Drain copies the newest version on before the run is over, or says that it is in the store
// only. An interrupt ends the copies.
func (b *Beyond) Drain() {
	b.Level.Drain()
	defer b.cancel()
	newest, err := b.Job.Latest()
	end := b.g.End()
	if err != nil || newest == 0 || end.Broken {
		return
	}
	if !end.Hurried {
		b.last = newest
		for _, o := range b.to {
			o.timer = false
		}
		b.look()
	}
	b.g.Await(func() bool {
		return slices.ContainsFunc(b.to, func(o *onward) bool { return o.copying > 0 })
	})
	for _, o := range b.to {
		if o.failed == nil && o.newest >= newest || o.stopped {
			continue
		}
		why, to := "", fmt.Sprintf("'%s' copies it there", o.Store)
		if o.failed != nil {
			why = fmt.Sprintf(": %v", o.failed)
		}
		if errors.Is(o.failed, vfs.ErrForbidden) {
			to = "with another store copies it there"
		}
		b.g.Warn(wording.Sprintf("checkpoint %d of job %s is not in next store %s%s; {copy %s} {to} %s", newest, b.Job.Name(), o.Store, why, b.Job.Name(), to))
	}
}

// Close waits for copies that were cancelled, unless somebody is in a hurry: a next store that does
// not answer keeps no run from ending.
func (b *Beyond) Close() {
	b.Level.Close()
	if b.cancel(); !b.g.End().Hurried {
		b.copies.Wait()
	}
}

// Held lists the checkpoints of a job that does not run which next stores have yet to get.
func Held(j *image.Job, spec *job.Resolved) (held []int, err error) {
	if len(spec.Next) == 0 {
		return nil, nil
	}
	record := nextKeeper{job: j}
	if err := record.read(); err != nil {
		return nil, err
	}
	all, err := j.Checkpoints()
	for _, n := range spec.Next {
		if due := n.Due(all, record.newest(n.Store)); n.Every > 0 {
			held = append(held, due[max(0, len(due)-heldMost):]...)
		}
	}
	return held, err
}
