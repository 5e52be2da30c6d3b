package ui

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestWriteFileInterrupted: a signal ends the writing of a file, and nothing is left.
func TestWriteFileInterrupted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.csv")
	g := &Globals{}
	err := g.WriteFile(t.Context(), name, func(w io.Writer) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		line := bytes.Repeat([]byte("x"), 1<<16)
		for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
			if _, err := w.Write(line); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		return errors.New("waited in vain for the signal")
	})
	if ExitCode(err) != ExitInterrupted {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestWriteFileMode: a new file is as readable as the umask has it, and one that is
// replaced as before.
func TestWriteFileMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	for name, c := range map[string]struct{ before, want fs.FileMode }{"new": {0, 0o640}, "secret": {0o600, 0o600}, "open": {0o666, 0o666}, "readonly": {0o400, 0o400}} {
		path := filepath.Join(dir, name)
		if c.before != 0 {
			if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, c.before)); err != nil {
				t.Fatal(err)
			}
		}
		g := &Globals{}
		if err := g.WriteFile(t.Context(), path, func(w io.Writer) error { _, err := io.WriteString(w, name); return err }); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != c.want || fi.Size() != int64(len(name)) {
			t.Errorf("%s: %v, %d bytes", name, fi.Mode(), fi.Size())
		}
	}
}
