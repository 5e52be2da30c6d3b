package image

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"ckpt/internal/vfs"
)

// openHook calls before with each file of an image that is opened.
type openHook struct {
	vfs.FS
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
	k := memJob(t)
	for n := 1; n <= 3; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	var once sync.Once
	hook := &openHook{FS: k.fs, before: func(string) {
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
