package image

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// ErrParted says that a job has run in two stores, each of which has a history of its own.
var ErrParted = errors.New("the copy of the job has gone its own way")

// A JobCopy is a copy of checkpoints of a job into another store. It writes what that store
// lacks: a copy that was cut short goes on with the file that it had begun.
type JobCopy struct {
	From *Job
	To   *Store
	// Journal is the file of the job that only grows: a copy with lines of its own has gone its
	// own way.
	Journal string
	// Exact has the other store keep nothing of the job that this one lacks: checkpoints of groups
	// belong together with the message logs.
	Exact bool
	// Keep says which checkpoints stay in the other store; zero: all.
	Keep Retention
	// Begin, if not nil, is told how many bytes are to be copied at most, and Progress, if not nil,
	// those copied since its last call.
	Begin, Progress func(int64)

	to    *Job
	apart bool            // the two stores are not the same
	memo  *container.Memo // of what was checked in the other store, by this Run and those before
	first error           // why a checkpoint was left out
	mends bool            // files of the other store may be replaced by those of this one
	Copied
}

// Copied says what a JobCopy did or would do, and what the other store has then. Checkpoints are
// in ascending order.
type Copied struct {
	Checkpoints []int    // copied
	Present     []int    // that the other store had
	Gone        []int    // that were removed from the job meanwhile
	Damaged     []int    // not copied, since they are damaged
	Forbidden   []int    // not copied, since their names in the other store are forbidden
	LeftOut     []int    // not copied, since the other store would not keep them
	Removed     []int    // from the other store
	Retained    []Reason // which of those there stay for an hour or a day
	Files       int      // written; of a plan, those of checkpoints alone
	Bytes       int64    // in them
	There       []Summary
}

// Run copies checkpoints, ascending, each with all that it refers to. A checkpoint exists in the
// other store once every byte of it was read there again and is sound: its manifest is written
// last. Of several that need not stay together, damaged and forbidden ones are left out, and it
// fails when the others are there. Then it copies the other files of the job, which must not run if
// its checkpoints are of groups: their message logs belong to the newest.
//
// It fails with ErrSameStore, ErrJobExists if the other store has another job of this name,
// ErrParted, ErrInUse, or the DamageError of a file of this store.
func (c *JobCopy) Run(ctx context.Context, numbers []int) error {
	if err := c.open(); err != nil {
		return err
	}
	defer c.to.Unlock()
	if c.Copied, c.first = (Copied{}), nil; c.memo == nil {
		c.memo = new(container.Memo)
	}
	if err := c.checkpoints(ctx, numbers); err != nil {
		return err
	}
	if err := c.dropOthers(numbers); err != nil {
		return err
	}
	if err := c.others(ctx, ""); err != nil {
		return err
	}
	if err := c.retain(); err != nil {
		return err
	}
	_, err := c.to.Sweep()
	if err == nil {
		c.There, err = c.to.Summaries(0)
	}
	return cmp.Or(err, c.first)
}

// checkpoints copies those that the other store lacks and would keep. Older ones take the place of
// those that are left out.
func (c *JobCopy) checkpoints(ctx context.Context, numbers []int) error {
	var copied []int
	for again := true; again; {
		again = false
		c.Copied = Copied{Damaged: c.Damaged, Forbidden: c.Forbidden, Files: c.Files, Bytes: c.Bytes}
		missing, err := c.wanted(numbers)
		if err != nil {
			return err
		}
		if c.Begin != nil && len(copied) == 0 {
			_, total := c.weigh(missing)
			c.Begin(total)
		}
		for _, m := range missing {
			err := c.checkpoint(ctx, m)
			if _, merr := c.From.Manifest(m.Number); err != nil && errors.Is(merr, ErrCheckpointNotFound) {
				c.Gone = append(c.Gone, m.Number) // a running job has taken it back
				continue
			}
			if err != nil {
				err = fmt.Errorf("copy checkpoint %d: %w", m.Number, err)
			}
			switch {
			case err == nil:
				copied = append(copied, m.Number)
			case c.leavesOut(m.Number, len(numbers), err):
				again = c.Keep != (Retention{})
			default:
				return err
			}
		}
	}
	c.Checkpoints = distinct(copied)
	c.Present = slices.DeleteFunc(c.Present, func(n int) bool { return slices.Contains(copied, n) })
	return nil
}

// leavesOut reports whether the others of so many checkpoints are copied in spite of an error of
// one, since that is damaged, or forbidden there.
func (c *JobCopy) leavesOut(number, of int, err error) bool {
	list := &c.Damaged
	if errors.Is(err, vfs.ErrForbidden) {
		list = &c.Forbidden
	} else if damage := (*durable.DamageError)(nil); !errors.As(err, &damage) {
		return false
	}
	if of == 1 || c.Exact {
		return false
	}
	*list, c.first = distinct(append(*list, number)), cmp.Or(c.first, err)
	return true
}

// retain removes from the other store what it is not to keep.
func (c *JobCopy) retain() error {
	if c.Keep == (Retention{}) {
		return nil
	}
	var err error
	if c.Retained, err = c.to.Retained(c.Keep, nil); err != nil {
		return err
	}
	c.Removed, _, err = c.to.Prune(c.Keep.Last, Numbers(c.Retained)...)
	if len(c.Removed) > 0 {
		c.memo = nil // a file of this name may come again
	}
	return err
}

// open opens the job in the other store, which gets it if it lacks it, and locks it.
func (c *JobCopy) open() error {
	err := c.find()
	if errors.Is(err, ErrJobNotFound) {
		spec, err := c.From.Spec()
		if err != nil {
			return err
		}
		c.to, err = c.To.CreateJob(c.From.name, spec)
		return err
	}
	if err != nil {
		return err
	}
	return c.to.Lock()
}

// find opens the job in the other store. It fails with ErrJobNotFound if there is none.
func (c *JobCopy) find() (err error) {
	if !c.apart {
		same, err := c.To.Same(c.From.store)
		if err == nil && same {
			err = fmt.Errorf("%s %w", c.To.dir, ErrSameStore)
		}
		if err != nil {
			return err
		}
		c.apart = true
	}
	if c.to, err = c.To.Job(c.From.name); err != nil {
		return err
	}
	is, err := c.to.description()
	if err != nil {
		return err
	}
	if was, err := c.From.description(); err != nil || is != was {
		return errors.Join(err, fmt.Errorf("%w: %s, with another description", ErrJobExists, c.to.dir))
	}
	return nil
}

// missing returns the manifests of the checkpoints that the other store lacks.
func (c *JobCopy) missing(numbers []int) (list []*Manifest, err error) {
	for _, n := range numbers {
		if slices.Contains(c.Damaged, n) || slices.Contains(c.Forbidden, n) {
			continue
		}
		m, err := c.From.Manifest(n)
		if errors.Is(err, ErrCheckpointNotFound) && len(numbers) > 1 {
			c.Gone = append(c.Gone, n)
			continue
		}
		if err != nil && c.leavesOut(n, len(numbers), err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if c.to == nil {
			list = append(list, m)
			continue
		}
		is, err := c.to.Manifest(n)
		switch {
		case errors.Is(err, ErrCheckpointNotFound):
			list = append(list, m)
		case err != nil && c.leavesOut(n, len(numbers), err):
		case err != nil:
			return nil, err
		case !m.Same(is):
			return nil, fmt.Errorf("%w: checkpoint %d in %s is another one", ErrParted, n, c.to.dir)
		default:
			c.Present = append(c.Present, n)
		}
	}
	return list, nil
}

// continues checks that the journal of the job begins with that of its copy, but for a line that
// was cut short.
func (c *JobCopy) continues() error {
	if c.Journal == "" {
		return nil
	}
	copied, err := c.to.fs.Open(filepath.Join(c.to.dir, c.Journal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return durable.Op("open", filepath.Join(c.to.dir, c.Journal), -1, err)
	}
	defer copied.Close()
	from, err := c.From.fs.Open(filepath.Join(c.From.dir, c.Journal))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return durable.Op("open", filepath.Join(c.From.dir, c.Journal), -1, err)
	}
	var was int64
	if err == nil {
		defer from.Close()
		if was, err = from.Size(); err != nil {
			return err
		}
	}
	end, err := durable.ReadLines(io.NewSectionReader(copied, 0, math.MaxInt64), func([]byte) {})
	if err != nil || end <= was && sameBytes(copied, from, end) {
		return err
	}
	return fmt.Errorf("%w: %s is no beginning of %s", ErrParted, filepath.Join(c.to.dir, c.Journal), filepath.Join(c.From.dir, c.Journal))
}

// sameBytes reports whether two files begin with the same n bytes, and could be read.
func sameBytes(a, b vfs.File, n int64) bool {
	x, y := make([]byte, copyBytes), make([]byte, copyBytes)
	for at := int64(0); at < n; at += copyBytes {
		k := min(copyBytes, n-at)
		if durable.ReadAt(a, "", x[:k], at) != nil || durable.ReadAt(b, "", y[:k], at) != nil || !bytes.Equal(x[:k], y[:k]) {
			return false
		}
	}
	return true
}

// Same reports whether two manifests are of one checkpoint, and say the same: each ckpt writes its
// own format.
func (a *Manifest) Same(b *Manifest) bool {
	of := *a
	of.Format, of.Fence = b.Format, b.Fence // which the store gives it
	x, err := of.Encode()
	y, yerr := b.Encode()
	return err == nil && yerr == nil && bytes.Equal(x, y)
}

// checkpoint copies a checkpoint. Files that were written before an error stay for the next
// copy.
func (c *JobCopy) checkpoint(ctx context.Context, m *Manifest) error {
	paths, err := c.From.pathsOf(m)
	if err != nil {
		return err
	}
	c.to.mu.Lock()
	tx, err := c.to.begin(m.Number, true)
	c.to.mu.Unlock()
	if err != nil {
		return err
	}
	defer tx.leave()
	var dirs []string
	for _, path := range distinct(paths) {
		if err := c.file(ctx, path, false); err != nil {
			return err
		}
		dirs = append(dirs, filepath.Dir(filepath.Join(c.to.dir, path)))
	}
	if err := c.check(ctx, m); err != nil {
		return err
	}
	for _, dir := range distinct(dirs) {
		if err := c.to.fs.SyncDir(dir); err != nil {
			return durable.Op("sync", dir, -1, err)
		}
	}
	return tx.Commit(ctx, m)
}

// leave ends a checkpoint that was not committed, and leaves its files to the next Sweep.
func (t *Tx) leave() {
	t.job.mu.Lock()
	defer t.job.mu.Unlock()
	if t.job.open[t.number] == t {
		delete(t.job.open, t.number)
	}
}

// check reads what was copied of a checkpoint. A file that is damaged there and sound here is
// copied once more: a disk may have lost what an earlier copy wrote.
func (c *JobCopy) check(ctx context.Context, m *Manifest) error {
	again := make(map[string]bool)
	for {
		var damage *durable.DamageError
		err := c.to.checkAll(ctx, m, c.memo)
		if !errors.As(err, &damage) {
			return err
		}
		c.memo = new(container.Memo)
		if err := c.From.checkAll(ctx, m, new(container.Memo)); err != nil {
			return err
		}
		path, rerr := filepath.Rel(c.to.dir, damage.File)
		if rerr != nil || again[path] || !c.mends && c.inUse(path) {
			return err
		}
		again[path] = true
		if err := c.file(ctx, path, true); err != nil {
			return err
		}
	}
}

// inUse reports whether a checkpoint of the other store may have bytes in a file.
func (c *JobCopy) inUse(path string) bool {
	n, ok := container.PathNumber(path)
	if !ok {
		return true
	}
	catalog, done, err := c.to.known()
	if err != nil {
		return true
	}
	defer done()
	used, unknown := c.to.used(catalog, []int{n})
	return used[path] || n <= unknown
}

// checkAll reads every byte of a checkpoint that may have no manifest yet, but for bytes that the
// memo knows.
func (j *Job) checkAll(ctx context.Context, m *Manifest, memo *container.Memo) error {
	v := &container.Verifier{Place: j.Place(), Note: func(err error) error { return err }, Done: func(int64) {}, Memo: memo}
	for _, f := range m.Files {
		if err := v.File(ctx, f); err != nil {
			return err
		}
	}
	return v.References(ctx, m.Files)
}
