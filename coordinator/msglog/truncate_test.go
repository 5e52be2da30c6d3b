package msglog

import (
	"errors"
	"syscall"
	"testing"

	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestTruncateUpTo: a segment goes when its last frame lies before the one given,
// and not sooner.
func TestTruncateUpTo(t *testing.T) {
	disk, _, _ := smallLog(t)
	l, _, err := Open(disk, testDir, testID, Options{})
	must(t, err)
	second := l.segs[1].first
	for _, c := range []struct{ before, first LSN }{{second - 1, 1}, {second, second}, {second + 1, second}} {
		if _, _, err := l.Truncate(c.before); err != nil || first(l) != c.first {
			t.Errorf("before frame %d: the log begins with frame %d, want %d; %v", c.before, first(l), c.first, err)
		}
	}
	must(t, l.Close())
}

// A noSyncDir is a disk that cannot sync a directory when it is told so.
type noSyncDir struct {
	vfs.FS
	fail bool
}

func (n *noSyncDir) SyncDir(name string) error {
	if n.fail {
		return syscall.EIO
	}
	return n.FS.SyncDir(name)
}

// TestTruncateAfterFailedSync: the next segment is not removed before the removal of
// the last one is durable, or a crash could leave a gap.
func TestTruncateAfterFailedSync(t *testing.T) {
	disk, frames, _ := smallLog(t)
	fsys := &noSyncDir{FS: disk}
	l, _, err := Open(fsys, testDir, testID, Options{})
	must(t, err)
	before := LSN(len(frames) + 1)
	fsys.fail = true
	if _, _, err := l.Truncate(before); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	fsys.fail = false
	disk.AfterOp = func(op, name string) {
		for seed := range uint64(20) {
			crashed := disk.CrashClone(memfs.Crash{Mode: memfs.Random, Seed: seed})
			if _, _, err := readDir(crashed, testDir, 0); err != nil {
				t.Errorf("power fails after %s %s: %v", op, name, err)
				return
			}
		}
	}
	_, _, err = l.Truncate(before)
	must(t, err)
	disk.AfterOp = nil
	must(t, l.Close())
}
