package msglog

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"ckpt/image"
	"ckpt/image/vfs"
	"ckpt/image/vfs/memfs"
)

// A cleanFS is a disk whose fsync fails when it is told to and then takes all pages
// for clean, as ext4 does: they can be read, and later fsyncs succeed without them.
type cleanFS struct {
	vfs.FS
	fail  bool
	clean map[string]bool // by name
}

type cleanFile struct {
	vfs.File
	fs   *cleanFS
	name string
}

func (c *cleanFS) file(f vfs.File, err error, name string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &cleanFile{f, c, strings.TrimSuffix(name, tmpSuffix)}, nil
}

func (c *cleanFS) Create(name string) (vfs.File, error) {
	f, err := c.FS.Create(name)
	return c.file(f, err, name)
}

func (c *cleanFS) OpenWrite(name string) (vfs.File, error) {
	f, err := c.FS.OpenWrite(name)
	return c.file(f, err, name)
}

func (c *cleanFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	return c.file(f, err, name)
}

func (f *cleanFile) WriteAt(b []byte, off int64) (int, error) {
	delete(f.fs.clean, f.name)
	return f.File.WriteAt(b, off)
}

func (f *cleanFile) Sync() error {
	switch {
	case f.fs.fail:
		f.fs.fail, f.fs.clean[f.name] = false, true
		return syscall.EIO
	case f.fs.clean[f.name]:
		return nil
	}
	return f.File.Sync()
}

// A process whose fsync has failed dies before it has begun a new segment. What its
// successor reads, replays and acknowledges must be on the disk.
func TestFailedFsyncAndDeath(t *testing.T) {
	disk := memfs.New()
	c := &cleanFS{FS: disk, clean: make(map[string]bool)}
	l, _, err := Open(c, testDir, testID, Options{})
	must(t, err)
	for n := range 3 {
		_, err = l.Append(frameOf(n))
		must(t, err)
		c.fail = n == 2
		if err := l.Commit(context.Background()); (err != nil) != (n == 2) {
			t.Fatal(err)
		}
	}
	must(t, l.lock.Close()) // by the kernel
	l, rec, err := Open(c, testDir, testID, Options{})
	must(t, err)
	before, err := readAll(l.NewReader(0))
	must(t, err)
	must(t, l.Close())
	if rec.Next != 4 || len(before) != 3 {
		t.Fatalf("%+v, %d frames", rec, len(before))
	}
	after, _, err := readDir(disk.CrashClone(memfs.Crash{Mode: memfs.Lost}), testDir, 0)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d frames were read, and when the power had failed %d: %v", len(before), len(after), err)
	}
}

// A fullFS has no room for anything.
type fullFS struct {
	vfs.FS
	full bool
}

func (f *fullFS) Create(name string) (vfs.File, error) {
	if f.full {
		return nil, syscall.ENOSPC
	}
	return f.FS.Create(name)
}

// A rank that dies on a full disk comes back: its log can be read, and takes more
// when there is room.
func TestOpenOnFullDisk(t *testing.T) {
	disk := &fullFS{FS: memfs.New()}
	l, _, err := Open(disk, testDir, testID, Options{})
	must(t, err)
	_, err = l.Append(frameOf(3))
	must(t, err)
	must(t, l.Close())

	disk.full = true
	l, rec, err := Open(disk, testDir, testID, Options{})
	must(t, err)
	if all, err := readAll(l.NewReader(0)); err != nil || len(all) != 1 || rec.Segments != 1 || l.Next() != 2 {
		t.Errorf("%d frames, %+v, %v", len(all), rec, err)
	}
	for what, err := range map[string]error{"append": func() error { _, err := l.Append(frameOf(4)); return err }(),
		"commit": l.Commit(context.Background()), "reopen": l.Reopen()} {
		if !errors.Is(err, image.ErrStorageFull) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := l.Truncate(2); err != nil {
		t.Error(err)
	}
	disk.full = false
	must(t, l.Reopen())
	lsn, err := l.Append(frameOf(4))
	must(t, err)
	must(t, l.Wait(context.Background(), lsn))
	if all, err := readAll(l.NewReader(0)); err != nil || len(all) != 2 || all[1].lsn != 2 {
		t.Errorf("%v, %v", all, err)
	}
	must(t, l.Close())

	disk.full = true
	l, _, err = Open(disk, testDir, testID, Options{})
	must(t, err)
	if err := l.Close(); !errors.Is(err, image.ErrStorageFull) {
		t.Errorf("closed: %v", err)
	}
	disk.full = false
	if all, _, err := readDir(disk, testDir, 0); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}
