package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
)

// envStore tells a rank of a test where the store is and which file makes it fail or stall:
// STORE:FILE.
const envStore = "CKPT_TEST_STORE"

// storeDisk is a file system in which one directory, the store, fails, answers nothing or
// is slow while a file exists, as the content of that says: fail, stall or the bytes per
// second of each process. Changes by the ranks and by the coordinator of a test both meet
// it.
type storeDisk struct {
	vfs.Buffered
	dir, gate string
}

// diskErrors are the errors of a store.
var diskErrors = map[string]error{"fail": syscall.EIO, "full": syscall.ENOSPC, "read-only": syscall.EROFS}

func (d storeDisk) change(name string) error {
	if !strings.HasPrefix(name, d.dir+"/") {
		return nil
	}
	for {
		mode, err := os.ReadFile(d.gate)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case diskErrors[string(mode)] != nil:
			return &fs.PathError{Op: "write", Path: name, Err: diskErrors[string(mode)]}
		case string(mode) != "stall":
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (d storeDisk) Create(name string) (vfs.File, error) {
	if err := d.change(name); err != nil {
		return nil, err
	}
	f, err := d.FS.Create(name)
	if err != nil || !strings.HasPrefix(name, d.dir+"/") {
		return f, err
	}
	return &slowFile{Plain: vfs.Only(f), gate: d.gate}, nil
}

// slowFile takes as long to write as its bytes take at the rate of the store.
type slowFile struct {
	vfs.Plain
	gate string
	mu   sync.Mutex
}

func (f *slowFile) WriteAt(b []byte, off int64) (int, error) {
	if mode, err := os.ReadFile(f.gate); err == nil {
		if rate, err := strconv.ParseFloat(string(mode), 64); err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			time.Sleep(time.Duration(float64(len(b)) / rate * float64(time.Second)))
		}
	}
	return f.File.WriteAt(b, off)
}

func (d storeDisk) Mkdir(name string) error {
	return errors.Join(d.change(name), d.FS.Mkdir(name))
}

func (d storeDisk) Rename(from, to string) error {
	if err := d.change(to); err != nil {
		return err
	}
	return d.FS.Rename(from, to)
}

// gatedRun describes a run with a store that close makes fail or stall, until open.
func gatedRun(t testing.TB, name string, s *job.Spec) (opt Options, shut func(mode string), open func()) {
	t.Helper()
	opt = Options{Store: t.TempDir(), Job: name}
	gate := filepath.Join(t.TempDir(), "gate")
	forRank(t, name, envStore, opt.Store+":"+gate)
	opt.FS = storeDisk{vfs.Through(vfs.OS{}), opt.Store, gate}
	s.Schedule.Every = 10
	return opt, func(mode string) {
			if err := os.WriteFile(gate, []byte(mode), 0o600); err != nil {
				t.Error(err)
			}
		}, func() {
			if err := os.Remove(gate); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
}

// TestTierStoreFails: a store that fails costs no checkpoint. The user is told once, and
// what the nodes have is stored when the store works again.
func TestTierStoreFails(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "behind")
	want := undisturbed(t, s)
	opt, shut, open := gatedRun(t, "failing-store", &s)
	rec := &recorder{t: t}
	rec.on = func(ev any) {
		if cp, ok := ev.(*job.CheckpointEvent); ok && cp.Number == 1 {
			shut("fail")
		}
	}
	opt.Observer = rec
	r, _, _ := mustLaunch(t, s, opt)
	if r.Digest != want.Digest || r.Checkpoints != 5 || r.Lost != 0 {
		t.Errorf("result %+v, want 5 checkpoints and digest %s", r, want.Digest)
	}
	told := 0
	for _, w := range rec.warned {
		if strings.Contains(w, "is not in the store yet") {
			told++
		}
	}
	if told != 1 || !slices.ContainsFunc(rec.warned, func(w string) bool {
		return strings.Contains(w, "checkpoint 5 of job failing-store is on the nodes only")
	}) {
		t.Errorf("warnings %q", rec.warned)
	}
	open()
	again := &recorder{t: t}
	opt.Observer = again
	r, err := Restart(t.Context(), RestartOptions{Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	if from := eventsOf[*StartEvent](again)[0].From; r.Digest != want.Digest || from != 5 {
		t.Errorf("restarted from checkpoint %d with digest %s", from, r.Digest)
	}
	if got := storedNumbers(t, opt); !slices.Contains(got, 5) {
		t.Errorf("checkpoints %v are in the store, want 5: %q %+v", got, again.warned, eventsOf[*levels.LevelEvent](again))
	}
	verifyAll(t, opt)
}

// TestTierBackPressure: while a store does not answer, two checkpoints are taken, and the
// third one waits, with its ranks, until the store answers again.
func TestTierBackPressure(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "behind")
	want := undisturbed(t, s)
	opt, shut, open := gatedRun(t, "stalling-store", &s)
	rec := &recorder{t: t}
	waits := 0 // the checkpoint that did
	rec.on = func(ev any) {
		switch ev := ev.(type) {
		case *StartEvent:
			shut("stall")
		case *levels.WaitsEvent:
			// It waits for the one that is on its way into the store. That need not be the first: one whose
			// way has not begun gives its slot to a newer one.
			waits = ev.Number
			if !slices.Equal(ev.For, []int{ev.Number - 2}) {
				t.Errorf("checkpoint %d waits for %v, want %d", ev.Number, ev.For, ev.Number-2)
			}
			if before := len(eventsOf[*job.CheckpointEvent](rec)); before != ev.Number-1 {
				t.Errorf("%d checkpoints were taken before checkpoint %d had to wait", before, ev.Number)
			}
			open()
		}
	}
	opt.Observer = rec
	r, _, _ := mustLaunch(t, s, opt)
	if r.Digest != want.Digest || r.Checkpoints != 5 {
		t.Errorf("result %+v, want 5 checkpoints and digest %s", r, want.Digest)
	}
	if waits == 0 {
		t.Fatal("no checkpoint had to wait")
	}
	trace, err := iotrace.ReadFile(filepath.Join(opt.Store, "jobs", opt.Job, "traces", fmt.Sprintf("%04d.trace", waits)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(trace.Events, func(e iotrace.Event) bool { return e.Op == iotrace.LockWait && e.End > e.Start }) {
		t.Errorf("the trace of checkpoint %d does not say that it waited", waits)
	}
	verifyAll(t, opt)
}

// TestTierStopWhileWaiting: commands are answered while a checkpoint waits for a slot, and
// a stop without a checkpoint ends the run.
func TestTierStopWhileWaiting(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "behind")
	opt, shut, open := gatedRun(t, "stopping-store", &s)
	rec := &recorder{t: t}
	var asking sync.WaitGroup
	taken := 0 // before one had to wait
	rec.on = func(ev any) {
		switch ev := ev.(type) {
		case *StartEvent:
			shut("stall")
		case *levels.WaitsEvent:
			taken = ev.Number - 1
			asking.Go(func() {
				defer open()
				stopNow(t, opt)
			})
		}
	}
	opt.Observer = rec
	r, _, _ := mustLaunch(t, s, opt)
	asking.Wait()
	if r.Outcome != job.StateStopped || taken == 0 || r.Checkpoints != taken {
		t.Errorf("result %+v, want a stop after %d checkpoints", r, taken)
	}
	if got := storedNumbers(t, opt); !slices.Contains(got, taken) {
		t.Errorf("checkpoints %v are in the store, want the last one too", got)
	}
}

// stopNow asks a running job how it is, and stops it.
func stopNow(t *testing.T, opt Options) {
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Error(err)
		return
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Error(err)
		return
	}
	c, err := wire.Contact(t.Context(), j)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if st, err := c.Status(); err != nil || !strings.Contains(st.Phase, "waiting until an earlier checkpoint is stored") {
		t.Errorf("status %+v, error %v", st, err)
	}
	if _, err := c.Stop(true); err != nil {
		t.Error(err)
	}
}
