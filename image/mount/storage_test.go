package mount

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// storage mounts a new directory.
func storage(t *testing.T, o StorageOptions) (dir, at string) {
	t.Helper()
	testkit.All(t, "fuse")
	dir, at = t.TempDir(), t.TempDir()
	m, err := Storage(dir, at, o)
	if err == nil {
		err = m.here()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if busy, err := m.Unmount(); busy || err != nil {
			t.Errorf("unmount: busy %t, %v", busy, err)
		}
		m.Wait()
	})
	return dir, at
}

func TestStorage(t *testing.T) {
	dir, at := storage(t, StorageOptions{})
	want := bytes.Repeat([]byte("bytes "), 1<<16)
	if err := os.WriteFile(filepath.Join(at, "a"), want, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(at, "a"), filepath.Join(at, "b")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, at} {
		got, err := os.ReadFile(filepath.Join(d, "b"))
		fi, err2 := os.Stat(filepath.Join(d, "b"))
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(got, want) || fi.Mode() != 0o640 {
			t.Errorf("%s: %d bytes of %d, %v", d, len(got), len(want), err)
		}
	}
	f, err := os.OpenFile(filepath.Join(at, "b"), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(filepath.Join(at, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("end"); err != nil {
		t.Fatal(err)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != int64(len(want))+3 {
		t.Errorf("an open file without a name: %v", err)
	}
}

// TestMade has a shell with another umask than the daemon's make files in a mount and in a directory:
// their rights and owners are the same.
func TestMade(t *testing.T) {
	const script = `umask 002; mkdir a g; mkdir -m 1777 s; touch f; chmod 4755 f; mkfifo p; ln -s f l
		[ "$(id -u)" != 0 ] || chgrp 54321 g
		chmod 2775 g; touch g/f; mkdir g/d; ln -s f g/l; mkfifo g/p; umask 077; touch h; mkdir i`
	old := syscall.Umask(0o22)
	defer syscall.Umask(old)
	bare := t.TempDir()
	dir, at := storage(t, StorageOptions{})
	for _, in := range []string{bare, at} {
		cmd := exec.Command("/bin/sh", "-ec", script)
		cmd.Dir = in
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, name := range []string{"a", "g", "s", "f", "p", "l", "g/f", "g/d", "g/l", "g/p", "h", "i"} {
		var want, got unix.Stat_t
		if err := unix.Lstat(filepath.Join(bare, name), &want); err != nil {
			t.Fatal(err)
		}
		for _, in := range []string{dir, at} {
			if err := unix.Lstat(filepath.Join(in, name), &got); err != nil || got.Mode != want.Mode || got.Uid != want.Uid || got.Gid != want.Gid {
				t.Errorf("%s: mode %o of %d:%d, %v; want %o of %d:%d", filepath.Join(in, name), got.Mode, got.Uid, got.Gid, err, want.Mode, want.Uid, want.Gid)
			}
		}
	}
}

// TestPrivileges changes files that run with the rights of their owner and group: they keep or lose these bits
// in a mount as in a directory. An ordinary user loses them, root does not.
func TestPrivileges(t *testing.T) {
	_, at := storage(t, StorageOptions{})
	bare := t.TempDir()
	for _, change := range []string{"printf b >> f", "printf b 1<> f", ": > f", "truncate -s 5 f", "chgrp $(id -g) f", "chmod 755 f"} {
		modes := map[string]os.FileMode{}
		for _, in := range []string{bare, at} {
			cmd := exec.Command("/bin/sh", "-ec", "printf abc > f; chmod 6775 f; "+change)
			cmd.Dir = in
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", change, err, out)
			}
			fi, err := os.Stat(filepath.Join(in, "f"))
			if err != nil {
				t.Fatal(err)
			}
			modes[in] = fi.Mode()
		}
		if modes[at] != modes[bare] {
			t.Errorf("%s: mode %v, want %v", change, modes[at], modes[bare])
		}
	}
}

func TestReadOnlyStorage(t *testing.T) {
	_, at := storage(t, StorageOptions{ReadOnly: true})
	if err := os.WriteFile(filepath.Join(at, "a"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write: %v, want EROFS", err)
	}
}

func TestStorageThatHidesItself(t *testing.T) {
	testkit.All(t, "fuse")
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := image.CreateStore(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, filepath.Dir(dir)} {
		if _, err := Storage(dir, at, StorageOptions{}); !errors.Is(err, ErrHides) {
			t.Errorf("mounted on %s: %v", at, err)
		}
		if _, err := Browse(store, at, BrowseOptions{}); !errors.Is(err, ErrHides) {
			t.Errorf("a store, mounted on %s: %v", at, err)
		}
	}
}

// here lets this process itself use the mount: go's poller asks the file system about the first file
// that is opened, and would wait for the answer on the only processor.
func (m *Mount) here() error { return m.server.WaitMount() }
