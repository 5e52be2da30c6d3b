package job

import (
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"testing"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A keeper writes all that a job keeps beside its checkpoints, and remembers
// the calls that reported success.
type keeper struct {
	job      *image.Job
	baseline int // the last one that WriteBaseline reported written
	tried    int // the last one that it was given
	output   int // the index of the last line that Add reported noted
	added    int // the last one that it was given
	errs     []error
}

const rounds = 3

func baselineOf(round int) Baseline {
	return Baseline{Base: []int{2*round - 1, 0}, Incarnation: round << 20, Taken: []int{2*round + 1, 0}}
}

func (k *keeper) run() {
	journal := OpenJournal(k.job)
	defer journal.Close()
	_, out, err := OpenOutput(k.job, 1)
	k.errs = append(k.errs, err)
	k.errs = append(k.errs, out.Cut())
	for round := 1; round <= rounds; round++ {
		k.tried = round
		err := WriteBaseline(k.job, baselineOf(round))
		if k.errs = append(k.errs, err); err == nil {
			k.baseline = round
		}
		k.added = round
		noted, err := out.Add(&OutputEvent{Type: "output", Index: uint64(round), Text: "line"})
		if k.errs = append(k.errs, err); noted {
			k.output = round
		}
		journal.Add(CheckpointEvent{Type: "checkpoint", Number: round})
		RecordEnding(k.job, StateCompleted, fmt.Sprint(round), nil, NewBeginning(), nil)
	}
}

// check reads all of it, on the disk of the keeper or as a crash left it.
func (k *keeper) check(fsys vfs.FS) error {
	store, err := image.OpenStore(fsys, "/store")
	if err != nil {
		return err
	}
	j, err := store.Job("job")
	if err != nil {
		return err
	}
	l, err := ReadBaseline(j, 2)
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	found := k.baseline == 0 && l.Base == nil
	for round := max(1, k.baseline); round <= k.tried; round++ {
		found = found || reflect.DeepEqual(l, baselineOf(round))
	}
	if !found {
		return fmt.Errorf("baseline %+v, written %d, tried %d", l, k.baseline, k.tried)
	}
	last, _, err := OpenOutput(j, 1)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if last[0] < uint64(k.output) || last[0] > uint64(k.added) {
		return fmt.Errorf("last line of output %d, noted %d, added %d", last[0], k.output, k.added)
	}
	for n, ev := range ReadEvents(j, 0) {
		if n != ev.Number || n < 1 || n > rounds {
			return fmt.Errorf("event %d: %+v", n, ev)
		}
	}
	return nil
}

// newKeeper makes a job in a store on fsys.
func newKeeper(t *testing.T, fsys vfs.FS) *keeper {
	t.Helper()
	store, err := image.CreateStore(fsys, "/store")
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Unlock() })
	return &keeper{job: j}
}

// onto returns the job of the keeper's store through another file system.
func onto(t *testing.T, fsys vfs.FS) *image.Job {
	t.Helper()
	store, err := image.OpenStore(fsys, "/store")
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job("job")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestCrashOfJobFiles loses power after each operation. A baseline is the old
// one or the new one, a noted line of output stays, and no event is changed.
func TestCrashOfJobFiles(t *testing.T) {
	disk := memfs.New()
	k := newKeeper(t, disk)
	states, ops := make(map[string]bool), 0
	disk.AfterOp = func(op, name string) {
		ops++
		for i := range 30 {
			crash := memfs.Crash{Seed: uint64(ops)<<16 | uint64(i)}
			if i < 2 {
				crash.Mode = []memfs.Mode{memfs.Lost, memfs.Kept}[i]
			}
			clone := disk.CrashClone(crash)
			if key := fmt.Sprint(clone.Digest(), k.baseline, k.output); !states[key] {
				states[key] = true
				if err := k.check(clone); err != nil {
					t.Fatalf("operation %d (%s %s), crash %+v: %v", ops, op, name, crash, err)
				}
			}
		}
	}
	k.run()
	if err := errors.Join(k.errs...); err != nil {
		t.Fatal(err)
	}
	if len(states) < 200 {
		t.Errorf("only %d states after %d operations", len(states), ops)
	}
}

// TestFailedJobFiles fails each operation in each way. All that a call reported
// written is there, and the next run works.
func TestFailedJobFiles(t *testing.T) {
	count := memfs.New()
	k := newKeeper(t, count)
	f := memfs.WithFault(count, memfs.Fault{})
	k.job = onto(t, f)
	base := len(f.Ops())
	k.run()
	if err := errors.Join(k.errs...); err != nil {
		t.Fatal(err)
	}
	total := len(f.Ops()) - base
	for at := 1; at <= total; at++ {
		for _, fault := range []memfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC, Short: true}, {Err: syscall.EDQUOT, Stop: true}} {
			fault.At = base + at
			disk := memfs.New()
			k := newKeeper(t, disk)
			f := memfs.WithFault(disk, fault)
			k.job = onto(t, f)
			k.run()
			op := f.Ops()[fault.At-1]
			if err := k.check(disk); err != nil {
				t.Errorf("%s %s fails with %v: %v", op.Name, op.Path, fault.Err, err)
			}
			for _, err := range k.errs {
				if err != nil && fault.Err == syscall.EDQUOT && !errors.Is(err, durable.ErrStorageFull) {
					t.Errorf("%s %s: %v is not ErrStorageFull", op.Name, op.Path, err)
				}
			}
			again := &keeper{job: onto(t, disk)}
			again.run()
			if err := errors.Join(errors.Join(again.errs...), again.check(disk)); err != nil {
				t.Errorf("after %s %s failed with %v: %v", op.Name, op.Path, fault.Err, err)
			}
		}
	}
}
