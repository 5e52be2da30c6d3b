package coordinator

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/internal/vfs"
)

// shortDisk has no descriptor for so many opens of the message log of rank 1.
type shortDisk struct {
	vfs.Buffered
	left atomic.Int64
}

func (d *shortDisk) Open(name string) (vfs.File, error) {
	if filepath.Base(filepath.Dir(name)) == "rank-1" && d.left.Add(-1) >= 0 {
		return nil, syscall.EMFILE
	}
	return d.FS.Open(name)
}

// TestExamineAgain has descriptors run short while a recovery reads the log of a rank
// that died. Its checkpoints are there all the same, and no state is lost.
func TestExamineAgain(t *testing.T) {
	t.Parallel()
	s := short(t, "ring.S.3", job.Uncoordinated, "optimistic")
	s.AutoRestart, s.Schedule.Every = true, 2
	want := undisturbed(t, s)
	disk := &shortDisk{Buffered: vfs.Through(vfs.OS{})}
	r, rec, _ := mustLaunch(t, s, Options{FS: disk, Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: 9}}, watch: func(a protocol.Action) {
		if e, ok := a.(protocol.Examine); ok && e.Rank == 1 {
			disk.left.Store(int64(len(e.Numbers))) // each is opened for once
		}
	}})
	if r.Digest != want.Digest || len(eventsOf[*RecoveryEvent](rec)) == 0 {
		t.Errorf("digest %s, want %s, %d recoveries", r.Digest, want.Digest, len(eventsOf[*RecoveryEvent](rec)))
	}
	if disk.left.Load() >= 0 {
		t.Error("the log was not examined again")
	}
	// Else it restarts from scratch.
	if w := strings.Join(rec.warned, "\n"); w != "" {
		t.Errorf("warned %q", w)
	}
}
