package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestFaults fails each operation of a checkpoint and of what comes with it,
// one at a time and in several ways.
func TestFaults(t *testing.T) {
	t.Parallel()
	base := memJob(t)
	if _, err := base.take(1); err != nil {
		t.Fatal(err)
	}
	before := base.fs.(*memfs.FS)

	count := memfs.WithFault(before.CrashClone(memfs.Crash{Mode: memfs.Kept}), memfs.Fault{})
	if err := faultRun(count); err != nil {
		t.Fatal(err)
	}
	ops := count.Ops()
	t.Logf("%d operations", len(ops))
	for _, kind := range []memfs.Fault{
		{Err: syscall.EIO},
		{Err: syscall.ENOSPC},
		{Err: syscall.ENOSPC, Short: true},
		{Short: true},
		{Err: syscall.EIO, Stop: true},
	} {
		for i, op := range ops {
			kind.At = i + 1
			if kind.Short && op.Name != "write" {
				continue
			}
			t.Run(fmt.Sprintf("%v,short=%v,stop=%v/%d-%s", kind.Err, kind.Short, kind.Stop, kind.At, op.Name), func(t *testing.T) {
				disk := before.CrashClone(memfs.Crash{Mode: memfs.Kept})
				err := faultRun(memfs.WithFault(disk, kind))
				checkFault(t, err, kind, op)
				checkAfterFault(t, disk, err)
			})
		}
	}
}

// faultRun is what a coordinator does for a checkpoint.
func faultRun(fsys vfs.FS) (err error) {
	k, err := reopen(fsys, "/store")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.job.Unlock()) }()
	if _, err := k.job.Sweep(); err != nil {
		return err
	}
	_, err = k.take(2)
	return err
}

func checkFault(t *testing.T, err error, kind memfs.Fault, op memfs.Op) {
	t.Helper()
	if err == nil {
		// Some failures do no harm, such as that of removing what is not there.
		return
	}
	// On a disk that is gone, what failed first may be no matter and what
	// failed next is reported.
	if !strings.Contains(err.Error(), op.Path) && !(kind.Stop && strings.Contains(err.Error(), " /store/")) {
		t.Errorf("error does not name %s: %v", op.Path, err)
	}
	want := kind.Err
	if want == nil {
		want = io.ErrShortWrite
	}
	if !errors.Is(err, want) {
		t.Errorf("error is not %v: %v", want, err)
	}
	if op.Name == "write" && kind.Err == syscall.ENOSPC {
		if !errors.Is(err, durable.ErrStorageFull) {
			t.Errorf("error is not durable.ErrStorageFull: %v", err)
		}
	}
}

// checkAfterFault looks at the disk when it works again.
func checkAfterFault(t *testing.T, disk *memfs.FS, failed error) {
	t.Helper()
	k, err := reopen(disk.CrashClone(memfs.Crash{Mode: memfs.Kept}), "/store")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.job.Sweep(); err != nil {
		t.Fatal(err)
	}
	if err := checkCheckpoint(k.job, 1); err != nil {
		t.Error(err)
	}
	if err := checkNoDebris(k.job); err != nil {
		t.Error(err)
	}
	latest, err := k.job.Latest()
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case latest == 2:
		// It was reported, or its commit failed after the commit point and
		// could not be taken back.
		if err := checkCheckpoint(k.job, 2); err != nil {
			t.Error(err)
		}
	case failed == nil:
		t.Error("checkpoint 2 was reported and is not there")
	}
	if _, err := k.take(latest + 1); err != nil {
		t.Fatal(err)
	}
	if err := checkCheckpoint(k.job, latest+1); err != nil {
		t.Error(err)
	}
}

// TestFailedSyncThenPowerLoss fails each sync once. Its data is lost, and the next sync of the same file or directory proves nothing. The checkpoint
// that is taken next is there when power fails after it was reported.
func TestFailedSyncThenPowerLoss(t *testing.T) {
	t.Parallel()
	base := memJob(t)
	if _, err := base.take(1); err != nil {
		t.Fatal(err)
	}
	before := base.fs.(*memfs.FS)
	count := memfs.WithFault(kept(before), memfs.Fault{})
	if err := faultRun(count); err != nil {
		t.Fatal(err)
	}
	for i, op := range count.Ops() {
		if op.Name != "sync" && op.Name != "syncdir" {
			continue
		}
		t.Run(fmt.Sprintf("%d-%s", i+1, op.Name), func(t *testing.T) {
			disk := kept(before)
			first := faultRun(memfs.WithFault(disk, memfs.Fault{At: i + 1, Err: syscall.EIO}))
			k, err := reopen(disk, "/store")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.job.Sweep(); err != nil {
				t.Fatal(err)
			}
			latest, err := k.job.Latest()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.take(latest + 1); err != nil {
				t.Fatal(err)
			}
			after, err := reopen(disk.CrashClone(memfs.Crash{Mode: memfs.Lost}), "/store")
			if err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= latest+1; n++ {
				if n == 2 && latest == 2 && first != nil {
					continue // its commit failed
				}
				if err := checkCheckpoint(after.job, n); err != nil {
					t.Errorf("checkpoint %d: %v", n, err)
				}
			}
		})
	}
}

// kept is the disk as it is, with nobody holding locks on it.
func kept(m *memfs.FS) *memfs.FS { return m.CrashClone(memfs.Crash{Mode: memfs.Kept}) }

// TestFaultLeavesNothing checks that a failed Write or Commit cleans up at once
// when the disk goes on working.
func TestFaultLeavesNothing(t *testing.T) {
	t.Parallel()
	base := memJob(t)
	if _, err := base.take(1); err != nil {
		t.Fatal(err)
	}
	before := base.fs.(*memfs.FS)
	count := memfs.WithFault(before.CrashClone(memfs.Crash{Mode: memfs.Kept}), memfs.Fault{})
	if err := faultRun(count); err != nil {
		t.Fatal(err)
	}
	for i, op := range count.Ops() {
		if op.Name != "write" && op.Name != "sync" && op.Name != "rename" && op.Name != "create" {
			continue
		}
		if strings.HasPrefix(filepath.Base(op.Path), catalogName) {
			continue // without it, the manifests are read
		}
		disk := before.CrashClone(memfs.Crash{Mode: memfs.Kept})
		if err := faultRun(memfs.WithFault(disk, memfs.Fault{At: i + 1, Err: syscall.ENOSPC})); err == nil {
			t.Errorf("operation %d (%v) failed and nobody noticed", i+1, op)
		}
		k, err := reopen(disk, "/store")
		if err != nil {
			t.Fatal(err)
		}
		if err := checkNoDebris(k.job); err != nil {
			t.Errorf("operation %d (%v): %v", i+1, op, err)
		}
		if removed, err := k.job.Sweep(); err != nil || len(removed) > 0 {
			t.Errorf("operation %d (%v): %v was left to sweep, %v", i+1, op, removed, err)
		}
	}
}

// TestFaultDirect fails the operations of Write on a real disk.
func TestFaultDirect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	regions := rankRegions(1, 0)
	write := func(fsys vfs.FS) error {
		_, err := container.Write(context.Background(), fsys, dir+"/x.img", container.Header{Job: testJob, Number: 1, Kind: container.KindRank}, regions, container.WriteOptions{Depth: 1})
		return err
	}
	count := memfs.WithFault(vfs.OS{}, memfs.Fault{})
	if err := write(count); err != nil {
		t.Fatal(err)
	}
	if err := (vfs.OS{}).Remove(dir + "/x.img"); err != nil {
		t.Fatal(err)
	}
	for i, op := range count.Ops() {
		err := write(memfs.WithFault(vfs.OS{}, memfs.Fault{At: i + 1, Err: syscall.ENOSPC, Short: op.Name == "write"}))
		if !errors.Is(err, durable.ErrStorageFull) || !strings.Contains(err.Error(), "x.img") {
			t.Errorf("operation %d (%v): %v", i+1, op, err)
		}
		left, err := vfs.OS{}.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("operation %d (%v) left %v, %v", i+1, op, left, err)
		}
	}
}
