package msglog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A faultRun writes, reads and truncates a log, reopens it when a commit fails,
// and remembers what it was told.
type faultRun struct {
	acked map[LSN]int
	lost  map[LSN]bool
	floor LSN
	errs  []error
}

func (r *faultRun) note(err error) bool {
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return err == nil
}

func (r *faultRun) run(fsys vfs.FS) {
	for life := range 2 {
		l, _, err := Open(fsys, testDir, testID, Options{SegmentBytes: 700})
		if !r.note(err) {
			continue
		}
		for group := range 4 {
			var lsns []LSN
			var ns []int
			for i := range 1 + group%3 {
				n := 100*life + 10*group + i
				lsn, err := l.Append(frameOf(n))
				if r.note(err) {
					lsns, ns = append(lsns, lsn), append(ns, n)
				}
			}
			if err := l.Commit(context.Background()); !r.note(err) {
				for _, lsn := range lsns {
					r.lost[lsn] = true
					if werr := l.Wait(context.Background(), lsn); !errors.Is(werr, ErrLost) {
						r.note(fmt.Errorf("frame %d is not reported lost: %v", lsn, werr))
					}
				}
				if _, aerr := l.Append(channel.Frame{Kind: channel.Determined}); aerr == nil || !errors.Is(err, ErrLost) && aerr.Error() != err.Error() {
					r.note(fmt.Errorf("a failed log takes more: %v", aerr))
				}
				r.note(l.Reopen())
				continue
			}
			for i, lsn := range lsns {
				r.acked[lsn] = ns[i]
				delete(r.lost, lsn) // of an earlier life
			}
		}
		if life == 1 {
			r.floor = l.Next() - 3
			_, _, err := l.Truncate(r.floor)
			r.note(err)
		}
		_, err = readAll(l.NewReader(0))
		r.note(err)
		if !r.note(l.Close()) {
			_ = l.lock.Close()
		}
	}
}

// TestFaults fails operations of a log, at night each, one at a time and in several ways.
// Frames reported durable are there, frames reported lost are not, and the
// error says what failed.
func TestFaults(t *testing.T) {
	if testkit.Enabled {
		t.Skip("one goroutine; .ci/run does it without the race detector")
	}
	count := memfs.WithFault(memfs.New(), memfs.Fault{})
	first := &faultRun{acked: make(map[LSN]int), lost: make(map[LSN]bool)}
	first.run(count)
	if len(first.errs) > 0 {
		t.Fatal(first.errs)
	}
	ops := count.Ops()
	met, runs, every := 0, 0, 3
	if testkit.Nightly() {
		every = 1
	}
	for _, kind := range []memfs.Fault{
		{Err: syscall.EIO},
		{Err: syscall.ENOSPC},
		{Err: syscall.ENOSPC, Short: true},
		{Short: true},
		{Err: syscall.EIO, Stop: true},
	} {
		for i, op := range ops {
			kind.At = i + 1
			if kind.Short && op.Name != "write" {
				continue
			}
			if met++; met%every != 0 {
				continue
			}
			runs++
			t.Run(fmt.Sprintf("%v,short=%v,stop=%v/%d-%s", kind.Err, kind.Short, kind.Stop, kind.At, op.Name), func(t *testing.T) {
				disk := memfs.New()
				r := &faultRun{acked: make(map[LSN]int), lost: make(map[LSN]bool)}
				r.run(memfs.WithFault(disk, kind))
				r.checkErrors(t, kind, op)
				for _, mode := range []memfs.Mode{memfs.Kept, memfs.Lost} {
					// Twice: what Open has found must still be there.
					after := disk.CrashClone(memfs.Crash{Mode: mode})
					r.checkDisk(t, after, kind)
					r.checkDisk(t, after, kind)
				}
			})
		}
	}
	t.Logf("%d operations, %d runs with a fault", len(ops), runs)
}

func (r *faultRun) checkErrors(t *testing.T, kind memfs.Fault, op memfs.Op) {
	t.Helper()
	want := kind.Err
	if want == nil {
		want = io.ErrShortWrite
	}
	for _, err := range r.errs {
		if errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		if !errors.Is(err, want) {
			t.Errorf("error is not %v: %v", want, err)
		}
		if kind.Err == syscall.ENOSPC && !errors.Is(err, durable.ErrStorageFull) {
			t.Errorf("error is not ErrStorageFull: %v", err)
		}
		if !kind.Stop && !strings.Contains(err.Error(), op.Path) && !strings.Contains(err.Error(), testDir) {
			t.Errorf("error does not name %s: %v", op.Path, err)
		}
	}
}

func (r *faultRun) checkDisk(t *testing.T, disk *memfs.FS, kind memfs.Fault) {
	t.Helper()
	l, _, err := Open(disk, testDir, testID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	there, err := readAll(l.NewReader(0))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[LSN]bool)
	last := LSN(0)
	for _, f := range there {
		if f.lsn <= last {
			t.Fatalf("frame %d after %d", f.lsn, last)
		}
		last, found[f.lsn] = f.lsn, true
		if n, ok := r.acked[f.lsn]; ok && !sameFrame(f.Frame, frameOf(n)) {
			t.Errorf("frame %d is not what was written", f.lsn)
		}
		// With a disk that is gone, nothing could cut what was lost.
		if r.lost[f.lsn] && !kind.Stop {
			t.Errorf("frame %d was reported lost and is there", f.lsn)
		}
	}
	for lsn := range r.acked {
		if !found[lsn] && lsn >= r.floor {
			t.Errorf("frame %d was reported durable and is not there", lsn)
		}
	}
	must(t, l.Close())
}

// TestFullDisk goes on when somebody has made room.
func TestFullDisk(t *testing.T) {
	disk := &faulty{Buffered: vfs.Through(memfs.New())}
	l, _, err := Open(disk, testDir, testID, Options{SegmentBytes: 300})
	must(t, err)
	for n := range 8 {
		_, err := l.Append(frameOf(n))
		must(t, err)
		must(t, l.Commit(context.Background()))
	}
	disk.write = true
	lsn, err := l.Append(frameOf(8))
	must(t, err)
	full := l.Commit(context.Background())
	if !errors.Is(full, durable.ErrStorageFull) || !errors.Is(full, ErrLost) {
		t.Fatal(full)
	}
	if err := l.Reopen(); !errors.Is(err, durable.ErrStorageFull) {
		t.Fatal(err)
	}
	if _, err := l.Append(frameOf(9)); !errors.Is(err, durable.ErrStorageFull) {
		t.Fatal(err)
	}
	if err := l.Commit(context.Background()); !errors.Is(err, durable.ErrStorageFull) {
		t.Fatal(err)
	}
	if removed, freed, err := l.Truncate(6); removed == 0 || freed == 0 || err != nil {
		t.Fatalf("%d frames, %d bytes, %v", removed, freed, err)
	}
	disk.write = false
	must(t, l.Reopen())
	must(t, l.Commit(context.Background())) // nothing to do
	again, err := l.Append(frameOf(9))
	must(t, err)
	if again <= lsn {
		t.Errorf("number %d is used again", again)
	}
	must(t, l.Wait(context.Background(), again))
	if err := l.Wait(context.Background(), lsn); !errors.Is(err, ErrLost) || !errors.Is(err, durable.ErrStorageFull) {
		t.Errorf("the lost frame: %v", err)
	}
	if s := l.Stats(); s.Lost != 1 || s.Frames != 9 {
		t.Errorf("%+v", s)
	}
	there, err := readAll(l.NewReader(0))
	must(t, err)
	if last := there[len(there)-1]; last.lsn != again || there[len(there)-2].lsn != lsn-1 {
		t.Errorf("the log ends with %+v", there)
	}
	must(t, l.Close())
}
