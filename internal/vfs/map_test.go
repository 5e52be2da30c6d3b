package vfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestMapping: a mapped file and the file have the same bytes, and a page that is not
// there any more is an error.
func TestMapping(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	f, err := OS{}.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Map(100); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("more than the file has was mapped: %v", err)
	}
	const size = 3 * DirectUnit
	if _, err := f.WriteAt(bytes.Repeat([]byte{1}, size), 0); err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(size)
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("across two pages")
	if err := errors.Join(CopyMapped(m.Bytes()[DirectUnit-5:], want), m.Sync(DirectUnit-5, int64(len(want)))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, DirectUnit-5); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Truncate(name, DirectUnit); err != nil {
		t.Fatal(err)
	}
	if err := CopyMapped(got, m.Bytes()[2*DirectUnit:]); !errors.Is(err, syscall.EIO) {
		t.Errorf("read of a page that is gone: %v", err)
	}
	if err := CopyMapped(m.Bytes()[2*DirectUnit:], want); !errors.Is(err, syscall.EIO) {
		t.Errorf("write to a page that is gone: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
