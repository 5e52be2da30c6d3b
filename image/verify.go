package image

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"ckpt/internal/durable"

	"golang.org/x/sync/errgroup"
)

const (
	verifyFiles = 3   // files verified at a time
	maxDamage   = 100 // entries in the report per file
)

// A Report says what Verify found.
type Report struct {
	CheckedBytes int64
	Damage       []Damage // by file and offset; empty if all is well
}

// Damage is one place that is not what was written.
type Damage struct {
	File   string
	Offset int64
	Reason string
}

// Verify reads every byte of checkpoint n, also what it uses in files of earlier
// checkpoints, and the description of the job, and reports all damage. It
// needs no lock and little memory. Progress, if not nil, is told the bytes
// checked since the last call; it is never called twice at once.
//
// Damage is in the report; the error is for what kept Verify from looking:
// ErrCheckpointNotFound, durable.ErrNewerVersion, no permission, ctx.
func (j *Job) Verify(ctx context.Context, n int, progress func(int64)) (Report, error) {
	v := &verifier{job: j, progress: progress, used: make(map[string]*usedFile), damage: make(map[string][]Damage)}
	if _, err := j.Spec(); err != nil {
		if err := v.note(err); err != nil {
			return v.report(), err
		}
	}
	m, err := j.Manifest(n)
	if err != nil {
		err = v.note(err)
		return v.report(), err
	}
	if fi, err := j.fs.Stat(j.manifestPath(n)); err == nil {
		v.done(fi.Size())
	}
	listed := make(map[string]bool)
	for _, f := range m.Files {
		listed[f.Path] = true
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(verifyFiles)
	for _, f := range m.Files {
		g.Go(func() error { return v.file(gctx, m, f) })
	}
	if err := g.Wait(); err != nil {
		return v.report(), err
	}
	// Files that only extents refer to come after the others: which they are,
	// and what is used of them, is known only now.
	for _, name := range slices.Sorted(maps.Keys(v.used)) {
		if listed[name] {
			continue
		}
		if err := v.ref(ctx, v.used[name]); err != nil {
			return v.report(), err
		}
	}
	rep := v.report()
	if len(rep.Damage) > 0 {
		// A job that runs takes what it needs no longer away: the manifest, then
		// the files.
		if _, err := j.Manifest(n); errors.Is(err, ErrCheckpointNotFound) {
			return rep, err
		}
	}
	return rep, nil
}

type verifier struct {
	job      *Job
	progress func(int64)

	mu      sync.Mutex
	checked int64
	used    map[string]*usedFile
	damage  map[string][]Damage // by file
}

// usedFile is what the checkpoint uses of a file that it does not list.
type usedFile struct {
	fileRec
	from    *container
	extents map[int64]extentRec // by offset in the file
}

func (v *verifier) use(c *container, k int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ref := c.index.files[k]
	u := v.used[ref.path]
	if u == nil {
		u = &usedFile{fileRec: ref, from: c, extents: make(map[int64]extentRec)}
		v.used[ref.path] = u
	}
	for _, e := range c.index.extents {
		if e.fileRef == uint32(k+1) {
			u.extents[e.fileOff] = e
		}
	}
}

// note keeps err if it is damage, else returns it.
func (v *verifier) note(err error) error {
	if err == nil {
		return nil
	}
	var d *durable.DamageError
	var other *otherJobError
	switch {
	case errors.As(err, &d):
	case errors.As(err, &other):
		d = &durable.DamageError{File: other.file, Reason: other.reason()}
	default:
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.damage[d.File]) < maxDamage {
		v.damage[d.File] = append(v.damage[d.File], Damage{d.File, d.Offset, d.Reason})
	}
	return nil
}

func (v *verifier) done(n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked += n
	if v.progress != nil {
		v.progress(n)
	}
}

func (v *verifier) file(ctx context.Context, m *Manifest, f File) error {
	c, err := v.job.openFile(m, f)
	if err != nil {
		return v.note(err)
	}
	defer c.Close()
	for k, ref := range c.index.files {
		if err := v.refersTo(c, uint32(k+1), ref); err != nil {
			return err
		}
		v.use(c, k)
	}
	if err := v.extents(ctx, c, c.index.ownOnce()); err != nil {
		return err
	}
	return v.reader().holes(ctx, c)
}

// ref checks what the checkpoint uses of a file. The rest, and what that file
// refers to itself, may be damaged or gone for all this checkpoint cares.
func (v *verifier) ref(ctx context.Context, u *usedFile) error {
	c, err := v.job.openRef(u.from, u.fileRec)
	if err != nil {
		return v.note(err)
	}
	defer c.Close()
	list := slices.Collect(maps.Values(u.extents))
	slices.SortFunc(list, func(a, b extentRec) int { return cmp.Compare(a.fileOff, b.fileOff) })
	return v.extents(ctx, c, list)
}

// extents checks extents of an open container, whose index is checked.
func (v *verifier) extents(ctx context.Context, c *container, list []extentRec) error {
	v.done(c.size - c.trailer.indexOffset + blockSize)
	return v.reader().read(ctx, c.f, c.path, list)
}

func (v *verifier) reader() *reader { return &reader{depth: 1, bad: v.note, progress: v.done} }

// refersTo checks that the extents which c takes from another file are extents of
// that, which is verified by itself, once.
func (v *verifier) refersTo(c *container, k uint32, ref fileRec) error {
	x, err := v.job.openRef(c, ref)
	if err != nil {
		return v.note(err)
	}
	defer x.Close()
	return v.note(c.checkRefs(k, x))
}

func (v *verifier) report() Report {
	v.mu.Lock()
	defer v.mu.Unlock()
	rep := Report{CheckedBytes: v.checked}
	for _, list := range v.damage {
		rep.Damage = append(rep.Damage, list...)
	}
	slices.SortFunc(rep.Damage, func(a, b Damage) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Offset != b.Offset {
			return int(min(max(a.Offset-b.Offset, -1), 1))
		}
		return strings.Compare(a.Reason, b.Reason)
	})
	rep.Damage = slices.Compact(rep.Damage)
	return rep
}
