package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShared: what is made in a directory that a group shares is for the group, whatever the
// umask; elsewhere it is the owner's alone.
func TestShared(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	for _, c := range []struct{ above, file, dir fs.FileMode }{
		{0o770 | fs.ModeSetgid, 0o660, 0o770 | fs.ModeSetgid | fs.ModeDir},
		{0o775 | fs.ModeSetgid, 0o660, 0o770 | fs.ModeSetgid | fs.ModeDir},
		{0o750 | fs.ModeSetgid, 0o600, 0o700 | fs.ModeSetgid | fs.ModeDir},
		{0o770, 0o600, 0o700 | fs.ModeDir},
	} {
		top := filepath.Join(t.TempDir(), "top")
		if err := os.Mkdir(top, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(top, c.above); err != nil {
			t.Fatal(err)
		}
		for name, fsys := range map[string]FS{"os": OS{}, "beneath": NewBeneath(top)} {
			path := filepath.Join(top, name)
			if err := fsys.Mkdir(path); err != nil {
				t.Fatal(err)
			}
			made := map[string]func(string) error{
				"create": func(path string) error { return closed(fsys.Create(path)) },
				"lock":   func(path string) error { return closed(fsys.Lock(path)) },
				"mkdir":  fsys.Mkdir,
			}
			made["direct"] = func(path string) error { return closed(fsys.CreateDirect(path)) }
			checkMode(t, path, c.dir)
			for what, do := range made {
				if err := do(filepath.Join(path, what)); err != nil {
					t.Logf("%s %s: %v", name, what, err) // O_DIRECT
					continue
				}
				want := c.file
				if what == "mkdir" {
					want = c.dir
				}
				checkMode(t, filepath.Join(path, what), want)
			}
		}
	}
}

func closed[C interface{ Close() error }](c C, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	if fi, err := os.Stat(path); err != nil || fi.Mode() != want {
		t.Errorf("%s: %v, %v; want %v", path, fi.Mode(), err, want)
	}
}
