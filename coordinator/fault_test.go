package coordinator

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// envFault tells which operations of the checkpoints of a rank fail: RANK:STEP:LAST, as of
// a badDisk.
const envFault = "CKPT_TEST_FAULT"

// rankFS returns the file system of a rank of a test.
func rankFS(job string) vfs.FS {
	variable := func(name string) string { return os.Getenv(rankVariable(job, name)) }
	var rank, step, last int
	if n, _ := fmt.Sscanf(variable(envFault), "%d:%d:%d", &rank, &step, &last); n == 3 && os.Getenv(wire.EnvRank) == fmt.Sprint(rank) {
		return newBadDisk(step, last)
	}
	if gate := variable(envStall); gate != "" {
		return stallingDisk{vfs.Through(vfs.OS{}), gate}
	}
	if store, gate, ok := strings.Cut(variable(envStore), ":"); ok {
		return storeDisk{vfs.Through(vfs.OS{}), store, gate}
	}
	if dir := variable(envMeet); dir != "" {
		return newMeetingDisk(dir)
	}
	if path := variable(envOrder); path != "" {
		return newOrderDisk(path)
	}
	return vfs.OS{}
}

// badDisk fails one operation in two of three checkpoints: in each such checkpoint one that
// comes step operations later than in the one before, up to the operation last.
type badDisk struct {
	vfs.Buffered
	step, last int
	bad        atomic.Pointer[memfs.FaultFS] // of the checkpoint that has begun; nil: it has no fault
	mu         sync.Mutex
	number     int // of that checkpoint
	faults     int
}

var faultKinds = []memfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC}, {Short: true}}

func newBadDisk(step, last int) *badDisk {
	return &badDisk{Buffered: vfs.Through(vfs.OS{}), step: step, last: last}
}

// badCheckpoints is how many checkpoints a badDisk needs.
func badCheckpoints(step, last int) int { return (last+step-1)/step*3/2 + 2 }

func (d *badDisk) now() vfs.FS {
	if bad := d.bad.Load(); bad != nil {
		return bad
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
	number := 0
	if found := checkpointOf.FindString(name); found != "" {
		number, _ = strconv.Atoi(found[1:])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if number <= d.number { // traces come later than the files of the next checkpoint
		return
	}
	d.number = number
	at := 1 + d.step*d.faults
	if number%3 == 0 || at > d.last {
		d.bad.Store(nil)
		return
	}
	f := faultKinds[d.faults%len(faultKinds)]
	f.At = at
	d.bad.Store(memfs.WithFault(d.FS, f))
	d.faults++
}

var checkpointOf = regexp.MustCompile(`/[0-9]{4}\b`)

// OpenWrite: files of several ranks are made by the coordinator.
func (d *badDisk) OpenWrite(name string) (vfs.File, error) {
	d.begin(name)
	return d.now().OpenWrite(name)
}

func (d *badDisk) Open(name string) (vfs.File, error) { return d.now().Open(name) }
func (d *badDisk) Rename(from, to string) error       { return d.now().Rename(from, to) }
func (d *badDisk) Remove(name string) error           { return d.now().Remove(name) }
func (d *badDisk) SyncDir(name string) error          { return d.now().SyncDir(name) }

// TestFailedOperations fails operations of checkpoints, each in a checkpoint of its own, in
// a rank and in the coordinator that commits; the nightly form fails all of them. The job
// goes on, the other checkpoints are whole, nothing is left behind, and the report names
// the file.
func TestFailedOperations(t *testing.T) {
	t.Parallel()
	step := 5
	switch {
	case testkit.Enabled:
		step = 6
	case testkit.Nightly():
		step = 1
	}
	failOperations(t, "per-rank", newSpec(t, "ring.S.4", 2), step)
	for _, layout := range []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared} {
		s := newSpec(t, "ring.S.4", 2)
		s.WritePath.Layout, s.Async = layout, layout != plan.Aggregated
		if testkit.Enabled && layout != plan.Shared {
			continue
		}
		failOperations(t, fmt.Sprintf("%s,async=%v", layout, s.Async), s, step+2)
	}
}

func failOperations(t *testing.T, name string, s job.Spec, step int) {
	s.Schedule.Every = 1
	for _, of := range []string{"rank", "coordinator"} {
		t.Run(name+"/"+of, func(t *testing.T) {
			t.Parallel()
			s, opt := s, Options{Job: fmt.Sprintf("failing-%s-%d-%v-%s", s.WritePath.Layout, step, s.Async, of)}
			last := 24
			if of == "rank" {
				forRank(t, opt.Job, envFault, fmt.Sprintf("0:%d:%d", step, last))
			} else {
				last = 30
				opt.FS = newBadDisk(step, last)
			}
			taken := badCheckpoints(step, last)
			s.Iterations = taken + 1
			r, rec, opt := mustLaunch(t, s, opt)
			if want := undisturbed(t, s); r.Digest != want.Digest || r.Failures != 0 {
				t.Errorf("result %+v, want digest %s", r, want.Digest)
			}
			events := eventsOf[*AbortedEvent](rec)
			if r.Checkpoints+len(events) != taken || r.Lost != len(events) {
				t.Errorf("%d checkpoints taken of %d, lost %+v", r.Checkpoints, taken, events)
			}
			for _, e := range events {
				if e.Number%3 == 0 || !strings.Contains(e.Reason, opt.Store) {
					t.Errorf("checkpoint %d: reason %q names no file", e.Number, e.Reason)
				}
			}
			t.Logf("%d of %d checkpoints were aborted", len(events), taken)
			if len(events) < last/step/4 {
				t.Error("the faults do not strike")
			}
			verifyAll(t, opt)
		})
	}
}
