package filecache

import (
	"errors"
	"io/fs"
	"sync"
	"testing"

	"ckpt/internal/vfs"
)

func cachedFS(t *testing.T) (*Cache, *Files) {
	t.Helper()
	c, all := cluster(2)
	check(t, all[2].Mkdir("/store"))
	return c, NewFiles(c, Options{Size: 1000, Processes: []int{0, 1}}, func(name string) bool { return name != "plain" })
}

// TestSyncOfFilesIsCollective: it returns when all have synced or closed, and the store
// has the bytes of all then.
func TestSyncOfFilesIsCollective(t *testing.T) {
	c, files := cachedFS(t)
	a, b := files.Of(0), files.Of(1)
	fa := must(a.Create("/store/x"))(t)
	fb := must(b.OpenWrite("/store/x"))(t)
	must(fa.WriteAt([]byte("first "), 0))(t)
	var both sync.WaitGroup
	both.Go(func() {
		if err := fa.Sync(); err != nil {
			t.Error(err)
		}
		if got := stored(t, c, "/store/x"); string(got) != "first second" {
			t.Errorf("%q", got)
		}
	})
	must(fb.WriteAt([]byte("second"), 6))(t)
	// A reader sees what is in the cache, and nobody waits for it.
	r := must(b.Open("/store/x"))(t)
	got := make([]byte, 12)
	must(r.ReadAt(got, 0))(t)
	if string(got) != "first second" {
		t.Errorf("%q", got)
	}
	if _, err := r.WriteAt(got, 0); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	check(t, fb.Sync())
	both.Wait()

	// Closing counts as well.
	must(fa.WriteAt([]byte("FIRST"), 0))(t)
	both.Go(func() {
		if err := fa.Sync(); err != nil {
			t.Error(err)
		}
	})
	check(t, fb.Close())
	both.Wait()
	check(t, errors.Join(fa.Close(), r.Close()))
	if got := stored(t, c, "/store/x"); string(got) != "FIRST second" {
		t.Errorf("%q", got)
	}
	for _, f := range []vfs.File{fa, fb} {
		if err := f.Sync(); !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestFilesKeepTheRulesOfTheStore about names, and leave other files alone.
func TestFilesKeepTheRulesOfTheStore(t *testing.T) {
	c, files := cachedFS(t)
	a := files.Of(0)
	if _, err := a.OpenWrite("/store/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	f := must(a.Create("/store/x"))(t)
	if _, err := a.Create("/store/x"); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	check(t, f.Close())
	p := must(a.Create("/store/plain"))(t)
	must(p.WriteAt([]byte("at once"), 0))(t)
	if got := stored(t, c, "/store/plain"); string(got) != "at once" {
		t.Errorf("%q", got)
	}
	check(t, p.Close())
}

// TestDiscardFreesNodes of a file that a failure left in the cache.
func TestDiscardFreesNodes(t *testing.T) {
	c, files := cachedFS(t)
	f := must(files.Of(0).Create("/store/x"))(t)
	must(f.WriteAt([]byte("gone"), 0))(t)
	check(t, files.open["x"].file.Abandon())
	again := NewFiles(c, files.opt, func(string) bool { return true })
	if _, err := again.Of(0).OpenWrite("/store/x"); !errors.Is(err, ErrUnfinished) {
		t.Error(err)
	}
	check(t, c.Discard("x"))
	f = must(again.Of(0).OpenWrite("/store/x"))(t)
	if n := must(f.Size())(t); n != 0 {
		t.Errorf("%d bytes", n)
	}
	check(t, f.Close())
}
