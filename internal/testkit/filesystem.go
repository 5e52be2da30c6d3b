package testkit

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"
	"testing"

	"ckpt/internal/vfs"
)

// Conform holds a file system to what its interface promises, in an empty directory of it.
func Conform(t *testing.T, fsys vfs.FS, root string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	at := func(name string) string { return path.Join(root, name) }

	// Files.
	f, err := fsys.Create(at("a"))
	must(err)
	_, err = fsys.Create(at("a"))
	is(err, fs.ErrExist)
	_, err = fsys.Create(at("no/a"))
	is(err, fs.ErrNotExist)
	_, err = f.WriteAt([]byte("world"), 6)
	must(err)
	_, err = f.WriteAt([]byte("hello"), 0)
	must(err)
	must(f.Sync())
	if n, err := f.Size(); n != 11 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	b := make([]byte, 11)
	if n, err := f.ReadAt(b, 0); n != 11 || err != nil && err != io.EOF || !bytes.Equal(b, []byte("hello\x00world")) {
		t.Errorf("read %q, %v", b, err)
	}
	if n, err := f.ReadAt(b, 6); n != 5 || err != io.EOF {
		t.Errorf("read %d bytes across the end, %v", n, err)
	}
	must(f.Close())
	if err := f.Close(); err == nil {
		t.Error("closed twice")
	}
	r, err := fsys.Open(at("a"))
	must(err)
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Error("wrote to a file open for reading")
	}
	must(r.Close())
	_, err = fsys.Open(at("no"))
	is(err, fs.ErrNotExist)
	_, err = fsys.OpenWrite(at("no"))
	is(err, fs.ErrNotExist)
	w, err := fsys.OpenWrite(at("a"))
	must(err)
	_, err = w.WriteAt([]byte("W"), 6)
	must(err)
	if n, err := w.ReadAt(b, 0); n != 11 || err != nil && err != io.EOF || !bytes.Equal(b, []byte("hello\x00World")) {
		t.Errorf("read %q, %v after another wrote", b, err)
	}
	must(w.Sync())
	must(w.Close())

	// Directories.
	must(fsys.Mkdir(at("d")))
	is(fsys.Mkdir(at("d")), fs.ErrExist)
	is(fsys.Mkdir(at("no/d")), fs.ErrNotExist)
	f, err = fsys.Create(at("d/x"))
	must(err)
	must(f.Close())
	is(fsys.Remove(at("d")), syscall.ENOTEMPTY)
	must(fsys.Remove(at("d/x")))
	is(fsys.Remove(at("d/x")), fs.ErrNotExist)
	_, err = fsys.Stat(at("a/b"))
	is(err, syscall.ENOTDIR)

	// Rename replaces.
	f, err = fsys.Create(at("b"))
	must(err)
	must(f.Close())
	must(fsys.Rename(at("a"), at("b")))
	is(fsys.Rename(at("a"), at("b")), fs.ErrNotExist)
	fi, err := fsys.Stat(at("b"))
	must(err)
	if fi.Size() != 11 || fi.IsDir() || fi.Name() != "b" || fi.Mode() != 0o600 {
		t.Errorf("stat: %v %v %v %v", fi.Size(), fi.IsDir(), fi.Name(), fi.Mode())
	}
	list, err := fsys.ReadDir(root)
	must(err)
	if len(list) != 2 || list[0].Name() != "b" || list[1].Name() != "d" || !list[1].IsDir() {
		t.Errorf("list: %v", list)
	}
	must(fsys.Remove(at("d")))
	must(fsys.SyncDir(root))
	is(fsys.SyncDir(at("no")), fs.ErrNotExist)

	// Locks.
	l, err := fsys.Lock(at("lock"))
	must(err)
	_, err = fsys.Lock(at("lock"))
	is(err, vfs.ErrLocked)
	locked := func(want bool) {
		if got, err := fsys.Locked(at("lock")); got != want || err != nil {
			t.Errorf("locked: %v, %v; want %v", got, err, want)
		}
	}
	locked(true)
	must(l.Close())
	locked(false)
	l, err = fsys.Lock(at("lock"))
	must(err)
	must(l.Close())

	if n, err := fsys.Free(root); n <= 0 || err != nil {
		t.Errorf("free %d, %v", n, err)
	}
}
