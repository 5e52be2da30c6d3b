package image

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestRemove: nothing is left of the job, and all of its bytes are counted once.
func TestRemove(t *testing.T) {
	t.Parallel()
	k := taken(t, 3)
	logs := filepath.Join(k.job.Dir(), "logs")
	for _, dir := range []string{logs, filepath.Join(logs, "rank-0")} {
		if err := k.fs.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	replace(t, k, filepath.Join(logs, "rank-0", "segment"), make([]byte, 1000))
	size, err := k.job.Size()
	if err != nil {
		t.Fatal(err)
	}
	removed, freed, err := k.job.Remove()
	if err != nil || !slices.Equal(removed, []int{1, 2, 3}) || freed != size {
		t.Errorf("removed %v, freed %d of %d, %v", removed, freed, size, err)
	}
	if _, err := k.fs.Stat(k.job.Dir()); err == nil {
		t.Error("the directory is there")
	}
	if _, err := reopen(k.fs, "/store"); !errors.Is(err, ErrJobNotFound) {
		t.Errorf("reopen: %v", err)
	}
	store, err := OpenStore(k.fs, "/store")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateJob(testJob, []byte("{}\n")); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
}

// TestRemoveCrash loses power in the middle of a removal: what is left is whole, and
// can be removed.
func TestRemoveCrash(t *testing.T) {
	t.Parallel()
	k := taken(t, 3)
	disk := k.fs.(*memfs.FS)
	var failed error
	ops := 0
	disk.AfterOp = func(op, name string) {
		ops++
		for i, mode := range []memfs.Mode{memfs.Lost, memfs.Kept, memfs.Random, memfs.Random} {
			after := disk.CrashClone(memfs.Crash{Mode: mode, Seed: uint64(ops)<<8 | uint64(i)})
			if err := removeAgain(after); err != nil && failed == nil {
				failed = fmt.Errorf("after operation %d (%s %s), crash %d: %w", ops, op, name, i, err)
			}
		}
	}
	if _, _, err := k.job.Remove(); err != nil {
		t.Fatal(err)
	}
	disk.AfterOp = nil
	if failed != nil || ops < 10 {
		t.Errorf("%d operations, %v", ops, failed)
	}
}

// removeAgain looks at what a removal has left, and ends it.
func removeAgain(after *memfs.FS) error {
	k, err := reopen(after, "/store")
	if errors.Is(err, ErrJobNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	there, err := k.job.Checkpoints()
	if err != nil {
		return err
	}
	for _, n := range there {
		if err := checkCheckpoint(k.job, n); err != nil {
			return err
		}
	}
	if _, _, err := k.job.Remove(); err != nil {
		return err
	}
	_, err = reopen(after, "/store")
	if !errors.Is(err, ErrJobNotFound) {
		return fmt.Errorf("the job is there after its removal: %w", err)
	}
	return nil
}

// TestRemovedTwice: of two that remove a job one does, and the other says that there is
// none.
func TestRemovedTwice(t *testing.T) {
	t.Parallel()
	k := newJob(t, vfs.OS{}, filepath.Join(t.TempDir(), "store"))
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(k.fs, filepath.Dir(filepath.Dir(k.job.Dir())))
	if err != nil {
		t.Fatal(err)
	}
	other, err := store.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Lock(); !errors.Is(err, ErrInUse) {
		t.Errorf("a lock that is held: %v", err)
	}
	if _, _, err := k.job.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := other.Lock(); !errors.Is(err, ErrJobNotFound) {
		t.Errorf("the lock of a job that has gone: %v", err)
	}
}

// TestGone: a job whose directory is not where it was takes no checkpoint, and never one
// into the directory of another job.
func TestGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	k := newJob(t, vfs.OS{}, dir)
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	if err := k.fs.Rename(k.job.Dir(), k.job.Dir()+"-moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.take(2); !errors.Is(err, ErrJobGone) {
		t.Errorf("renamed: %v", err)
	}
	store, err := OpenStore(k.fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.CreateJob(testJob, []byte("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Unlock()
	if _, err := k.take(2); !errors.Is(err, ErrJobGone) {
		t.Errorf("replaced: %v", err)
	}
	if all, err := again.Checkpoints(); err != nil || len(all) > 0 {
		t.Errorf("the other job has checkpoints %v, %v", all, err)
	}
}
