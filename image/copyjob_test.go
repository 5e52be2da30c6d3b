package image

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// copyAll copies all checkpoints of a job, and its other files, into the store /copy.
func copyAll(from *Job, to vfs.FS) (*JobCopy, error) {
	s, err := CreateStore(to, "/copy")
	if err != nil {
		return nil, err
	}
	all, err := from.Checkpoints()
	if err != nil {
		return nil, err
	}
	c := &JobCopy{From: from, To: s, Journal: "history.jsonl"}
	return c, c.Run(context.Background(), all)
}

// checkCopy checks that a store in memory has the checkpoints, each sound and durable.
func checkCopy(t *testing.T, fsys *memfs.FS, want ...int) {
	t.Helper()
	s, err := OpenStore(fsys.CrashClone(memfs.Crash{}), "/copy")
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	have, err := j.Checkpoints()
	if !slices.Equal(have, want) || err != nil {
		t.Errorf("the copy has checkpoints %v, %v; want %v", have, err, want)
	}
	for _, n := range have {
		if err := checkCheckpoint(j, n); err != nil {
			t.Error(err)
		}
	}
}

func TestCopyJob(t *testing.T) {
	t.Parallel()
	k := taken(t, 3)
	if err := durable.Replace(k.fs, filepath.Join(k.job.dir, "history.jsonl"), []byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.job.Prune(2); err != nil { // the files of checkpoint 1 that others use stay
		t.Fatal(err)
	}
	to := memfs.New()
	c, err := copyAll(k.job, to)
	if err != nil || !slices.Equal(c.Checkpoints, []int{2, 3}) || len(c.Present) > 0 {
		t.Fatalf("copied %+v, %v", c.Copied, err)
	}
	checkCopy(t, to, 2, 3)
	if _, err := to.Stat("/copy/jobs/" + testJob + "/history.jsonl"); err != nil {
		t.Error(err)
	}
	if _, err := k.take(4); err != nil {
		t.Fatal(err)
	}
	c, err = copyAll(k.job, to)
	if err != nil || !slices.Equal(c.Checkpoints, []int{4}) || !slices.Equal(c.Present, []int{2, 3}) {
		t.Fatalf("copied %+v, %v", c.Copied, err)
	}
	checkCopy(t, to, 2, 3, 4)
}

// TestCopyExact: an exact copy loses what the job has lost.
func TestCopyExact(t *testing.T) {
	t.Parallel()
	k, to := taken(t, 2), memfs.New()
	segment := func(root, name string) string { return filepath.Join(root, "jobs", testJob, "logs", "rank-0", name) }
	for _, name := range []string{"0", "9"} {
		if err := errors.Join(durable.MkdirAll(k.fs, filepath.Dir(segment("/store", name))), durable.Replace(k.fs, segment("/store", name), []byte(name))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := copyAll(k.job, to); err != nil {
		t.Fatal(err)
	}
	if _, err := k.take(3); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.job.Prune(1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.fs.Remove(segment("/store", "9")), durable.Replace(k.fs, segment("/store", "0"), []byte("anew"))); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(to, "/copy")
	if err != nil {
		t.Fatal(err)
	}
	c := &JobCopy{From: k.job, To: s, Exact: true}
	plan, err := c.Plan([]int{3})
	if err != nil || !slices.Equal(plan.Removed, []int{1, 2}) {
		t.Errorf("planned %+v, %v", plan, err)
	}
	if err := c.Run(context.Background(), []int{3}); err != nil || !slices.Equal(c.Removed, plan.Removed) {
		t.Fatal(c.Copied, err)
	}
	checkCopy(t, to, 3)
	if b, err := durable.ReadFile(to, segment("/copy", "0"), 10); string(b) != "anew" || err != nil {
		t.Errorf("the log is %q, %v", b, err)
	}
	if _, err := to.Stat(segment("/copy", "9")); !isNotExist(err) {
		t.Errorf("a segment that the job has lost is still there: %v", err)
	}
	if err := durable.RemoveAll(k.fs, "/store/jobs/"+testJob+"/logs"); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(context.Background(), []int{3}); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Stat("/copy/jobs/" + testJob + "/logs"); !isNotExist(err) {
		t.Errorf("logs of a job without logs are still there: %v", err)
	}
}

// TestCopyFails: each operation of a copy fails once, and another copy completes it. A loss of
// power at that moment leaves whole checkpoints.
func TestCopyFails(t *testing.T) {
	t.Parallel()
	k := taken(t, 2)
	counted := memfs.WithFault(memfs.New(), memfs.Fault{})
	if _, err := copyAll(k.job, counted); err != nil {
		t.Fatal(err)
	}
	step := 3
	if testkit.Nightly() {
		step = 1
	}
	for op := 0; op < len(counted.Ops()); op += step {
		under := memfs.New()
		c, err := copyAll(k.job, memfs.WithFault(under, memfs.Fault{At: op + 1, Err: syscall.EIO}))
		if err == nil && len(c.Checkpoints) < 2 {
			t.Fatalf("operation %d failed: copied %+v without an error", op, c.Copied)
		}
		for _, mode := range []memfs.Crash{{}, {Mode: memfs.Kept}} {
			s, err := OpenStore(under.CrashClone(mode), "/copy")
			if err != nil {
				continue
			}
			j, err := s.Job(testJob)
			if err != nil {
				continue
			}
			have, _ := j.Checkpoints()
			for _, n := range have {
				if err := checkCheckpoint(j, n); err != nil {
					t.Errorf("operation %d failed, then the power: %v", op, err)
				}
			}
		}
		if _, err := copyAll(k.job, under); err != nil {
			t.Fatalf("operation %d failed: the next copy: %v", op, err)
		}
		checkCopy(t, under, 1, 2)
	}
}

// TestCopyDamage: damage of the store is named, and no checkpoint of it is made; what an earlier
// copy left damaged is copied again.
func TestCopyDamage(t *testing.T) {
	t.Parallel()
	k := taken(t, 1)
	damaged := filepath.Join(k.job.dir, "0001", "rank-0.img")
	flip(t, k.fs, damaged)
	to := memfs.New()
	_, err := copyAll(k.job, to)
	if damage := (*durable.DamageError)(nil); !errors.As(err, &damage) || damage.File != damaged {
		t.Errorf("error %v, want damage of %s", err, damaged)
	}
	checkCopy(t, to)
	flip(t, k.fs, damaged)
	if _, err := copyAll(k.job, to); err != nil { // the damaged copy is there
		t.Error(err)
	}
	checkCopy(t, to, 1)
}

// flip inverts a byte of the payload of a file, or puts it back.
func flip(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	f, err := fsys.OpenWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err = f.ReadAt(b, container.BlockSize); err == nil {
		_, err = f.WriteAt([]byte{^b[0]}, container.BlockSize)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestCopyOther: neither another job of the name nor another history is mixed with the copy.
func TestCopyOther(t *testing.T) {
	t.Parallel()
	k, to := taken(t, 1), memfs.New()
	if _, err := copyAll(k.job, to); err != nil {
		t.Fatal(err)
	}
	other, err := reopen(to, "/copy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.take(2); err != nil {
		t.Fatal(err)
	}
	if err := other.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	k.take(2)
	k.take(3)
	m, err := k.job.Manifest(2)
	if err != nil {
		t.Fatal(err)
	}
	m.Pause++ // the two were taken at different times
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := durable.Replace(k.fs, k.job.manifestPath(2), b); err != nil {
		t.Fatal(err)
	}
	if c, err := copyAll(k.job, to); !errors.Is(err, ErrParted) || c.Files > 0 {
		t.Errorf("copied %+v, %v", c.Copied, err)
	}
	parted := memfs.New()
	if _, err := copyAll(k.job, parted); err != nil {
		t.Fatal(err)
	}
	journal := "/jobs/" + testJob + "/history.jsonl"
	for _, c := range []struct {
		is, was string // in the copy and in the job
		parted  bool
	}{
		{"{1}\n", "{1}\n{2}\n", false},
		{"{1}\n{2", "{1}\n{3}\n", false},
		{"{1}\n{2}\n", "{1}\n", true},
		{"{1}\n{2}\n", "{1}\n{3}\n", true},
	} {
		for _, err := range []error{durable.Replace(parted, "/copy"+journal, []byte(c.is)), durable.Replace(k.fs, "/store"+journal, []byte(c.was))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := copyAll(k.job, parted); errors.Is(err, ErrParted) != c.parted {
			t.Errorf("journals %q and %q: %v", c.is, c.was, err)
		}
	}
	foreign, err := CreateStore(memfs.New(), "/copy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.CreateJob(testJob, []byte("{\"other\": 1}\n")); err != nil {
		t.Fatal(err)
	}
	c := &JobCopy{From: k.job, To: foreign}
	if err := c.Run(context.Background(), []int{1}); !errors.Is(err, ErrJobExists) {
		t.Errorf("copied over another job: %v", err)
	}
}
