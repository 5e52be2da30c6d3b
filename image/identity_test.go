package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// TestIdentity tells a store from its copies, wherever each of them goes.
func TestIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	open := func(name string) *Store {
		t.Helper()
		s, err := OpenStore(vfs.OS{}, at(name))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	copied := func(from, to string) {
		t.Helper()
		if err := os.CopyFS(at(to), os.DirFS(at(from))); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(from, to string) {
		t.Helper()
		if err := os.Rename(at(from), at(to)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := CreateStore(vfs.OS{}, at("store"))
	if err != nil {
		t.Fatal(err)
	}
	if is, err := s.Identity(); err != nil || is != (Identity{}) {
		t.Fatalf("a store of before: %+v, %v", is, err)
	}
	own, err := s.Own()
	if err != nil || !isID(own.ID) {
		t.Fatalf("%+v, %v", own, err)
	}
	owner, err := s.Owner()
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, id, original string, is bool) {
		t.Helper()
		if original != "" {
			original = at(original)
		}
		s := open(name)
		if got, err := s.Identity(); err != nil || got != (Identity{id, original}) {
			t.Errorf("%s is %+v, %v; want id %q and original %q", name, got, err, id, original)
		}
		if got, err := s.Is(owner); err != nil || got != is {
			t.Errorf("%s is the owner: %v, %v", name, got, err)
		}
	}
	check("store", own.ID, "", true)

	copied("store", "copy")
	check("copy", "", "store", false)
	second, err := open("copy").Own()
	if err != nil || second.ID == own.ID || second.Original != at("store") {
		t.Fatalf("the copy is %+v, %v", second, err)
	}
	check("copy", second.ID, "store", false)
	check("store", own.ID, "", true)

	moved("store", "renamed") // it keeps its inode
	check("renamed", own.ID, "", true)
	copied("copy", "store") // a copy at the old place
	check("renamed", own.ID, "", true)

	copied("renamed", "third")
	moved("renamed", "gone")
	if err := os.RemoveAll(at("gone")); err != nil {
		t.Fatal(err)
	}
	check("third", "", "store", false) // nothing tells whether it was moved
	if err := open("third").Moved(); err != nil {
		t.Fatal(err)
	}
	third, err := open("third").Identity()
	if err != nil || third.ID == own.ID || third.Original != "" {
		t.Errorf("moved, the store is %+v, %v", third, err)
	}
	check("third", third.ID, "", true)
}

// TestIdentityRestored: a store that came back from a backup is the same, a copy that takes
// its place while it lives elsewhere is not told apart by path alone.
func TestIdentityRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "store")
	s, err := CreateStore(vfs.OS{}, name)
	if err != nil {
		t.Fatal(err)
	}
	own, err := s.Own()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "backup"), os.DirFS(name)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(name, os.DirFS(filepath.Join(dir, "backup"))); err != nil {
		t.Fatal(err)
	}
	s, err = OpenStore(vfs.OS{}, name)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := s.Identity(); err != nil || is.ID != own.ID {
		t.Errorf("from the backup it is %+v, %v; want id %s", is, err, own.ID)
	}
}

// TestIdentityDamaged: each flipped byte of the file leaves a store that is still the owner
// of what it has marked.
func TestIdentityDamaged(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "store")
	s, err := CreateStore(vfs.OS{}, name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Own(); err != nil {
		t.Fatal(err)
	}
	owner, err := s.Owner()
	if err != nil {
		t.Fatal(err)
	}
	good, err := durable.ReadFile(vfs.OS{}, s.identityPath(), maxIdentity)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := append([]byte{}, good...)
		bad[i] ^= 1
		if err := os.WriteFile(s.identityPath(), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if is, err := s.Identity(); err != nil || is != (Identity{}) {
			t.Fatalf("with byte %d flipped it is %+v, %v", i, is, err)
		}
		if same, err := s.Is(owner); err != nil || !same {
			t.Fatalf("with byte %d flipped it is the owner: %v, %v", i, same, err)
		}
	}
	if is, err := s.Own(); err != nil || is.ID == owner.ID || !isID(is.ID) {
		t.Errorf("made anew it is %+v, %v", is, err)
	}
	if same, err := s.Is(owner); err != nil || !same {
		t.Errorf("made anew it is the owner: %v, %v", same, err)
	}
}

// TestSame knows a store under another name, and tells it from its copy.
func TestSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	s, err := CreateStore(vfs.OS{}, at("store"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, want bool) {
		t.Helper()
		o, err := OpenStore(vfs.OS{}, at(name))
		if err != nil {
			t.Fatal(err)
		}
		if is, err := o.Same(s); is != want || err != nil {
			t.Errorf("%s is the same: %v, %v", name, is, err)
		}
	}
	for _, id := range []bool{false, true} {
		if id {
			if _, err := s.Own(); err != nil {
				t.Fatal(err)
			}
		}
		link, copied := fmt.Sprint("link", id), fmt.Sprint("copy", id)
		if err := errors.Join(os.Symlink(at("store"), at(link)), os.CopyFS(at(copied), os.DirFS(at("store")))); err != nil {
			t.Fatal(err)
		}
		check("store", true)
		check(link, true)
		check(copied, false)
	}
	if _, err := CreateStore(vfs.OS{}, at("store/jobs/a")); !errors.Is(err, ErrAmongJobs) {
		t.Errorf("a store in the jobs of another: %v", err)
	}
}
