package msglog

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// commitFrame appends a frame and commits it.
func commitFrame(t *testing.T, l *Log, n int) error {
	t.Helper()
	_, err := l.Append(frameOf(n))
	must(t, err)
	return l.Commit(context.Background())
}

// powerFails returns the frames that are left when power fails now.
func powerFails(t *testing.T, disk *memfs.FS) []numbered {
	t.Helper()
	there, _, err := readDir(disk.CrashClone(memfs.Crash{Mode: memfs.Lost}), testDir, 0)
	must(t, err)
	return there
}

// A process whose fsync has failed dies before it has begun a new segment. All that
// its successor reads, replays and acknowledges must be on the disk.
func TestFailedFsyncAndDeath(t *testing.T) {
	disk := memfs.New()
	c := &faulty{Buffered: vfs.Through(disk)}
	l, _, err := Open(c, testDir, testID, Options{})
	must(t, err)
	for n := range 3 {
		c.sync = n == 2
		if err := commitFrame(t, l, n); (err != nil) != (n == 2) {
			t.Fatal(err)
		}
	}
	c.sync = false
	must(t, l.lock.Close()) // by the kernel
	l, rec, err := Open(c, testDir, testID, Options{})
	must(t, err)
	before, err := readAll(l.NewReader(0))
	must(t, err)
	must(t, l.Close())
	if rec.Next != 4 || len(before) != 3 {
		t.Fatalf("%+v, %d frames", rec, len(before))
	}
	if after := powerFails(t, disk); len(after) != len(before) {
		t.Errorf("%d frames were read, and when the power had failed %d", len(before), len(after))
	}
}

// A device notices late what it has not written: a group is reported durable, and the
// sync of a later one fails. From Reopen on all that was reported is on the disk.
func TestFsyncFailsLate(t *testing.T) {
	for _, segment := range []int64{1500, DefaultSegment} {
		disk := memfs.New()
		c := &faulty{Buffered: vfs.Through(disk)}
		l, _, err := Open(c, testDir, testID, Options{SegmentBytes: segment})
		must(t, err)
		for n := range 8 {
			if n == 5 {
				c.lies = 1
			}
			must(t, commitFrame(t, l, n))
		}
		c.sync = true
		if err := commitFrame(t, l, 8); err == nil {
			t.Fatal("nothing failed")
		}
		c.sync = false
		must(t, l.Reopen())
		must(t, commitFrame(t, l, 9))
		there := powerFails(t, disk)
		if len(there) != 9 || there[8].lsn != 10 {
			t.Errorf("segments of %d bytes: %+v are left", segment, there)
		}
		for i, f := range there[:min(8, len(there))] {
			if f.lsn != LSN(i+1) || !sameFrame(f.Frame, frameOf(i)) {
				t.Errorf("segments of %d bytes: frame %d is not what was written", segment, f.lsn)
			}
		}
		must(t, l.Close())
	}
}

// After a sync that failed the next ones succeed and write nothing. None of them is
// believed, in the copy of the segment, in the new one and behind.
func TestFailedFsyncThenLies(t *testing.T) {
	for lies := range 6 {
		disk := memfs.New()
		c := &faulty{Buffered: vfs.Through(disk)}
		l, _, err := Open(c, testDir, testID, Options{})
		must(t, err)
		for n := range 3 {
			must(t, commitFrame(t, l, n))
		}
		c.sync = true
		if err := commitFrame(t, l, 3); err == nil {
			t.Fatal("nothing failed")
		}
		c.sync, c.lies = false, lies
		want := 3
		for n := range 20 {
			if err := l.Reopen(); err != nil {
				continue
			}
			if commitFrame(t, l, 4+n) == nil {
				want++
			}
			if n == 8 {
				c.lies++ // of a commit
			}
		}
		if there := powerFails(t, disk); len(there) != want || want < 20-lies-1 {
			t.Errorf("%d lies: %d frames were reported durable, %d are left", lies, want, len(there))
		}
		must(t, l.Close())
	}
}

// When the directory cannot be synced, a segment that was removed may come back. The
// next one goes only when that cannot be any more: a gap would be damage.
func TestTruncateFailedSync(t *testing.T) {
	begun := memfs.New()
	l, _, err := Open(begun, testDir, testID, Options{SegmentBytes: 300})
	must(t, err)
	for n := range 12 {
		must(t, commitFrame(t, l, n))
	}
	must(t, l.Close())
	failed := 0
	for at := range 60 {
		disk := kept(begun)
		bad := memfs.WithFault(disk, memfs.Fault{At: at + 1, Err: syscall.EIO})
		l, _, err := Open(bad, testDir, testID, Options{SegmentBytes: 300})
		if err != nil {
			continue
		}
		disk.AfterOp = func(op, name string) {
			for seed := range uint64(20) {
				if _, _, err := readDir(disk.CrashClone(memfs.Crash{Seed: seed}), testDir, 0); err != nil {
					t.Fatalf("operation %d failed; power failed after %s %s: %v", at+1, op, name, err)
				}
			}
		}
		for range 2 {
			if _, _, err := l.Truncate(l.Next()); err != nil {
				failed++
			}
		}
		must(t, l.lock.Close())
	}
	if failed < 5 {
		t.Errorf("%d operations failed", failed)
	}
}

// A fullFS has no space for anything.
type fullFS struct {
	vfs.Buffered
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
	disk := &fullFS{Buffered: vfs.Through(memfs.New())}
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
		if !errors.Is(err, durable.ErrStorageFull) {
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
	if err := l.Close(); !errors.Is(err, durable.ErrStorageFull) {
		t.Errorf("closed: %v", err)
	}
	disk.full = false
	if all, _, err := readDir(disk, testDir, 0); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// Reset leaves an empty log whose frames resume from a number, whatever was there.
func TestReset(t *testing.T) {
	disk, frames, _ := smallLog(t)
	putFile(t, disk, segmentPath(testDir, 2), []byte("damaged"))
	first := frames[len(frames)-1].lsn + 10
	must(t, Reset(disk, testDir, testID, first))
	l, rec, err := Open(disk, testDir, testID, Options{})
	must(t, err)
	if rec.First != first || rec.Next != first || l.Next() != first {
		t.Fatalf("%+v", rec)
	}
	if err := Reset(disk, testDir, testID, first); !errors.Is(err, ErrInUse) {
		t.Errorf("a log in use: %v", err)
	}
	must(t, commitFrame(t, l, 0))
	if there := powerFails(t, disk); len(there) != 1 || there[0].lsn != first {
		t.Errorf("%+v", there)
	}
	must(t, l.Close())
}
