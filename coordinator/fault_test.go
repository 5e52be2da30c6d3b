package coordinator

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image/plan"
	"ckpt/internal/race"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/faultfs"
)

// envFault tells a rank of a test which operation of its first checkpoint is to
// fail: RANK:NUMBER:KIND.
const envFault = "CKPT_TEST_FAULT"

// rankFS returns the file system of a rank of a test.
func rankFS() vfs.FS {
	var rank, at, kind int
	if n, _ := fmt.Sscanf(os.Getenv(envFault), "%d:%d:%d", &rank, &at, &kind); n == 3 && os.Getenv(wire.EnvRank) == fmt.Sprint(rank) {
		return newBadDisk(at, kind)
	}
	if gate := os.Getenv(envStall); gate != "" {
		return stallingDisk{vfs.OS{}, gate}
	}
	if store, gate, ok := strings.Cut(os.Getenv(envStore), ":"); ok {
		return storeDisk{vfs.OS{}, store, gate}
	}
	if dir := os.Getenv(envMeet); dir != "" {
		return newMeetingDisk(dir)
	}
	if path := os.Getenv(envOrder); path != "" {
		return newOrderDisk(path)
	}
	return vfs.OS{}
}

// badDisk works until the first checkpoint begins; from then on operations
// count, and one of them fails.
type badDisk struct {
	vfs.FS
	bad   *faultfs.FS
	began atomic.Bool
}

var faultKinds = []faultfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC}, {Short: true}}

func newBadDisk(at, kind int) *badDisk {
	f := faultKinds[kind%len(faultKinds)]
	f.At = at
	return &badDisk{FS: vfs.OS{}, bad: faultfs.New(vfs.OS{}, f)}
}

func (d *badDisk) now() vfs.FS {
	if d.began.Load() {
		return d.bad
	}
	return d.FS
}

// Creating a file of a checkpoint, or its directory, begins it.
func (d *badDisk) Create(name string) (vfs.File, error) {
	d.begin(name)
	return d.now().Create(name)
}

func (d *badDisk) Mkdir(name string) error {
	d.begin(name)
	return d.now().Mkdir(name)
}

func (d *badDisk) begin(name string) {
	if strings.Contains(name, "/0001") {
		d.began.Store(true)
	}
}

// OpenWrite: files of several ranks are made by the coordinator.
func (d *badDisk) OpenWrite(name string) (vfs.File, error) {
	d.begin(name)
	return d.now().OpenWrite(name)
}

func (d *badDisk) Open(name string) (vfs.File, error) { return d.now().Open(name) }
func (d *badDisk) Rename(from, to string) error       { return d.now().Rename(from, to) }
func (d *badDisk) Remove(name string) error           { return d.now().Remove(name) }
func (d *badDisk) SyncDir(name string) error          { return d.now().SyncDir(name) }

// TestFailedOperations fails each operation of a checkpoint once, in a rank
// that writes three files and in the coordinator that commits. The job goes on,
// the checkpoint before and the one after are whole, nothing is left behind,
// and the report names the file.
func TestFailedOperations(t *testing.T) {
	step := 3
	switch {
	case race.Enabled:
		step = 6
	case race.Nightly():
		step = 1
	}
	t.Run("per-rank", func(t *testing.T) { failOperations(t, newSpec(t, "ring.S.4", 2), step) })
	for _, layout := range []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared} {
		s := newSpec(t, "ring.S.4", 2)
		s.WritePath.Layout, s.Async = layout, layout != plan.Aggregated
		if race.Enabled && layout != plan.Shared {
			continue
		}
		t.Run(fmt.Sprintf("%s,async=%v", layout, s.Async), func(t *testing.T) { failOperations(t, s, step+2) })
	}
}

func failOperations(t *testing.T, s job.Spec, step int) {
	want, _, _ := mustLaunch(t, s, Options{})
	s.Schedule.Every = 15 // at 15 and 30 of 40
	lost := 0
	run := func(name string, opt Options) {
		t.Run(name, func(t *testing.T) {
			r, rec, opt := mustLaunch(t, s, opt)
			if r.Digest != want.Digest || r.Failures != 0 {
				t.Errorf("result %+v, want digest %s", r, want.Digest)
			}
			events := eventsOf[*AbortedEvent](rec)
			if r.Checkpoints+len(events) != 2 || len(events) > 1 || r.Lost != len(events) {
				t.Errorf("%d checkpoints taken, lost %+v", r.Checkpoints, events)
			}
			for _, e := range events {
				lost++
				if !strings.Contains(e.Reason, opt.Store) {
					t.Errorf("reason %q names no file", e.Reason)
				}
			}
			verifyAll(t, opt)
		})
	}
	for at := 1; at <= 24; at += step {
		t.Setenv(envFault, fmt.Sprintf("0:%d:%d", at, at/step))
		run(fmt.Sprintf("rank/%d", at), Options{})
	}
	t.Setenv(envFault, "")
	for at := 1; at <= 30; at += step {
		run(fmt.Sprintf("coordinator/%d", at), Options{FS: newBadDisk(at, at/step)})
	}
	t.Logf("%d checkpoints were aborted", lost)
	if lost < 8/step {
		t.Errorf("only %d checkpoints were aborted: the faults do not strike", lost)
	}
}
