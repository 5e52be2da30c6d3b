package image

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestCommitSyncsDirectories: before the manifest is there, the names of all its files
// are durable, also of those in the directories of earlier checkpoints.
func TestCommitSyncsDirectories(t *testing.T) {
	t.Parallel()
	base := taken(t, 1)
	fsys := memfs.WithFault(base.fs.(*memfs.FS).CrashClone(memfs.Crash{Mode: memfs.Kept}), memfs.Fault{})
	k, err := reopen(fsys, "/store")
	if err != nil {
		t.Fatal(err)
	}
	tx, m := k.begin(t, 2) // its library is in the directory of checkpoint 1
	before := len(fsys.Ops())
	if err := tx.Commit(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	ops := fsys.Ops()[before:]
	manifest := slices.IndexFunc(ops, func(op memfs.Op) bool { return op.Name == "create" })
	for n := 1; n <= 2; n++ {
		if i := slices.Index(ops, memfs.Op{Name: "syncdir", Path: k.job.NumberDir(n)}); i < 0 || i > manifest {
			t.Errorf("directory %d is synced by operation %d, the manifest is made by %d: %v", n, i, manifest, ops)
		}
	}
}

// TestCommitOfOtherNumber: an image of another checkpoint is not taken, though the
// manifest has its digest.
func TestCommitOfOtherNumber(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	tx, m := k.begin(t, 1)
	if err := k.fs.Remove(tx.RankPath(0)); err != nil {
		t.Fatal(err)
	}
	info, err := container.Write(context.Background(), k.fs, tx.RankPath(0), container.Header{Job: testJob, Number: 7, Kind: container.KindRank}, rankRegions(1, 0), container.WriteOptions{Depth: 1})
	if err != nil {
		t.Fatal(err)
	}
	m.Files[0].Bytes, m.Files[0].IndexBlake3 = info.Bytes, info.IndexBlake3
	if err := tx.Commit(context.Background(), m); err == nil || !strings.Contains(err.Error(), "image is of checkpoint 7, not 1") {
		t.Error(err)
	}
}

// TestStoredBytes: neither holes nor files of earlier checkpoints are counted.
func TestStoredBytes(t *testing.T) {
	t.Parallel()
	k := taken(t, 1)
	tx, m := k.begin(t, 2)
	m.Files[0].Holes = container.BlockSize / 2
	want := -m.Files[0].Holes
	for _, f := range m.Files {
		if filepath.Dir(f.Path) == "0002" {
			want += f.Bytes
		}
	}
	if err := tx.Commit(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	if m.StoredBytes != want {
		t.Errorf("%d bytes, want %d", m.StoredBytes, want)
	}
}

// A beforeLock has something happen before a lock is given.
type beforeLock struct {
	vfs.FS
	hook func()
}

func (b *beforeLock) Lock(name string) (io.Closer, error) {
	if hook := b.hook; hook != nil {
		b.hook = nil
		hook()
	}
	return b.FS.Lock(name)
}

// TestCreateJobTwice: of two that make a job at the same time, the second one finds it
// made, and gives the lock back.
func TestCreateJobTwice(t *testing.T) {
	t.Parallel()
	fsys := &beforeLock{FS: memfs.New()}
	s, err := CreateStore(fsys, "/store")
	if err != nil {
		t.Fatal(err)
	}
	fsys.hook = func() {
		j, err := s.CreateJob(testJob, []byte("first"))
		if err != nil {
			t.Error(err)
			return
		}
		if err := j.Unlock(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.CreateJob(testJob, []byte("second")); !errors.Is(err, ErrJobExists) {
		t.Errorf("created twice: %v", err)
	}
	j, err := s.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	if spec, err := j.Spec(); err != nil || string(spec) != "first" {
		t.Errorf("%q, %v", spec, err)
	}
	if err := j.Lock(); err != nil {
		t.Errorf("the lock was kept: %v", err)
	}
}
