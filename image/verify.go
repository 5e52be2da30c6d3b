package image

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"ckpt/image/container"
	"ckpt/internal/durable"

	"golang.org/x/sync/errgroup"
)

const (
	verifyFiles = 3   // files verified at a time
	maxDamage   = 100 // entries in the report per file
)

// A Report says what Verify found.
type Report struct {
	CheckedBytes int64    // of files, read for this checkpoint
	Damage       []Damage // by file and offset; empty if all is well
}

// Damage is one place that is not what was written.
type Damage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

// A Verification verifies checkpoints of one job, and reads bytes that they share once.
type Verification struct {
	job  *Job
	memo container.Memo
}

// Verification returns one that has read nothing.
func (j *Job) Verification() *Verification { return &Verification{job: j} }

// Verify is Checkpoint of a new Verification.
func (j *Job) Verify(ctx context.Context, n int, progress func(int64)) (Report, error) {
	return j.Verification().Checkpoint(ctx, n, progress)
}

// Checkpoint reads every byte of checkpoint n, also in files of earlier checkpoints, and the
// description of the job, and reports all damage, also damage found before. It needs no lock
// and little memory. Progress, if not nil, is told the bytes checked since its last call, one
// call at a time.
//
// The error tells what kept Checkpoint from looking: ErrCheckpointNotFound,
// durable.ErrNewerVersion, no permission, ctx.
func (a *Verification) Checkpoint(ctx context.Context, n int, progress func(int64)) (Report, error) {
	j := a.job
	v := &verifier{progress: progress, damage: make(map[string][]Damage)}
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
	files := &container.Verifier{Place: j.Place(), Note: v.note, Done: v.done, Memo: &a.memo}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(verifyFiles)
	for _, f := range m.Files {
		g.Go(func() error { return files.File(gctx, f) })
	}
	if err := g.Wait(); err != nil {
		return v.report(), err
	}
	if err := files.References(ctx, m.Files); err != nil {
		return v.report(), err
	}
	rep := v.report()
	if len(rep.Damage) > 0 {
		// A running job may have taken it back: the manifest, then the files.
		if _, err := j.Manifest(n); errors.Is(err, ErrCheckpointNotFound) {
			return rep, err
		}
	}
	return rep, nil
}

type verifier struct {
	progress func(int64)

	mu      sync.Mutex
	checked int64
	damage  map[string][]Damage // by file
}

// note keeps err if it is damage, else returns it.
func (v *verifier) note(err error) error {
	if err == nil {
		return nil
	}
	var d *durable.DamageError
	var other *container.OtherJobError
	switch {
	case errors.As(err, &d):
	case errors.As(err, &other):
		d = &durable.DamageError{File: other.File, Reason: other.Reason()}
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

func (v *verifier) report() Report {
	v.mu.Lock()
	defer v.mu.Unlock()
	rep := Report{CheckedBytes: v.checked}
	for _, list := range v.damage {
		rep.Damage = append(rep.Damage, list...)
	}
	slices.SortFunc(rep.Damage, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset),
			cmp.Compare(a.Reason, b.Reason))
	})
	rep.Damage = slices.Compact(rep.Damage)
	return rep
}
