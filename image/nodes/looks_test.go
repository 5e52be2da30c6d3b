package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// looks is the states that a test looks at.
type looks struct {
	every  int // of so many operations one is looked after
	want   int64
	states atomic.Int64
	checks errgroup.Group
	counts [6]atomic.Int64
	lie    func(*memfs.FS) // if not nil, makes the disk of a node lie
}

// The outcomes that are counted.
const (
	outNothing = iota
	outLocal
	outCopy
	outParity
	outStore
	outBeyond // more was lost than the protection is for
)

// newLooks returns some for CI, or many.
func newLooks() *looks {
	l := &looks{every: 8, want: 500}
	switch {
	case testkit.Enabled:
		l.every, l.want = 16, 500 // of as many lives
	case os.Getenv("CKPT_NIGHTLY") != "":
		l.every, l.want = 1, 100_000
	}
	l.checks.SetLimit(2)
	return l
}

func (l *looks) enough() bool { return l.states.Load() >= l.want }

// report says what was seen, and fails if something never was.
func (l *looks) report(t *testing.T) {
	t.Helper()
	n := make([]int64, len(l.counts))
	for i := range n {
		n[i] = l.counts[i].Load()
	}
	t.Logf("%d states: restarted from nothing %d, local files %d, copies %d, parity %d, the store %d; beyond the protection %d",
		l.states.Load(), n[outNothing], n[outLocal], n[outCopy], n[outParity], n[outStore], n[outBeyond])
	if slices.Contains(n, 0) {
		t.Error("some outcome never came up")
	}
}

// A state is what a crash has left.
type state struct {
	promise
	setting    Setting
	nodeOf     []int
	disks      []*memfs.FS
	storage    *memfs.FS
	storeSound bool
	rng        *rand.Rand
}

// crash returns a state that a crash may leave now. The caller holds v.mu.
func (v *life) crash() *state {
	rng := rand.New(rand.NewPCG(v.random.Uint64(), 3))
	c := memfs.Crash{Mode: []memfs.Mode{memfs.Random, memfs.Random, memfs.Lost, memfs.Kept}[rng.IntN(4)]}
	s := &state{promise: v.promise.clone(), setting: v.w.setting, nodeOf: v.w.nodeOf, rng: rng, storeSound: true}
	for _, d := range v.disks {
		c.Seed = rng.Uint64()
		s.disks = append(s.disks, d.CrashClone(c))
	}
	c.Seed = rng.Uint64()
	s.storage = v.storage.CrashClone(c)
	for range rng.IntN(s.strength + 3) {
		node := rng.IntN(len(s.disks))
		s.disks[node], s.lost[node] = memfs.New(), true
	}
	switch rng.IntN(6) {
	case 0:
		node := rng.IntN(len(s.disks))
		if damage(rng, s.disks[node]) {
			s.lost[node] = true
		}
	case 1:
		s.storeSound = !damage(rng, s.storage)
	}
	return s
}

// at looks at a state, behind the life.
func (l *looks) at(where string, s *state) {
	l.states.Add(1)
	l.checks.Go(func() error {
		if err := l.look(context.Background(), s); err != nil {
			return fmt.Errorf("%s, lost %v, strength %d, committed %d, stored %d: %w", where, s.lost, s.strength, s.must, s.stored, err)
		}
		return nil
	})
}

// look restarts from a state, and sometimes goes on.
func (l *looks) look(ctx context.Context, s *state) error {
	w := &world{setting: s.setting, nodeOf: s.nodeOf, storage: s.storage}
	for _, d := range s.disks {
		w.disks = append(w.disks, d)
	}
	if err := w.open(); err != nil {
		return err
	}
	if err := w.openStore(); err != nil && s.storeSound {
		return err
	}
	var r start
	if err := r.restart(ctx, w, s.promise, s.storeSound); err != nil {
		return err
	}
	l.counts[r.outcome()].Add(1)
	if len(s.lost) > s.strength {
		l.counts[outBeyond].Add(1)
	}
	if s.rng.IntN(8) > 0 {
		return nil
	}
	return r.proceed(ctx, w)
}

// A start is a restart of a job, and how it ended.
type start struct {
	versions []Version // of the nodes
	number   int       // that was restored, or 0
	local    bool      // from the nodes
	stored   bool      // the store has it, too
	sources  []Source
	passed   []error // why newer ones were not
}

func (r *start) outcome() int {
	switch {
	case r.number == 0:
		return outNothing
	case !r.local:
		return outStore
	case slices.Contains(r.sources, FromParity):
		return outParity
	case slices.Contains(r.sources, FromCopy):
		return outCopy
	}
	return outLocal
}

// restart restores the newest version that is whole on the nodes or in the store, and
// compares it with what was promised.
func (r *start) restart(ctx context.Context, w *world, p promise, storeSound bool) error {
	found, errs := w.tier.Versions(ctx)
	r.versions, _ = w.tier.Settle(ctx, found, w.store, nil)
	var stored []int
	if w.store != nil {
		var err error
		if stored, err = w.store.Checkpoints(); err != nil && storeSound {
			return err
		}
	}
	numbers := slices.Clone(stored)
	for _, v := range r.versions {
		numbers = append(numbers, v.Number)
	}
	slices.Sort(numbers)
	for _, n := range slices.Backward(slices.Compact(numbers)) {
		r.stored = slices.Contains(stored, n)
		ok, err := r.try(ctx, w, n, p)
		if err != nil {
			return fmt.Errorf("version %d: %w", n, err)
		}
		if ok {
			r.number = n
			break
		}
	}
	if least := p.least(storeSound); r.number < least {
		return fmt.Errorf("restarted from version %d, but %d was promised: %w", r.number, least, errors.Join(append(r.passed, errs...)...))
	}
	return nil
}

// try restores a version; false if it is whole nowhere.
func (r *start) try(ctx context.Context, w *world, number int, p promise) (bool, error) {
	for _, v := range r.versions {
		if v.Number != number {
			continue
		}
		if int(v.Manifest.Iteration) != p.iterations[number] {
			return false, fmt.Errorf("it is of iteration %d, not %d", v.Manifest.Iteration, p.iterations[number])
		}
		sources, err := w.recovered(ctx, v.Manifest)
		if err == nil {
			r.local, r.sources = true, sources
			return true, nil
		}
		if !errors.Is(err, ErrNotHere) {
			return false, err
		}
		r.passed = append(r.passed, err)
	}
	if !r.stored {
		return false, nil
	}
	m, err := w.store.Manifest(number)
	if err != nil {
		return false, nil // damaged: it says so
	}
	for rank := range w.nodeOf {
		if err := check(ctx, w.store, m, rank); err != nil {
			return false, onlyDamage(err)
		}
	}
	return true, nil
}

// onlyDamage lets errors pass that say that a file is damaged.
func onlyDamage(err error) error {
	if damage := (*durable.DamageError)(nil); errors.As(err, &damage) || errors.Is(err, durable.ErrOtherJob) || errors.Is(err, durable.ErrNewerVersion) {
		return nil
	}
	return err
}

// proceed goes on after a restart: what is left over goes, and the next version is taken.
func (r *start) proceed(ctx context.Context, w *world) error {
	if errs := w.tier.Sweep(ctx, r.versions); len(errs) > 0 {
		return errors.Join(errs...)
	}
	if w.store == nil {
		return nil
	}
	next, err := Next(w.store, nil, r.versions)
	if err != nil {
		return err
	}
	m, err := w.write(ctx, next, 5000)
	if err == nil {
		err = w.tier.Commit(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("version %d after the restart: %w", next, err)
	}
	if _, err = w.recovered(ctx, m); err != nil {
		return fmt.Errorf("version %d after the restart: %w", next, err)
	}
	return nil
}

// damage flips a bit of a file of a version, if it has one.
func damage(rng *rand.Rand, fsys *memfs.FS) bool {
	files := filesBelow(fsys, "/")
	if len(files) == 0 {
		return false
	}
	name := files[rng.IntN(len(files))]
	f, err := fsys.OpenWrite(name)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return false
	}
	at := rng.Int64N(size)
	b := []byte{0}
	if _, err := f.ReadAt(b, at); err != nil {
		return false
	}
	b[0] ^= 1 << rng.IntN(8)
	_, err = f.WriteAt(b, at)
	return err == nil && f.Sync() == nil
}

// filesBelow lists the files of versions, and the manifests.
func filesBelow(fsys vfs.FS, dir string) []string {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil
	}
	var files []string
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			files = append(files, filesBelow(fsys, name)...)
		case strings.HasSuffix(name, ".img"), strings.HasSuffix(name, ".par"), strings.HasSuffix(name, "/manifest"), strings.HasSuffix(name, "/node"):
			files = append(files, name)
		}
	}
	return files
}
