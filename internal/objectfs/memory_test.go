package objectfs_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/objectfs"
	"ckpt/internal/objectfs/objecttest"
)

// TestBuffers has four writers share a file, as ranks have: no more parts are in memory than are
// under way and two, and none is once the file is there, or is dropped.
func TestBuffers(t *testing.T) {
	const part, block, blocks = 64 << 10, 8 << 10, 8 * 100
	f := objectfs.New(objecttest.NewMemory(time.Now), root)
	f.Alone(part)
	write := func(name string) interface {
		Sync() error
		Close() error
	} {
		w, err := f.Create(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var next atomic.Int64
		var g errgroup.Group
		for range 4 {
			g.Go(func() error {
				for i := next.Add(1) - 1; i < blocks; i = next.Add(1) - 1 {
					if _, err := w.WriteAt(make([]byte, block), i*block); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	whole := write("whole.img")
	if err := errors.Join(whole.Sync(), whole.Close()); err != nil {
		t.Fatal(err)
	}
	if most, now := f.Buffers(); most > objectfs.MostParts || now > 0 {
		t.Errorf("%d parts in memory, then %d; at most %d, then none", most, now, objectfs.MostParts)
	}
	dropped := write("dropped.img")
	if err := errors.Join(dropped.Close(), dropped.Close()); err == nil {
		t.Error("closed twice")
	}
	temp := write("other.img.tmp")
	if err := errors.Join(temp.Close(), f.Remove(root+"/other.img.tmp")); err != nil {
		t.Fatal(err)
	}
	if _, now := f.Buffers(); now > 0 {
		t.Errorf("%d parts in memory of files that were dropped", now)
	}
}
