package coordinator

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestCutOutput cuts the last line of the file of outputs and runs the job again,
// twice: what was cut comes once more, and all lines of the file are whole.
func TestCutOutput(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, mode := range []job.Spec{{Mode: job.Coordinated}, {Mode: job.Uncoordinated}} {
		t.Run(string(mode.Mode), func(t *testing.T) {
			s := newSpec(t, "ring.S.4", 1)
			s.Mode, s.Iterations, s.Residuals, s.Schedule.Every = mode.Mode, 20, 2, 4
			stop := Options{Store: t.TempDir(), Job: "job", Failures: []launch.Failure{{Rank: 0, Node: -1, Iter: 11}}}
			rec := &recorder{t: t}
			stop.Observer = rec
			if _, err := Launch(t.Context(), s, stop); err == nil {
				t.Fatal("the job did not fail")
			}
			path := filepath.Join(stop.Store, "jobs", "job", "output.jsonl")
			cut, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cut = bytes.TrimRight(cut, " ")
			if err := os.WriteFile(path, cut[:len(cut)-20], 0o600); err != nil {
				t.Fatal(err)
			}
			again := &recorder{t: t}
			stop.Observer = again
			if _, err := Restart(t.Context(), RestartOptions{Options: stop}); err == nil {
				t.Fatal("the job did not fail again")
			}
			stop.Failures = nil
			if _, err := Restart(t.Context(), RestartOptions{Options: stop}); err != nil {
				t.Fatal(err)
			}
			checkOutputs(t, &s, slices.Concat(eventsOf[*job.OutputEvent](rec)[:bytes.Count(cut, []byte("\n"))-2], eventsOf[*job.OutputEvent](again)))
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(strings.TrimRight(string(whole), " "), "\n")
			for i, line := range lines[:len(lines)-1] { // the first says whose they are
				var ev job.OutputEvent
				if err := json.Unmarshal([]byte(line), &ev); err != nil || ev.Index != uint64(i) {
					t.Errorf("line %d is %q, %v", i+1, line, err)
				}
			}
			if len(lines)-2 != s.Iterations/s.Residuals {
				t.Errorf("%d lines, want %d", len(lines)-2, s.Iterations/s.Residuals)
			}
		})
	}
}

// TestTornJournal: what a crash or a full disk has left of an event does not take the
// next one with it.
func TestTornJournal(t *testing.T) {
	t.Parallel()
	d, _, fill, empty := fullStore(t, job.Spec{App: "ring.S.1", NP: 1, Iterations: 1})
	path := filepath.Join(d.job.Dir(), "history.jsonl")
	if err := os.WriteFile(path, []byte("{\"type\":\"chec"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.journal = job.OpenJournal(d.job)
	defer d.journal.Close()
	d.Event(&job.CheckpointEvent{Type: "checkpoint", Number: 1})
	fill()
	for range 100 { // more than the page that the file has
		d.Event(&job.CheckpointEvent{Type: "checkpoint", Number: 2})
	}
	empty()
	d.Event(&job.CheckpointEvent{Type: "checkpoint", Number: 3})
	h := job.ReadEvents(d.job, 0)
	if b, err := os.ReadFile(path); err != nil || !bytes.Contains(b, []byte("{\"type\":\"chec\n")) || h[1].Number != 1 || h[3].Number != 3 {
		t.Errorf("%v of checkpoints 1 and 3: %v", h, err)
	}
}

// fullStore makes a job in a small file system of its own, and returns it with
// functions that fill it up and empty it again.
func fullStore(t *testing.T, s job.Spec) (d *driver, rec *recorder, fill, empty func()) {
	t.Helper()
	testkit.All(t, "mounts")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	store, j := emptyJob(t, filepath.Join(dir, "store"))
	rec = &recorder{t: t}
	d = newDriver(resolved(t, s), j, store.Dir(), libraryID{}, protocol.DefaultLimits, rec)
	var err error
	if _, d.output, err = job.OpenOutput(j, s.NP); err != nil {
		t.Fatal(err)
	}
	d.baseline.Base, d.baseline.Taken = make([]int, len(d.groups)), make([]int, len(d.groups))
	name := filepath.Join(dir, "fill")
	fill = func() {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	empty = func() {
		// A child that another test is starting may hold the file open: its removal alone would
		// free nothing yet.
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	return d, rec, fill, empty
}

// does has the driver do something for the whole job.
func (d *driver) does(a protocol.Action) {
	d.perform([]supervisor.Action{{Group: supervisor.Job, Action: a}})
}

// TestOutputWaits fills the disk: lines wait, and come once there is room, in order
// and once. Nothing is left in the file of those that were tried.
func TestOutputWaits(t *testing.T) {
	t.Parallel()
	d, rec, fill, empty := fullStore(t, newSpec(t, "ring.S.4", 1))
	text := strings.Repeat("x", 5000) // one in the room that the file keeps, not two
	print := func(index uint64) { d.does(protocol.Print{Index: index, Text: text}) }
	print(1)
	fill()
	for i := range uint64(4) {
		print(i + 2)
	}
	if n := len(eventsOf[*job.OutputEvent](rec)); n != 1 || len(d.backlog.lines) != 4 {
		t.Errorf("%d lines are shown and %d wait, want 1 and 4", n, len(d.backlog.lines))
	}
	if last, _, err := job.OpenOutput(d.job, 1); err != nil || last[0] != 1 {
		t.Errorf("the last line in the file is %v, %v; want 1", last, err)
	}
	if err := d.groups[0].perform(protocol.Prepare{Number: 1}, nil); err != nil || d.groups[0].tx != nil {
		t.Errorf("a checkpoint is taken while lines wait, %v", err)
	}
	d.helpers.Wait()
	if len(d.list) != 1 {
		t.Errorf("the protocol is told %d events, want that the checkpoint is lost", len(d.list))
	}
	empty()
	d.backlog.tried = 0
	d.does(protocol.Answer{})
	print(6)
	events := eventsOf[*job.OutputEvent](rec)
	for i, ev := range events {
		if ev.Index != uint64(i+1) {
			t.Errorf("line %d has number %d", i+1, ev.Index)
		}
	}
	if last, _, err := job.OpenOutput(d.job, 1); len(events) != 6 || err != nil || last[0] != 6 {
		t.Errorf("%d lines are shown, the last in the file is %v, %v; want 6", len(events), last, err)
	}
	if len(rec.warned) != 1 || !strings.Contains(rec.warned[0], "storage is full") || d.broken != nil || d.outcome != nil {
		t.Errorf("warned %q, ended %v, %v", rec.warned, d.broken, d.outcome)
	}
}

// TestOutputEnd ends jobs on a full disk. Lines that a restart puts out again are not shown.
func TestOutputEnd(t *testing.T) {
	t.Parallel()
	for result, shown := range map[protocol.Result]int{protocol.Completed: 1, protocol.StoppedByRequest: 0, protocol.Failed: 0} {
		d, rec, fill, _ := fullStore(t, newSpec(t, "ring.S.4", 1))
		fill()
		d.does(protocol.Print{Index: 1})
		d.does(protocol.Finish{Outcome: protocol.Outcome{Result: result}})
		if n := len(eventsOf[*job.OutputEvent](rec)); n != shown || len(rec.warned) != 2 || d.broken != nil {
			t.Errorf("%v: %d lines are shown, want %d; warned %q, %v", result, n, shown, rec.warned, d.broken)
		}
	}
}

// TestOutputFaults has each operation on the file of outputs fail, once or from then on,
// and writes end in the middle. However the job ends, each line is shown once, by this
// run or by the next, unless the user is told otherwise.
func TestOutputFaults(t *testing.T) {
	t.Parallel()
	struck := 0
	for _, fault := range []memfs.Fault{
		{Err: syscall.EIO}, {Err: syscall.ENOSPC}, {Err: syscall.EIO, Short: true}, {Err: syscall.EIO, Stop: true}, {Err: syscall.ENOSPC, Short: true, Stop: true},
	} {
		for _, result := range []protocol.Result{protocol.Completed, protocol.StoppedByRequest} {
			for fault.At = 1; ; fault.At++ {
				disk := memfs.WithFault(vfs.OS{}, fault)
				shown, warned := printTwice(t, disk, result)
				if len(disk.Ops()) < fault.At {
					break
				}
				struck++
				if !slices.Equal(shown, []uint64{1, 2, 3}) && !strings.Contains(warned, "a restart shows them again") {
					t.Errorf("operation %d, %+v, %v: lines %v are shown", fault.At, fault, result, shown)
				}
			}
		}
	}
	if struck < 50 {
		t.Errorf("only %d faults struck", struck)
	}
}

// printTwice prints three lines on a disk, and what is missing of them on one without a
// fault. It returns the lines that are shown, and what the first run warns of.
func printTwice(t *testing.T, disk vfs.FS, result protocol.Result) (shown []uint64, warned string) {
	t.Helper()
	dir := t.TempDir()
	emptyJob(t, dir)
	for _, fsys := range []vfs.FS{disk, vfs.OS{}} {
		rec := &recorder{t: t}
		store, err := image.OpenStore(fsys, dir)
		if err != nil {
			continue // the run does not begin
		}
		j, err := store.Job("job")
		if err != nil {
			continue
		}
		d := newDriver(resolved(t, job.Spec{App: "ring.S.1", NP: 1, Iterations: 10, Residuals: 2}), j, j.Dir(), libraryID{}, protocol.DefaultLimits, rec)
		printed, o, err := job.OpenOutput(j, 1)
		if err != nil {
			continue
		}
		if d.output = o; d.takeOver() != nil {
			continue
		}
		for i := printed[0]; i < 3 && d.broken == nil; i++ {
			d.does(protocol.Print{Index: i + 1, Text: strings.Repeat("x", 3000)})
		}
		if d.broken == nil {
			d.does(protocol.Finish{Outcome: protocol.Outcome{Result: result}})
		}
		for _, ev := range eventsOf[*job.OutputEvent](rec) {
			shown = append(shown, ev.Index)
		}
		if fsys == disk {
			warned = strings.Join(rec.warned, "; ")
		}
	}
	return shown, warned
}

// A tightFS lets no file grow beyond a size: a write gets as far as there is room, and
// closing the file fails as well.
type tightFS struct {
	vfs.Buffered
	size int64
}

type tightFile struct {
	vfs.Plain
	size int64
	full bool
}

func (f tightFS) Create(name string) (vfs.File, error) { return f.tight(f.FS.Create(name)) }

func (f tightFS) OpenWrite(name string) (vfs.File, error) { return f.tight(f.FS.OpenWrite(name)) }

func (f tightFS) tight(in vfs.File, err error) (vfs.File, error) {
	return &tightFile{Plain: vfs.Only(in), size: f.size}, err
}

func (f *tightFile) WriteAt(b []byte, off int64) (int, error) {
	room := max(0, min(f.size-off, int64(len(b))))
	n, err := f.File.WriteAt(b[:room], off)
	if f.full = n < len(b); err == nil && f.full {
		err = &fs.PathError{Op: "write", Err: syscall.ENOSPC}
	}
	return n, err
}

func (f *tightFile) Close() error {
	if err := f.File.Close(); err != nil || !f.full {
		return err
	}
	return &fs.PathError{Op: "close", Err: syscall.ENOSPC}
}

// TestOutputCompletes has a job complete on a disk that is full. Its lines are shown, and
// a restart shows them no more: the room that is left is enough for their numbers.
func TestOutputCompletes(t *testing.T) {
	t.Parallel()
	const reserve = 4096 // bytes that a file of output keeps free
	for size := int64(2 * reserve); size < 6*reserve; size += 1000 {
		shown, warned := printTwice(t, tightFS{vfs.Through(vfs.OS{}), size}, protocol.Completed)
		if !slices.Equal(shown, []uint64{1, 2, 3}) {
			t.Errorf("%d bytes: lines %v are shown; warned %q", size, shown, warned)
		}
	}
}

// A brokenFS syncs a number of times and no more, as after an error of the device.
type brokenFS struct {
	vfs.Buffered
	syncs *int
}

type brokenFile struct {
	vfs.File
	syncs *int
}

func (f brokenFS) Create(name string) (vfs.File, error) { return f.broken(f.FS.Create(name)) }

func (f brokenFS) OpenWrite(name string) (vfs.File, error) { return f.broken(f.FS.OpenWrite(name)) }

func (f brokenFS) broken(in vfs.File, err error) (vfs.File, error) {
	return &brokenFile{in, f.syncs}, err
}

func (f *brokenFile) Sync() error {
	if *f.syncs--; *f.syncs < 0 {
		return &fs.PathError{Op: "sync", Err: syscall.EIO}
	}
	return f.File.Sync()
}

// TestOutputNotSynced has syncing fail from some time on, and nothing else.
func TestOutputNotSynced(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		syncs := n
		shown, warned := printTwice(t, brokenFS{vfs.Through(vfs.OS{}), &syncs}, protocol.Completed)
		if !slices.Equal(shown, []uint64{1, 2, 3}) {
			t.Errorf("after %d syncs: lines %v are shown; warned %q", n, shown, warned)
		}
	}
}
