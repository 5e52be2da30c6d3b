package image

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

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

// Verify reads every byte of checkpoint n, also in files of earlier checkpoints
// that it uses, and the description of the job, and reports all damage. It
// needs no lock and little memory. Progress, if not nil, is told the bytes
// checked since the last call; it is never called twice at once.
//
// Damage is in the report; the error is for what kept Verify from looking:
// ErrCheckpointNotFound, ErrNewerVersion, no permission, ctx.
func (j *Job) Verify(ctx context.Context, n int, progress func(int64)) (Report, error) {
	v := &verifier{job: j, progress: progress, damage: make(map[string][]Damage)}
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
	// Files that only extents refer to come after the others: which they are
	// is known only now.
	for _, ref := range v.refs {
		if listed[ref.path] {
			continue
		}
		listed[ref.path] = true
		if err := v.ref(ctx, ref); err != nil {
			return v.report(), err
		}
	}
	return v.report(), nil
}

type verifier struct {
	job      *Job
	progress func(int64)

	mu      sync.Mutex
	checked int64
	refs    []reference
	damage  map[string][]Damage // by file
}

type reference struct {
	fileRec
	from *container
}

// note keeps err if it is damage, else returns it.
func (v *verifier) note(err error) error {
	if err == nil {
		return nil
	}
	var d *DamageError
	var other *otherJobError
	switch {
	case errors.As(err, &d):
	case errors.As(err, &other):
		d = &DamageError{File: other.file, Reason: other.reason()}
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
	v.mu.Lock()
	for _, ref := range c.index.files {
		v.refs = append(v.refs, reference{ref, c})
	}
	v.mu.Unlock()
	if err := v.payload(ctx, c); err != nil {
		return err
	}
	for k, ref := range c.index.files {
		if err := v.refersTo(c, uint32(k+1), ref); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) ref(ctx context.Context, ref reference) error {
	c, err := v.job.openRef(ref.from, ref.fileRec)
	if err != nil {
		return v.note(err)
	}
	defer c.Close()
	// What it refers to itself is of no concern to this checkpoint.
	return v.payload(ctx, c)
}

// payload checks what is not checked yet of what an open container holds itself.
func (v *verifier) payload(ctx context.Context, c *container) error {
	v.done(c.size - c.trailer.indexOffset + blockSize)
	r := &reader{depth: 1, bad: v.note, progress: v.done}
	return r.read(ctx, c.f, c.path, c.index.ownOnce())
}

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
