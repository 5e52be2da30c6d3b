package memfs

import (
	"bytes"
	"testing"

	"ckpt/internal/vfs"
)

func write(t *testing.T, f vfs.File, b []byte) {
	t.Helper()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

func read(m *FS, name string) []byte {
	f, err := m.Open(name)
	if err != nil {
		return nil
	}
	n, _ := f.Size()
	b := make([]byte, n)
	_, _ = f.ReadAt(b, 0)
	return b
}

func create(t *testing.T, m *FS, name string) vfs.File {
	t.Helper()
	f, err := m.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCrash looks at what a loss of power may do.
func TestCrash(t *testing.T) {
	m := New()
	safe, now := bytes.Repeat([]byte("s"), 3*PageSize), bytes.Repeat([]byte("n"), 4*PageSize)
	f := create(t, m, "/safe")
	write(t, f, safe)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	synced := create(t, m, "/nameless") // its data is durable, its name is not
	write(t, synced, safe)
	if err := synced.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := m.Rename("/nameless", "/renamed"); err != nil {
		t.Fatal(err)
	}

	seen := map[string]bool{}
	for seed := range uint64(200) {
		c := m.CrashClone(Crash{Seed: seed})
		if !bytes.Equal(read(c, "/safe"), safe) {
			t.Fatalf("seed %d: synced data was lost", seed)
		}
		if c.Digest() != m.CrashClone(Crash{Seed: seed}).Digest() {
			t.Fatalf("seed %d: not reproducible", seed)
		}
		switch {
		case read(c, "/renamed") != nil:
			seen["renamed"] = true
		case read(c, "/nameless") != nil:
			seen["not renamed"] = true
		default:
			seen["not created"] = true
		}
		if b := read(c, "/renamed"); b != nil && !bytes.Equal(b, safe) {
			t.Fatalf("seed %d: a file lost synced data with its name", seed)
		}
	}
	if len(seen) != 3 {
		t.Errorf("only %v were seen", seen)
	}

	write(t, f, now)
	seen = map[string]bool{}
	for seed := range uint64(200) {
		b := read(m.CrashClone(Crash{Seed: seed}), "/safe")
		switch {
		case len(b) < len(safe) || len(b) > len(now):
			t.Fatalf("seed %d: %d bytes", seed, len(b))
		case bytes.Equal(b, safe):
			seen["old"] = true
		case bytes.Equal(b, now):
			seen["new"] = true
		default:
			seen["torn"] = true
		}
	}
	if !seen["torn"] {
		t.Errorf("only %v were seen", seen)
	}
	if b := read(m.CrashClone(Crash{Mode: Lost}), "/safe"); !bytes.Equal(b, safe) {
		t.Error("Lost kept something")
	}
	if b := read(m.CrashClone(Crash{Mode: Kept}), "/safe"); !bytes.Equal(b, now) {
		t.Error("Kept lost something")
	}
	if read(m.CrashClone(Crash{Mode: Lost}), "/renamed") != nil || read(m.CrashClone(Crash{Mode: Kept}), "/renamed") == nil {
		t.Error("the rename had the wrong fate")
	}

	// A clone and its original go separate ways.
	c := m.CrashClone(Crash{Mode: Kept})
	write(t, f, []byte("xyz"))
	if b := read(c, "/safe"); !bytes.Equal(b, now) {
		t.Error("the clone changed with the original")
	}
	// A sync and then a write must not change what was synced.
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	write(t, f, []byte("abc"))
	if b := read(m.CrashClone(Crash{Mode: Lost}), "/safe"); string(b[:3]) != "xyz" {
		t.Errorf("synced data became %q", b[:3])
	}
}

func TestLies(t *testing.T) {
	m := New()
	m.IgnoreSync, m.IgnoreSyncDir = true, true
	f := create(t, m, "/x")
	write(t, f, []byte("x"))
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if read(m.CrashClone(Crash{Mode: Lost}), "/x") != nil {
		t.Error("SyncDir did what it should have ignored")
	}
}
