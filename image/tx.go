package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// A Tx is a checkpoint that is being written.
type Tx struct {
	job    *Job
	number int
	dir    string
	// doubted: its manifest was sent to an object storage, and may arrive later than an error.
	doubted bool

	// Trace, if not nil, records the making of joint files and the writing of the manifest.
	Trace *container.Tracing
}

// Begin makes the directory of checkpoint number, which exceeds all committed ones. It needs
// the lock.
func (j *Job) Begin(number int) (*Tx, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.locked("begin checkpoint in"); err != nil {
		return nil, err
	}
	if err := j.inPlace(); err != nil {
		return nil, err
	}
	c, err := j.held()
	if err != nil {
		return nil, err
	}
	if n := len(c.numbers); n > 0 && number <= c.numbers[n-1] {
		latest := c.numbers[n-1]
		return nil, durable.Op("begin checkpoint in", j.NumberDir(number), -1,
			fmt.Errorf("checkpoint %d is committed already", latest))
	}
	return j.begin(number, false)
}

// BeginApart is Begin for groups that take checkpoints by themselves: other groups may have
// newer ones.
func (j *Job) BeginApart(number int) (*Tx, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.begin(number, false)
}

// begin begins a checkpoint. The directory of one that goes on is there.
func (j *Job) begin(number int, continues bool) (*Tx, error) {
	if err := j.locked("begin checkpoint in"); err != nil {
		return nil, err
	}
	if err := j.inPlace(); err != nil {
		return nil, err
	}
	t := &Tx{job: j, number: number, dir: j.NumberDir(number)}
	c, err := j.held()
	if err == nil && c.stale {
		// A checkpoint of this number may have gone, and have a line.
		err = j.removeCatalog(c)
	}
	if err != nil {
		return nil, err
	}
	if number == container.JobNumber {
		return nil, durable.Op("begin checkpoint in", t.dir, -1, errors.New("checkpoints count from 1"))
	}
	err = durable.Mkdir(j.fs, t.dir)
	if errors.Is(err, fs.ErrExist) {
		if ferr := j.forbidden(number); ferr != nil || continues {
			err = ferr
		}
	}
	if err != nil {
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, vfs.ErrForbidden) {
			// Best effort: an empty directory is swept anyhow.
			_ = j.fs.Remove(t.dir)
		}
		return nil, durable.Op("begin checkpoint in", t.dir, -1, err)
	}
	if j.open == nil {
		j.open = make(map[int]*Tx)
	}
	j.open[number] = t
	return t, nil
}

// Number returns the number of the checkpoint.
func (t *Tx) Number() int { return t.number }

// ProcessPath returns the path of the image of a process that is no rank.
func (t *Tx) ProcessPath(i int) string {
	return filepath.Join(t.dir, fmt.Sprintf("process-%d.img", i))
}

// FilesPath returns the path of the container of files beside the images.
func (t *Tx) FilesPath() string { return filepath.Join(t.dir, "files.img") }

// RankPath returns the path at which Write is to put the image of a rank.
func (t *Tx) RankPath(rank int) string { return filepath.Join(t.dir, fmt.Sprintf("rank-%d.img", rank)) }

// SharedPath returns the path of the image of a node's shared segment.
func (t *Tx) SharedPath(node int) string {
	return filepath.Join(t.dir, fmt.Sprintf("node-%d.shared.img", node))
}

// CreateJoint makes the files of a joint layout for container.WriteJoint, and returns their
// paths.
func (t *Tx) CreateJoint(layout plan.Layout, n int) ([]string, error) {
	var paths []string
	for i := range n {
		name := fmt.Sprintf("aggregator-%d.img", i)
		if layout == plan.Shared {
			name = "job.img"
		}
		path := filepath.Join(t.dir, name)
		f, err := t.Trace.On(t.job.fs).Create(path)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return nil, durable.Op("create", path, -1, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// Build creates a container file in the directory of the transaction. Pool may be nil.
func (t *Tx) Build(path string, h container.Header, pool *container.Pool) (*container.Builder, error) {
	return t.job.Place().Build(path, h, pool)
}

// Through returns the checkpoint as written through a file system around its own. The checkpoint
// itself is committed or aborted.
func (t *Tx) Through(fsys vfs.FS) *Tx {
	return &Tx{job: t.job.Through(fsys), number: t.number, dir: t.dir, Trace: t.Trace}
}

// LibraryPath returns the path of the library zone of an imported checkpoint.
func (t *Tx) LibraryPath() string { return filepath.Join(t.dir, "library.img") }

// Commit makes the checkpoint exist, for all its ranks at once, after checking that every file
// in m is there as m says. Once it returns nil the checkpoint survives a loss of power; if it
// fails nothing remains of it, as far as the file system allows, and earlier ones are
// untouched.
//
// Commit fills in m.Format, m.StoredBytes and, if they are zero, m.Job and m.Number.
func (t *Tx) Commit(ctx context.Context, m *Manifest) error {
	err := t.commit(ctx, m)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("commit checkpoint %d: %w", t.number, err)
	if aerr := t.Abort(); aerr != nil {
		err = fmt.Errorf("%w; then %w", err, aerr)
	}
	return err
}

func (t *Tx) commit(ctx context.Context, m *Manifest) error {
	j := t.job
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.locked("commit to"); err != nil {
		return err
	}
	if j.open[t.number] != t {
		return durable.Op("commit to", t.dir, -1, errors.New("the checkpoint was committed or aborted before"))
	}
	if err := t.complete(m); err != nil {
		return durable.Op("commit to", t.dir, -1, err)
	}
	dirs := []int{t.number}
	var paths []string
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return durable.Op("commit to", t.dir, -1, err)
		}
		refs, err := j.Place().References(f, true)
		if err != nil {
			return err
		}
		dirs = append(dirs, f.Number())
		paths = append(append(paths, f.Path), refs...)
	}
	lease, leased := j.lock.(vfs.Lease)
	if m.Fence = 0; leased {
		m.Fence = lease.Fence()
	}
	b, err := m.Encode()
	if err != nil {
		return durable.Op("commit to", t.dir, -1, err)
	}
	// Every byte is durable: each Write has seen to it. Now every name.
	slices.Sort(dirs)
	for _, n := range slices.Compact(dirs) {
		if err := j.fs.SyncDir(j.NumberDir(n)); err != nil {
			return durable.Op("sync", j.NumberDir(n), -1, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return durable.Op("commit to", t.dir, -1, err)
	}
	// A process that takes the lock after this sees the directory, and forbids the manifest or
	// meets it.
	if leased {
		if err := lease.Renew(); err != nil {
			return durable.Op("commit to", t.dir, -1, err)
		}
		t.doubted = true
	}
	// The commit point.
	if err := durable.Replace(t.Trace.On(j.fs), filepath.Join(t.dir, manifestName), b); err != nil {
		return durable.Op("write", j.manifestPath(t.number), -1, err)
	}
	delete(j.open, t.number)
	j.noteCommit(m, paths)
	return nil
}

// noteCommit tells the catalog of a checkpoint that exists now, whatever comes of it.
func (j *Job) noteCommit(m *Manifest, paths []string) {
	r, err := j.newRecord(m, paths)
	if err != nil {
		r = &record{number: m.Number, unread: true}
	}
	j.note(r)
}

// complete fills in what Commit knows and checks the rest.
func (t *Tx) complete(m *Manifest) error {
	m.Format = formatVersion
	if m.Job == "" {
		m.Job = t.job.name
	}
	if m.Number == 0 {
		m.Number = t.number
	}
	if m.Job != t.job.name || m.Number != t.number {
		return fmt.Errorf("manifest is of checkpoint %d of job %s", m.Number, m.Job)
	}
	var err error
	if m.Description, err = t.job.description(); err != nil {
		return err
	}
	// Lists are written as lists, also when empty.
	m.Mapping, m.Files, m.Ranks = listed(m.Mapping), listed(m.Files), listed(m.Ranks)
	m.StoredBytes = 0
	for i, f := range m.Files {
		m.Files[i].Ranks = listed(f.Ranks)
		if f.Number() == t.number {
			m.StoredBytes += f.Bytes - f.Holes
		}
	}
	return m.check()
}

func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Abort removes what was written of the checkpoint. After a Commit it does nothing.
func (t *Tx) Abort() error {
	j := t.job
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open[t.number] != t {
		return nil
	}
	delete(j.open, t.number)
	if err := j.locked("abort"); err != nil {
		return err
	}
	err := t.settle()
	if err == nil {
		err = j.removeCheckpoint(t.number)
	}
	if err != nil {
		j.forgetKnown() // it may exist after all
	}
	return durable.Op("abort", t.dir, -1, err)
}

// settle sees to it that a manifest that is under way does not arrive later.
func (t *Tx) settle() error {
	f, ok := t.job.fs.(vfs.Fencer)
	if !ok || !t.doubted {
		return nil
	}
	err := f.Forbid(t.job.manifestPath(t.number))
	if errors.Is(err, fs.ErrExist) {
		if err = t.job.uncommit(t.number); err == nil {
			err = f.Forbid(t.job.manifestPath(t.number))
		}
	}
	return err
}

// removeCheckpoint takes back a checkpoint that no other refers to.
func (j *Job) removeCheckpoint(n int) error {
	// A manifest that may be in place goes first, durably: files go once the checkpoint surely
	// does not exist.
	if err := j.uncommit(n); err != nil {
		return err
	}
	dir := j.NumberDir(n)
	entries, err := j.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, j.fs.Remove(filepath.Join(dir, e.Name())))
	}
	errs = append(errs, j.fs.Remove(dir), j.fs.SyncDir(j.dir))
	return errors.Join(errs...)
}

// Drop takes committed checkpoints back, durably; the next Sweep removes their files. It needs
// the lock.
func (j *Job) Drop(numbers ...int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.locked("drop from"); err != nil {
		return err
	}
	removed, err := j.takeBack(numbers)
	if err != nil {
		return durable.Op("drop", j.NumberDir(numbers[len(removed)]), -1, err)
	}
	return nil
}

// takeBack takes committed checkpoints back, in order, and returns those that have gone.
func (j *Job) takeBack(numbers []int) (removed []int, err error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	c, err := j.held()
	if err != nil {
		return nil, err
	}
	if err := j.announce(c, numbers); err != nil {
		return nil, err
	}
	for _, n := range numbers {
		if err := j.uncommit(n); err != nil {
			// The catalog says that the rest has gone as well.
			j.forgetKnown()
			return removed, err
		}
		j.change(func(c *catalog) { c.remove(n) })
		removed = append(removed, n)
	}
	return removed, nil
}

// uncommit removes the manifest of checkpoint n, if it has one, durably.
func (j *Job) uncommit(n int) error {
	err := j.fs.Remove(j.manifestPath(n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return j.fs.SyncDir(j.NumberDir(n))
}

// WriteLibrary stores the library zone of the program once for the job, and returns its entry
// for manifests. Number is the checkpoint that needs it first: until that is committed, Sweep
// removes the file, and another attempt replaces it. It needs the lock. It writes through fsys,
// the file system of the job or one around it.
func (j *Job) WriteLibrary(ctx context.Context, fsys vfs.FS, number int, regions []zones.Region, opt container.WriteOptions) (container.File, error) {
	j.mu.Lock()
	err := j.locked("write library to")
	j.mu.Unlock()
	if err != nil {
		return container.File{}, err
	}
	dir := j.NumberDir(container.JobNumber)
	if err := durable.Mkdir(j.fs, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return container.File{}, durable.Op("write library to", dir, -1, err)
	}
	name := filepath.Join(dir, libraryName(number))
	if _, err := j.fs.Stat(j.manifestPath(number)); errors.Is(err, fs.ErrNotExist) {
		if err := durable.Remove(j.fs, name); err != nil {
			return container.File{}, err
		}
	}
	h := container.Header{Job: j.name, Number: container.JobNumber, Rank: -1, Node: -1, Kind: container.KindLibrary}
	info, err := container.Write(ctx, fsys, name, h, regions, opt)
	if err != nil {
		return container.File{}, err
	}
	return container.File{Path: container.JobPath(name), Kind: container.KindLibrary, Ranks: []int{}, Node: -1, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}, nil
}

// libraryName names the image of the library by the checkpoint that needs it first.
func libraryName(number int) string { return fmt.Sprintf("library-%d.img", number) }

// WroteLibrary reports whether f is the library zone, written for this checkpoint.
func (m *Manifest) WroteLibrary(f container.File) bool {
	return f.Path == container.JobPath(filepath.Join(container.FormatNumber(container.JobNumber), libraryName(m.Number)))
}
