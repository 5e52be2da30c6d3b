package coordinator

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// listHook is told once that a directory is to be listed.
type listHook struct {
	vfs.FS
	dir    string
	before func()
}

func (h *listHook) ReadDir(name string) ([]fs.DirEntry, error) {
	if do := h.before; name == h.dir && do != nil {
		h.before = nil
		do()
	}
	return h.FS.ReadDir(name)
}

// TestVerifyLogsOfRunning has a job remove its newest checkpoint of a rank, as a
// recovery does, while it is being verified: between the look at what has been taken
// and that at what is there. Nothing is missing. If nobody has noted it, it is.
func TestVerifyLogsOfRunning(t *testing.T) {
	t.Parallel()
	s := short(t, "ring.S.3", job.Uncoordinated, "")
	s.Schedule.Every = 2
	_, _, opt := mustLaunch(t, s, Options{})
	hook := &listHook{FS: vfs.OS{}}
	store, err := image.OpenStore(hook, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	// The job that runs is another process's.
	store, err = image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	running, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Lock(); err != nil {
		t.Fatal(err)
	}
	defer running.Unlock()
	hook.dir = j.Dir()
	forget := func(rank int, note bool) {
		l, err := job.ReadBaseline(j, 3)
		numbers, lerr := running.Checkpoints()
		if err != nil || lerr != nil {
			t.Fatal(err, lerr)
		}
		numbers = slices.DeleteFunc(numbers, func(n int) bool { return (n-1)%s.NP != rank })
		kept := slices.Index(numbers, l.Taken[rank])
		if l.Taken[rank] = numbers[kept-1]; note {
			err = job.WriteBaseline(j, l)
		}
		for _, n := range slices.Backward(numbers[kept:]) {
			err = errors.Join(err, running.Drop(n))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hook.before = func() { forget(0, true) }
	if _, damage, err := job.VerifyLogs(j); err != nil || len(damage) > 0 {
		t.Errorf("a checkpoint that is removed meanwhile: %v, %v", damage, err)
	}
	hook.before = func() { forget(1, false) }
	if _, damage, err := job.VerifyLogs(j); err != nil || len(damage) != 1 {
		t.Errorf("a checkpoint that is gone: %v, %v", damage, err)
	}
}
