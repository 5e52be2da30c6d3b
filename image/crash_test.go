package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"ckpt/image/container"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A crashRun is a workload on a file system in memory. After every operation it
// looks at the states that a loss of power may leave then.
type crashRun struct {
	fs     *memfs.FS
	clones int // per operation
	ops    int
	states int             // looked at
	seen   map[string]bool // those of them that differ, in contents or in what must be there
	checks errgroup.Group

	// lie, if not nil, is called when the job has been made.
	lie func(*memfs.FS)

	// The results that the workload got so far.
	store, job bool
	may        map[int]bool // may be there
	must       map[int]bool // Commit has returned nil, and no prune since
}

func newCrashRun(clones int) *crashRun {
	r := &crashRun{fs: memfs.New(), clones: clones, may: make(map[int]bool), must: make(map[int]bool), seen: make(map[string]bool)}
	r.checks.SetLimit(2)
	r.fs.AfterOp = r.afterOp
	return r
}

func (r *crashRun) afterOp(op, name string) {
	r.ops++
	for i := range r.clones {
		crash := memfs.Crash{Mode: memfs.Random, Seed: uint64(r.ops)<<16 | uint64(i)}
		switch i {
		case 0:
			crash.Mode = memfs.Lost
		case 1:
			crash.Mode = memfs.Kept
		}
		after := r.fs.CrashClone(crash)
		check := crashCheck{store: r.store, job: r.job, may: maps.Clone(r.may), must: maps.Clone(r.must)}
		// Sweeping is itself a time at which power may be lost; looking at
		// that for every state would take too long.
		check.again = i%40 == 2
		check.proceed = i%8 == 3
		r.states++
		key := fmt.Sprint(after.Digest(), check)
		if r.seen[key] {
			continue
		}
		r.seen[key] = true
		where := fmt.Sprintf("operation %d (%s %s), crash %+v", r.ops, op, name, crash)
		r.checks.Go(func() error {
			if err := check.run(after); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
			return nil
		})
	}
}

type crashCheck struct {
	store, job bool
	may, must  map[int]bool
	again      bool // crash again during the sweep
	proceed    bool // take another checkpoint
}

func (c crashCheck) run(after *memfs.FS) error {
	var nested error
	if c.again {
		seed := uint64(0)
		after.AfterOp = func(op, name string) {
			seed++
			inner := crashCheck{store: c.store, job: c.job, may: c.may, must: c.must}
			if err := inner.run(after.CrashClone(memfs.Crash{Seed: seed})); err != nil && nested == nil {
				nested = fmt.Errorf("then %s %s: %w", op, name, err)
			}
		}
	}
	k, err := reopen(after, "/store")
	switch {
	case errors.Is(err, ErrNoStore) && !c.store, errors.Is(err, ErrJobNotFound) && !c.job:
		// Starting again must work.
		s, err := CreateStore(after, "/store")
		if err != nil {
			return err
		}
		_, err = s.CreateJob(testJob, nil)
		return err
	case err != nil:
		return err
	}
	if _, err := k.job.Sweep(); err != nil {
		return err
	}
	after.AfterOp = nil
	if nested != nil {
		return nested
	}
	there, err := k.job.Checkpoints()
	if err != nil {
		return err
	}
	for _, n := range there {
		if !c.may[n] {
			return fmt.Errorf("checkpoint %d is there", n)
		}
		if err := checkCheckpoint(k.job, n); err != nil {
			return err
		}
	}
	for n := range c.must {
		if !slices.Contains(there, n) {
			return fmt.Errorf("checkpoint %d is lost", n)
		}
	}
	if err := checkNoDebris(k.job); err != nil {
		return err
	}
	if c.proceed {
		latest, err := k.job.Latest()
		if err != nil {
			return err
		}
		if _, err := k.take(latest + 1); err != nil {
			return err
		}
		return checkCheckpoint(k.job, latest+1)
	}
	return nil
}

// work carries out a workload: checkpoints committed and aborted, some that
// refer to others, pruned and swept, and a coordinator that starts again.
func (r *crashRun) work(steps []step) error {
	s, err := CreateStore(r.fs, "/store")
	if err != nil {
		return err
	}
	r.store = true
	j, err := s.CreateJob(testJob, []byte("{}\n"))
	if err != nil {
		return err
	}
	r.job = true
	if r.lie != nil {
		r.lie(r.fs)
	}
	k := &taker{fs: r.fs, job: j}
	for i, step := range steps {
		if err := step.do(r, k, step.arg); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// A step of a workload; arg is what to keep if it prunes.
type step struct {
	do  func(r *crashRun, k *taker, arg int) error
	arg int
}

// script is a workload that goes through what matters in an order that matters.
var script = []step{
	{do: (*crashRun).take},
	{do: (*crashRun).take}, // refers to 1, in the manifest and in an index
	{do: (*crashRun).abort},
	{do: (*crashRun).take},
	{(*crashRun).prune, 2}, // the files of 1 stay in use
	{do: (*crashRun).die},
	{do: (*crashRun).rebase}, // 3 is the last to refer to the image in 1
	{do: (*crashRun).take},
	{do: (*crashRun).fail},
	{do: (*crashRun).failLate},
	{(*crashRun).diePruning, 2},
	{do: (*crashRun).take},
	{(*crashRun).thin, 2},
	{(*crashRun).prune, 1},
	{(*crashRun).prune, 0},
	{do: (*crashRun).take},
}

// randomScript is a workload that follows from seed.
func randomScript(seed uint64) []step {
	rng := rand.New(rand.NewPCG(seed, 0))
	steps := []step{{do: (*crashRun).take}}
	for range 10 {
		switch rng.IntN(12) {
		case 0:
			steps = append(steps, step{do: (*crashRun).abort})
		case 1:
			steps = append(steps, step{do: (*crashRun).die})
		case 2:
			steps = append(steps, step{do: (*crashRun).rebase})
		case 3:
			steps = append(steps, step{do: (*crashRun).fail})
		case 4:
			steps = append(steps, step{(*crashRun).prune, rng.IntN(3)})
		case 5:
			steps = append(steps, step{do: (*crashRun).failLate})
		case 6:
			steps = append(steps, step{(*crashRun).diePruning, rng.IntN(3)})
		case 7:
			steps = append(steps, step{(*crashRun).thin, 1 + rng.IntN(2)})
		default:
			steps = append(steps, step{do: (*crashRun).take})
		}
	}
	return steps
}

func (r *crashRun) take(k *taker, _ int) error {
	n, err := k.next()
	if err != nil {
		return err
	}
	r.may[n] = true
	if _, err := k.take(n); err != nil {
		return err
	}
	r.must[n] = true
	return nil
}

// rebase takes a checkpoint that refers to none in its indexes.
func (r *crashRun) rebase(k *taker, _ int) error {
	k.base = nil
	return r.take(k, 0)
}

func (r *crashRun) abort(k *taker, _ int) error {
	n, err := k.next()
	if err != nil {
		return err
	}
	tx, err := k.job.Begin(n)
	if err != nil {
		return err
	}
	if _, err := k.write(tx); err != nil {
		return err
	}
	return tx.Abort()
}

// fail commits what cannot be committed.
func (r *crashRun) fail(k *taker, _ int) error {
	n, err := k.next()
	if err != nil {
		return err
	}
	tx, err := k.job.Begin(n)
	if err != nil {
		return err
	}
	m, err := k.write(tx)
	if err != nil {
		return err
	}
	m.Files[0].Bytes += container.BlockSize
	if err := tx.Commit(context.Background(), m); err == nil {
		return errors.New("a manifest with a wrong length was committed")
	}
	return nil
}

// die leaves debris for the next coordinator to sweep.
func (r *crashRun) die(k *taker, _ int) error {
	n, err := k.next()
	if err != nil {
		return err
	}
	tx, err := k.job.Begin(n)
	if err != nil {
		return err
	}
	if _, err := k.write(tx); err != nil {
		return err
	}
	if err := k.job.Unlock(); err != nil {
		return err
	}
	base := k.base
	again, err := reopen(r.fs, "/store")
	if err != nil {
		return err
	}
	*k = *again
	k.base = base
	removed, err := k.job.Sweep()
	if err == nil && len(removed) == 0 {
		err = errors.New("nothing was swept")
	}
	return err
}

// An unsyncable file system does not sync directories that fail chooses.
type unsyncable struct {
	vfs.FS
	fail func(name string) bool
}

func (u unsyncable) SyncDir(name string) error {
	if u.fail(name) {
		return &fs.PathError{Op: "syncdir", Path: name, Err: syscall.EIO}
	}
	return u.FS.SyncDir(name)
}

// through carries out f as another coordinator that sees the disk through fsys,
// and then starts again.
func (r *crashRun) through(k *taker, fsys vfs.FS, f func(*taker) error) error {
	library, base := k.library, k.base
	for i, fsys := range []vfs.FS{fsys, r.fs} {
		if err := k.job.Unlock(); err != nil {
			return err
		}
		again, err := reopen(fsys, "/store")
		if err != nil {
			return err
		}
		*k = *again
		k.library, k.base = library, base
		if i == 0 {
			if err := f(k); err == nil {
				return errors.New("nothing failed")
			}
		}
	}
	_, err := k.job.Sweep()
	return err
}

// failLate has a commit fail when its manifest is in place but not durably.
func (r *crashRun) failLate(k *taker, _ int) error {
	n, err := k.next()
	if err != nil {
		return err
	}
	failed := false
	disk := unsyncable{r.fs, func(name string) bool {
		_, err := r.fs.Stat(filepath.Join(name, manifestName))
		hit := !failed && err == nil && filepath.Base(name) == container.FormatNumber(n)
		failed = failed || hit
		return hit
	}}
	r.may[n] = true
	err = r.through(k, disk, func(k *taker) error {
		_, err := k.take(n)
		return err
	})
	delete(r.may, n)
	return err
}

// diePruning has a coordinator die when it has removed a manifest but not made
// that durable. The next one must, before it sweeps.
func (r *crashRun) diePruning(k *taker, keep int) error {
	all, err := k.job.Checkpoints()
	if err != nil || len(all) <= keep {
		return err
	}
	delete(r.must, all[0])
	disk := unsyncable{r.fs, func(string) bool { return true }}
	err = r.through(k, disk, func(k *taker) error {
		_, _, err := k.job.Prune(keep)
		return err
	})
	delete(r.may, all[0])
	k.forget()
	return err
}

func (r *crashRun) prune(k *taker, keep int) error {
	return r.remove(k, keep, func(keep int, _ ...int) ([]int, int64, error) { return k.job.Prune(keep) })
}

// thin is what a run does after a commit, if it is to keep so many.
func (r *crashRun) thin(k *taker, keep int) error {
	return r.remove(k, keep, func(keep int, of ...int) ([]int, int64, error) { return k.job.Thin(keep, of) })
}

func (r *crashRun) remove(k *taker, keep int, do func(keep int, of ...int) ([]int, int64, error)) error {
	all, err := k.job.Checkpoints()
	if err != nil {
		return err
	}
	drop := all[:max(0, len(all)-keep)]
	for _, n := range drop {
		delete(r.must, n)
	}
	removed, freed, err := do(keep, all...)
	if err != nil {
		return err
	}
	if !slices.Equal(removed, drop) || len(drop) > 0 && freed == 0 {
		return fmt.Errorf("pruned %v, want %v; freed %d", removed, drop, freed)
	}
	for _, n := range drop {
		delete(r.may, n)
	}
	k.forget()
	return nil
}

// TestCrash loses power after every operation of some workloads. The nightly form has
// more of them.
func TestCrash(t *testing.T) {
	t.Parallel()
	workloads, clones, want := 1, 2, 150
	if testkit.Nightly() && !testkit.Enabled {
		workloads, clones, want = 6, 40, 10_000
	}
	states, different, ops := 0, 0, 0
	for seed := range workloads {
		steps := script
		if seed > 0 {
			steps = randomScript(uint64(seed))
		}
		r := newCrashRun(clones)
		if err := r.work(steps); err != nil {
			t.Fatalf("workload %d: %v", seed, err)
		}
		if err := r.checks.Wait(); err != nil {
			t.Fatalf("workload %d: %v", seed, err)
		}
		states, different, ops = states+r.states, different+len(r.seen), ops+r.ops
	}
	t.Logf("%d crash states, %d of them different, after %d operations", states, different, ops)
	if different < want {
		t.Errorf("%d different crash states, want %d", different, want)
	}
}

// TestCrashIsNoticed shows that the test above can fail: on a disk that lies it
// does.
func TestCrashIsNoticed(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(*memfs.FS){
		"sync":    func(m *memfs.FS) { m.IgnoreSync = true },
		"syncdir": func(m *memfs.FS) { m.IgnoreSyncDir = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newCrashRun(3)
			r.lie = lie
			if err := r.work(script); err != nil {
				t.Fatal(err)
			}
			err := r.checks.Wait()
			if err == nil {
				t.Fatal("no crash did any harm")
			}
			t.Log(err)
		})
	}
}
