package image

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// TestRootKeepsOwner: root writes into a job of another user for that user. A job that root
// makes is for root alone, wherever it is.
func TestRootKeepsOwner(t *testing.T) {
	t.Parallel()
	const user = 12345
	testkit.All(t, "root")
	dir := filepath.Join(t.TempDir(), "store")
	k := newJob(t, vfs.OS{}, dir)
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	if err := k.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	each := func(dir string, do func(path string, owner uint32) error) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := e.Info()
			if err != nil {
				return err
			}
			return do(path, fi.Sys().(*syscall.Stat_t).Uid)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	each(dir, func(path string, _ uint32) error { return os.Lchown(path, user, user) })
	if err := os.Remove(filepath.Join(k.job.Dir(), lockName)); err != nil {
		t.Fatal(err)
	}
	again, err := reopen(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	again.fs = again.job.FS()
	if _, err := again.take(2); err != nil {
		t.Fatal(err)
	}
	if _, err := again.job.Store().Own(); err != nil {
		t.Fatal(err)
	}
	each(dir, func(path string, owner uint32) error {
		if owner != user {
			t.Errorf("%s is of user %d", path, owner)
		}
		return nil
	})
	other, err := again.job.Store().CreateJob("of-root", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Unlock()
	each(other.Dir(), func(path string, owner uint32) error {
		if owner != 0 {
			t.Errorf("%s is of user %d", path, owner)
		}
		return nil
	})
}
