package image

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"ckpt/image/container"
)

// TestLibraryAgain: an attempt at a checkpoint that was aborted leaves its library zone,
// which the next attempt replaces. That of a committed checkpoint stays as it is.
func TestLibraryAgain(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	write := func() (container.File, error) {
		return k.job.WriteLibrary(context.Background(), k.job.FS(), 1, libraryRegions(), container.WriteOptions{})
	}
	first, err := write()
	if err != nil {
		t.Fatal(err)
	}
	again, err := write()
	if err != nil || again.IndexBlake3 != first.IndexBlake3 {
		t.Fatalf("%+v, want %+v: %v", again, first, err)
	}
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	if _, err := write(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the library of a committed checkpoint was written again: %v", err)
	}
}
