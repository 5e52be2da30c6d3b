package image

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/vfs"
)

// openHook calls before with each file of an image that is opened.
type openHook struct {
	vfs.Buffered
	before func(name string)
}

func (h *openHook) Open(name string) (vfs.File, error) {
	if strings.HasSuffix(name, ".img") {
		h.before(name)
	}
	return h.FS.Open(name)
}

// TestVerifyRemoved removes a checkpoint while it is being verified, as a job that runs
// and one that is pruned do: that its files have gone is no damage. If it is still
// there, it is.
func TestVerifyRemoved(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	for n := 1; n <= 3; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	var once sync.Once
	hook := &openHook{Buffered: vfs.Through(k.fs), before: func(string) {
		once.Do(func() {
			if _, _, err := k.job.Prune(1); err != nil {
				t.Error(err)
			}
		})
	}}
	store, err := OpenStore(hook, "/store")
	if err != nil {
		t.Fatal(err)
	}
	job, err := store.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := job.Verify(context.Background(), 2, nil); !errors.Is(err, ErrCheckpointNotFound) {
		t.Errorf("a checkpoint that is removed meanwhile: %v, %v", rep.Damage, err)
	}
	hook.before = func(name string) { _ = k.fs.Remove(name) }
	if rep, err := job.Verify(context.Background(), 3, nil); err != nil || len(rep.Damage) == 0 {
		t.Errorf("a checkpoint without its files: %v, %v", rep.Damage, err)
	}
}

// TestVerifyReadsOnce: checkpoints of one job share files. Each byte of a file is read
// once for all of them, and each checkpoint reports the damage that it would restore.
func TestVerifyReadsOnce(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	const checkpoints = 4
	for n := 1; n <= checkpoints; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	var files int64
	err := walk(k.fs, k.job.dir, "", func(rel string, dir, _ bool) error {
		if f, err := k.fs.Open(k.job.dir + "/" + rel); err == nil && !dir && (strings.HasSuffix(rel, ".img") || strings.HasSuffix(rel, manifestName)) {
			n, _ := f.Size()
			files += n
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := k.job.Verification()
	var together, alone int64
	for n := 1; n <= checkpoints; n++ {
		rep, err := all.Checkpoint(context.Background(), n, nil)
		if err != nil || len(rep.Damage) > 0 {
			t.Fatal(rep.Damage, err)
		}
		together += rep.CheckedBytes
		one, err := k.job.Verify(context.Background(), n, nil)
		if err != nil {
			t.Fatal(err)
		}
		alone += one.CheckedBytes
	}
	if together != files || alone <= files {
		t.Errorf("files of %d bytes: %d read together, %d one by one", files, together, alone)
	}
	damageEach(t, k)
	all = k.job.Verification()
	for n := 1; n <= checkpoints; n++ {
		got, err := all.Checkpoint(context.Background(), n, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := k.job.Verify(context.Background(), n, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Damage) < 2 || !slices.Equal(got.Damage, want.Damage) {
			t.Errorf("damage in checkpoint %d: %v together, %v alone", n, got.Damage, want.Damage)
		}
	}
}

// damageEach flips a byte in the payload of each file, so that all are damaged.
func damageEach(t *testing.T, k *taker) {
	t.Helper()
	err := walk(k.fs, k.job.dir, "", func(rel string, dir, _ bool) error {
		if dir || !strings.HasSuffix(rel, ".img") {
			return nil
		}
		name := k.job.dir + "/" + rel
		f, err := k.fs.Open(name)
		if err != nil {
			return err
		}
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, container.BlockSize); err != nil {
			return err
		}
		b[0] ^= 1
		w, err := k.fs.OpenWrite(name)
		if err == nil {
			_, err = w.WriteAt(b, container.BlockSize)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
