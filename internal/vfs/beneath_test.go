package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ckpt/internal/vfs"
)

// TestBeneath tries to leave a directory: by names, by links in place of each part of a
// name, and by a FIFO, whose opening would wait.
func TestBeneath(t *testing.T) {
	root := t.TempDir()
	dir, outside := filepath.Join(root, "dir"), filepath.Join(root, "outside")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	must(os.MkdirAll(filepath.Join(outside, "sub"), 0o700))
	must(os.WriteFile(filepath.Join(outside, "file"), []byte("secret"), 0o600))
	must(os.Symlink(outside, filepath.Join(dir, "link")))
	must(os.Symlink(filepath.Join(outside, "file"), filepath.Join(dir, "file")))
	must(os.Symlink("sub", filepath.Join(dir, "inner")))
	must(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	b := vfs.NewBeneath(dir)
	for _, name := range []string{outside + "/file", dir + "/../outside/file", "/etc/passwd", "file", root,
		dir + "/link/file", dir + "/file", dir + "/link", dir + "/inner/x", dir + "/fifo", dir + "2/file"} {
		refuseAll(t, b, name, dir+"/sub")
	}
	if got, err := os.ReadFile(filepath.Join(outside, "file")); string(got) != "secret" || err != nil {
		t.Errorf("the file outside has %q, %v", got, err)
	}
	if list, err := os.ReadDir(filepath.Join(outside)); len(list) != 2 || err != nil {
		t.Errorf("outside has %v, %v", list, err)
	}
	// Links themselves can be seen and removed.
	if fi, err := b.Stat(dir + "/link"); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("link: %v, %v", fi, err)
	}
	must(b.Remove(dir + "/link"))
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
}

// TestBeneathAgain loses the directory: it is made again, and found once it can be used.
func TestBeneathAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	b := vfs.NewBeneath(dir)
	for range 2 {
		if err := b.Mkdir(dir + "/sub"); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{dir, "/nowhere"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o700), os.Symlink(link, dir)); err != nil {
			t.Fatal(err)
		}
		if err := b.Mkdir(dir + "/sub"); err == nil {
			t.Errorf("a link to %s is a directory", link)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Mkdir(dir + "/sub"); err != nil {
		t.Error(err)
	}
}

func refuseAll(t *testing.T, b *vfs.Beneath, name, sub string) {
	t.Helper()
	f, err := b.Open(name)
	refused(t, "open", name, f, err)
	f, err = b.OpenWrite(name)
	refused(t, "open to write", name, f, err)
	f, err = b.Create(name)
	refused(t, "create", name, f, err)
	if l, err := b.Lock(name); err == nil && filepath.Base(name) != "fifo" {
		t.Errorf("lock %s works", name)
		l.Close()
	}
	for op, err := range map[string]error{"mkdir": b.Mkdir(name), "sync": b.SyncDir(name), "rename": b.Rename(sub, name+"/x"),
		"rename from": b.Rename(name+"/file", sub+"/stolen")} {
		if err == nil {
			t.Errorf("%s %s works", op, name)
		}
	}
	if list, err := b.ReadDir(name); err == nil {
		t.Errorf("list %s works: %v", name, list)
	}
}

func refused(t *testing.T, op, name string, f vfs.File, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s %s works", op, name)
		f.Close()
	}
}
