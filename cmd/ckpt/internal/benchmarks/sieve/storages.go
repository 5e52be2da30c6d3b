package sieve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"ckpt/image/pfs"
	"ckpt/image/plan/fileview"
	"ckpt/internal/vfs"
)

// The ways of a pass with the page cache.
const (
	around = "around" // O_DIRECT
	cold   = "cold"   // nothing of the file is in it
	warm   = "warm"   // all of the file is in it
)

// A file is a file in a directory that is measured.
type file struct {
	vfs.File
	cache string
	buf   []byte
}

// create makes the file, and opens it for passes.
func create(ctx context.Context, fsys vfs.FS, name string, size int64, cache string) (*file, error) {
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	buf := vfs.Aligned(mostBytes)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(buf)
	chunk := int64(largeCall)
	if cache == warm {
		// Larger writes get larger pieces of memory, which are read four times as fast: most
		// programs write small pieces.
		chunk = smallCall
	}
	for off := int64(0); off < size && err == nil; off += chunk {
		if err = ctx.Err(); err == nil {
			_, err = f.WriteAt(buf[off%mostBytes:][:min(chunk, size-off)], off)
		}
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	open := fsys.OpenWrite
	if cache == around {
		open = fsys.OpenWriteDirect
	}
	if f, err = open(name); err != nil {
		return nil, err
	}
	_, err = f.ReadAt(buf[:smallCall], 0)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{File: f, cache: cache, buf: buf}, nil
}

func (f *file) repeats() bool { return true }

func (f *file) pass(a fileview.Access, p *pattern, rule fileview.Rule, device fileview.Device) (float64, fileview.Stats, error) {
	v, err := fileview.NewFile(f, p.view, fileview.Options{Rule: rule, Device: device})
	if err != nil {
		return 0, fileview.Stats{}, err
	}
	if f.cache == cold {
		if err := f.Forget(); err != nil {
			return 0, fileview.Stats{}, err
		}
	}
	start := time.Now()
	if a == fileview.Read {
		_, err = v.ReadAt(f.buf[:p.bytes], 0)
	} else if _, err = v.WriteAt(f.buf[:p.bytes], 0); err == nil && f.cache != warm {
		err = f.Sync()
	}
	return time.Since(start).Seconds(), v.Stats(), err
}

func (f *file) reads(offs []int64, length int64) (float64, error) {
	if f.cache == cold {
		if err := f.Forget(); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	for _, off := range offs {
		if _, err := f.ReadAt(f.buf[:length], off); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds() / float64(len(offs)), nil
}

// measured opens a file in a new directory, around the page cache where that works if the cache
// is not chosen.
func measured(ctx context.Context, fsys vfs.FS, dir, cache string, size int64, aligned bool) (f *file, remove func() error, err error) {
	work, err := os.MkdirTemp(dir, "ckpt-bench-")
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join(work, "blocks")
	switch {
	case cache == "" && aligned:
		if f, err = create(ctx, fsys, name, size, around); err != nil && ctx.Err() == nil {
			f, err = create(ctx, fsys, name, size, cold)
		}
	case cache == "":
		f, err = create(ctx, fsys, name, size, cold)
	default:
		f, err = create(ctx, fsys, name, size, cache)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("measure in %s: %w", dir, err), os.RemoveAll(work))
	}
	return f, func() error { return errors.Join(f.Close(), os.RemoveAll(work)) }, nil
}

// A described storage has passes in virtual time.
type described struct {
	system  *pfs.System
	size    int64
	stripe  int64
	servers int
	buf     []byte
}

func (d *described) repeats() bool { return false }

func (d *described) pass(a fileview.Access, p *pattern, rule fileview.Rule, device fileview.Device) (float64, fileview.Stats, error) {
	sim, open := d.open()
	v, err := fileview.NewFile(open, p.view, fileview.Options{Rule: rule, Device: device, Locker: open})
	if err != nil {
		return 0, fileview.Stats{}, err
	}
	if int64(len(d.buf)) < p.bytes {
		d.buf = make([]byte, p.bytes)
	}
	if a == fileview.Read {
		_, err = v.ReadAt(d.buf[:p.bytes], 0)
	} else {
		_, err = v.WriteAt(d.buf[:p.bytes], 0)
		open.Sync()
	}
	return sim.Now(), v.Stats(), err
}

func (d *described) open() (*pfs.Sim, *pfs.OpenFile) {
	sim := pfs.NewSim(d.system, pfs.Options{})
	return sim, sim.Client(0).Open(sim.File(pfs.FileSpec{StripeSize: d.stripe, StripeCount: d.servers}), d.size)
}

func (d *described) reads(offs []int64, length int64) (float64, error) {
	sim, open := d.open()
	p := make([]byte, length)
	for _, off := range offs {
		if _, err := open.ReadAt(p, off); err != nil {
			return 0, err
		}
	}
	return sim.Now() / float64(len(offs)), nil
}
