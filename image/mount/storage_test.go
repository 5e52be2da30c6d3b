package mount

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ckpt/internal/testkit"
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
	for _, at := range []string{dir, filepath.Dir(dir)} {
		if _, err := Storage(dir, at, StorageOptions{}); !errors.Is(err, ErrHides) {
			t.Errorf("mounted on %s: %v", at, err)
		}
	}
}

// here lets this process itself use the mount: go's poller asks the file system about the first file
// that is opened, and would wait for the answer on the only processor.
func (m *Mount) here() error { return m.server.WaitMount() }
