package wire

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/family"
	"ckpt/internal/vfs"
)

// TestUnreachable: a job whose lock is held runs, although its socket is not there. The
// announcement of a process that was killed is of no job that runs, whoever has the lock.
func TestUnreachable(t *testing.T) {
	store, err := image.CreateStore(vfs.OS{}, filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "sock")
	if err := Announce(j, "unix:"+socket, "token"); err != nil {
		t.Fatal(err)
	}
	contact := func() error {
		other, err := store.Job("job")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Contact(t.Context(), other)
		return err
	}
	var e *UnreachableError
	err = contact()
	if !errors.As(err, &e) || !errors.Is(err, image.ErrInUse) || errors.Is(err, ErrNotRunning) {
		t.Fatalf("with the lock: %v", err)
	}
	host, _ := os.Hostname()
	if e.PID != os.Getpid() || e.Host != host || !e.Here || !strings.Contains(err.Error(), socket) {
		t.Errorf("%+v: %v", e, err)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // nobody listens on it
		t.Fatal(err)
	}
	if err := contact(); !errors.As(err, &e) {
		t.Errorf("with a dead socket: %v", err)
	}

	text, err := durable.ReadFile(j.FS(), announcementPath(j), 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := ThisHost()
	parts := strings.Split(id, ".")
	announce := func(old, new string) {
		t.Helper()
		changed := strings.Replace(string(text), old, new, 1)
		if changed == string(text) && old != new {
			t.Fatalf("no %s in %s", old, text)
		}
		if err := os.WriteFile(announcementPath(j), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	announce(id, parts[0]+"."+parts[1]+".1")
	if err := contact(); !errors.As(err, &e) || e.Here {
		t.Errorf("in another container: %v", err)
	}
	// No process has so high a number.
	announce(`"pid":`, `"pid":1073741824, "was":`)
	if err := contact(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a killed process, and the lock of another: %v", err)
	}
	self, _ := family.Find(os.Getpid())
	announce(`"start":"`+self.Start, `"start":"1`+self.Start)
	if err := contact(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("another process that has the number, and the lock of another: %v", err)
	}
	announce("", "")
	if err := j.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := contact(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("without the lock: %v", err)
	}
}
