package exec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
	"testing"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/vfs/memfs"

	"go.uber.org/goleak"
)

// A shaky Puller fails once.
type shaky struct {
	*job
	at    int64 // the number of the pull that fails, from 1
	err   error
	pulls atomic.Int64
}

func (s *shaky) Pull(ctx context.Context, from int, ranges []exec.Range) error {
	if s.pulls.Add(1) == s.at {
		return s.err
	}
	return s.job.Pull(ctx, from, ranges)
}

// An attempt is an All on a file system that may fail.
type attempt struct {
	fs   *memfs.FaultFS
	pull *shaky
	err  error
}

func try(p *plan.Plan, j *job, fault memfs.Fault, pull *shaky) attempt {
	a := attempt{fs: memfs.WithFault(memfs.New(), fault), pull: pull}
	_, a.err = exec.All(context.Background(), p, j.of, exec.AllOptions{
		Files: func(file int) (io.WriterAt, error) { return a.fs.Create(fmt.Sprintf("file.%d", file)) },
		Pull:  pull,
	})
	return a
}

// forEachKind runs f for plans of all kinds.
func forEachKind(t *testing.T, f func(t *testing.T, p *plan.Plan, j *job)) {
	sources := make([]plan.Source, 5)
	for i := range sources {
		sources[i] = plan.Source{Rank: i, Node: i / 2, Pieces: []plan.Piece{{Key: 0, Bytes: 5 * page}, {Key: 1, Bytes: 3 * page}}}
	}
	j := newJob(sources, false)
	for _, kind := range []plan.Settings{
		{Layout: plan.PerRank, Strategy: plan.Individual},
		{Layout: plan.Aggregated, Strategy: plan.TwoPhase},
		{Layout: plan.Shared, Strategy: plan.TwoPhase},
		{Layout: plan.Shared, Strategy: plan.Static},
		{Layout: plan.Shared, Strategy: plan.Individual},
	} {
		kind.Buffer, kind.StripeSize, kind.StripeCount, kind.Unaligned = 16*page, 16*page, 2, true
		for bits := range 8 {
			s := kind
			s.P1, s.P2, s.P3 = bits&4 != 0, bits&2 != 0, bits&1 != 0
			p := mustPlan(t, sources, s)
			t.Run(fmt.Sprintf("%s/%s/%03b", s.Layout, s.Strategy, bits), func(t *testing.T) { f(t, p, j) })
		}
	}
}

// Each operation fails once. The error comes through, nobody is left behind, and
// nothing happens afterwards.
func TestFaults(t *testing.T) {
	forEachKind(t, func(t *testing.T, p *plan.Plan, j *job) {
		clean := try(p, j, memfs.Fault{}, &shaky{job: j})
		if clean.err != nil {
			t.Fatal(clean.err)
		}
		check := func(a attempt, want error) {
			t.Helper()
			ops := len(a.fs.Ops())
			if !errors.Is(a.err, want) {
				t.Errorf("%v, want %v", a.err, want)
			}
			if e := (*exec.Error)(nil); !errors.As(a.err, &e) {
				t.Errorf("%v: no Error", a.err)
			}
			// A goroutine that is left over could still write.
			if err := goleak.Find(); err != nil {
				t.Errorf("after %v: %v", a.err, err)
			}
			if n := len(a.fs.Ops()); n != ops {
				t.Errorf("%d operations after the return", n-ops)
			}
		}
		for at := range len(clean.fs.Ops()) {
			check(try(p, j, memfs.Fault{At: at + 1, Err: syscall.ENOSPC}, &shaky{job: j}), syscall.ENOSPC)
			check(try(p, j, memfs.Fault{At: at + 1, Err: syscall.EIO, Short: true}, &shaky{job: j}), syscall.EIO)
		}
		for at := range clean.pull.pulls.Load() {
			check(try(p, j, memfs.Fault{}, &shaky{job: j, at: at + 1, err: syscall.ECONNRESET}), syscall.ECONNRESET)
		}
	})
}

// liar is a file that writes half and does not say so.
type liar struct{ io.WriterAt }

func (l liar) WriteAt(b []byte, off int64) (int, error) { return l.WriterAt.WriteAt(b[:len(b)/2], off) }

func TestShortWrite(t *testing.T) {
	sources := ranks(1, 2)
	p := mustPlan(t, sources, plan.Settings{})
	j := newJob(sources, false)
	d := newDisk(p, false)
	_, err := exec.Run(context.Background(), p, 0, exec.Options{Own: j.own(0), Files: func(file int) (io.WriterAt, error) {
		f, err := d.open(0)(file)
		return liar{f}, err
	}})
	if !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}

// The writer after one that failed does not get its turn.
func TestFailedTurn(t *testing.T) {
	sources := ranks(4, 1)
	p := mustPlan(t, sources, plan.Settings{Layout: plan.Aggregated, Aggregators: 2})
	j := newJob(sources, false)
	d := newDisk(p, false)
	turn := newRelay()
	pull := &shaky{job: j, at: 1, err: syscall.ECONNRESET}
	run := func(ctx context.Context, rank int) error {
		_, err := exec.Run(ctx, p, rank, exec.Options{Own: j.own(rank), Pull: pull, Files: d.open(rank), Turn: turn})
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := run(ctx, p.Writers[0].Rank); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	if turn.done > 0 {
		t.Error("it said that it was done")
	}
	cancel()
	if err := run(ctx, p.Writers[1].Rank); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(d.opened) > 0 {
		t.Error("the second writer had a turn")
	}
}

func TestErrors(t *testing.T) {
	cause := &fs.PathError{Op: "write", Path: "/ckpt/shared", Err: syscall.ENOSPC}
	for _, test := range []struct {
		err  exec.Error
		want string
	}{
		{exec.Error{Op: exec.Write, Rank: 3, File: 1, Offset: 8192, Bytes: 4096, Err: cause},
			"rank 3: write 4096 bytes at 8192 of file 1: write /ckpt/shared: no space left on device"},
		{exec.Error{Op: exec.Gather, Rank: 3, From: 5, Key: 2, Offset: 8192, Bytes: 4096, Err: syscall.ECONNRESET},
			"rank 3: gather 4096 bytes at 8192 of piece 2 of rank 5: connection reset by peer"},
		{exec.Error{Op: exec.Open, Rank: 3, File: 1, Err: fs.ErrPermission}, "rank 3: open file 1: permission denied"},
		{exec.Error{Op: exec.WaitTurn, Rank: 3, Err: context.Canceled}, "rank 3: wait-turn: context canceled"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// The place of an error is that of the operation.
func TestErrorPlace(t *testing.T) {
	sources := ranks(3, 4)
	p := mustPlan(t, sources, plan.Settings{Layout: plan.Aggregated, Buffer: 2 * page, Header: page})
	j := newJob(sources, false)
	d := newDisk(p, false)
	d.before = func(_ int, offset, _ int64) error {
		if offset == 7*page {
			return syscall.EIO
		}
		return nil
	}
	_, err := exec.Run(context.Background(), p, 0, exec.Options{Own: j.own(0), Pull: j, Files: d.open(0)})
	var e *exec.Error
	if !errors.As(err, &e) || *e != (exec.Error{Op: exec.Write, Offset: 7 * page, Bytes: 2 * page, Err: syscall.EIO}) {
		t.Errorf("%#v", err)
	}
	pull := &shaky{job: j, at: 4, err: syscall.EIO}
	_, err = exec.Run(context.Background(), p, 0, exec.Options{Own: j.own(0), Pull: pull, Files: newDisk(p, false).open(0)})
	if !errors.As(err, &e) || *e != (exec.Error{Op: exec.Gather, From: 2, Offset: 2 * page, Bytes: 2 * page, Err: syscall.EIO}) {
		t.Errorf("%#v", err)
	}
}
