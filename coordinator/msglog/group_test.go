package msglog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A gate is a file system whose files wait with their syncs until they are let.
type gate struct {
	vfs.Buffered
	entered, leave chan struct{}
	on             bool
}

type gateFile struct {
	vfs.File
	g *gate
}

func (g *gate) Create(name string) (vfs.File, error) {
	f, err := g.FS.Create(name)
	return gateFile{f, g}, err
}

func (f gateFile) Sync() error {
	if f.g.on {
		f.g.entered <- struct{}{}
		<-f.g.leave
	}
	return f.File.Sync()
}

// TestGroupCommit has a hundred goroutines append while the disk is busy: one
// sync serves them all.
func TestGroupCommit(t *testing.T) {
	g := &gate{Buffered: vfs.Through(memfs.New()), entered: make(chan struct{}), leave: make(chan struct{})}
	l, _, err := Open(g, testDir, testID, Options{})
	must(t, err)
	g.on = true
	before := l.Stats()
	wait := func(n int) *errgroup.Group {
		var waiters errgroup.Group
		for i := range n {
			lsn, err := l.Append(frameOf(i))
			must(t, err)
			waiters.Go(func() error { return l.Wait(context.Background(), lsn) })
		}
		return &waiters
	}
	leader := wait(1)
	<-g.entered // it has written its frame and nobody else's
	others := wait(100)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("no time"))
	if err := l.Wait(ctx, l.Next()-1); err == nil || !errors.Is(err, context.Cause(ctx)) {
		t.Errorf("waited although the context was done: %v", err)
	}
	g.leave <- struct{}{}
	must(t, leader.Wait())
	<-g.entered
	g.leave <- struct{}{}
	must(t, others.Wait())
	after := l.Stats()
	if after.Fsyncs-before.Fsyncs != 2 || after.Commits != 2 || after.Frames != 101 || after.Lost != 0 {
		t.Errorf("%+v", after)
	}
	g.on = false
	must(t, l.Close())
}

// TestGroupFails has the sync of a group fail: all its frames are lost, and so
// are those appended meanwhile, whoever waits for them, then or later.
func TestGroupFails(t *testing.T) {
	disk := &faulty{Buffered: vfs.Through(memfs.New())}
	g := &gate{Buffered: vfs.Through(disk), entered: make(chan struct{}), leave: make(chan struct{})}
	l, _, err := Open(g, testDir, testID, Options{})
	must(t, err)
	first, err := l.Append(frameOf(0))
	must(t, err)
	must(t, l.Wait(context.Background(), first))
	g.on, disk.sync = true, true
	var waiters errgroup.Group
	fail := func(lsn LSN) {
		waiters.Go(func() error {
			if err := l.Wait(context.Background(), lsn); !errors.Is(err, ErrLost) {
				return fmt.Errorf("frame %d: %v", lsn, err)
			}
			return nil
		})
	}
	a, err := l.Append(frameOf(1))
	must(t, err)
	fail(a)
	<-g.entered
	b, err := l.Append(frameOf(2))
	must(t, err)
	fail(b)
	g.leave <- struct{}{}
	must(t, waiters.Wait())
	g.on, disk.sync = false, false
	must(t, l.Wait(context.Background(), first))
	must(t, l.Reopen())
	must(t, l.Reopen()) // once is enough
	c, err := l.Append(frameOf(3))
	must(t, err)
	must(t, l.Wait(context.Background(), c))
	fail(a)
	fail(b)
	must(t, waiters.Wait())
	there, err := readAll(l.NewReader(0))
	must(t, err)
	if len(there) != 2 || there[0].lsn != first || there[1].lsn != c || !sameFrame(there[1].Frame, frameOf(3)) {
		t.Errorf("%+v", there)
	}
	must(t, l.Close())
}

// TestConcurrent appends, waits, reads, truncates and fails from many goroutines
// at once, on a real disk. Frames reported durable are there in the end, in the
// order in which it was appended by each.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir() + "/log"
	disk := &flaky{Buffered: vfs.Through(vfs.OS{}), rng: rand.New(rand.NewPCG(1, 2))}
	l, _, err := Open(disk, dir, testID, Options{SegmentBytes: 4000})
	must(t, err)
	disk.arm(true)
	const writers, each = 8, 150
	acked := make([][]LSN, writers)
	var g errgroup.Group
	for w := range writers {
		g.Go(func() error {
			for i := range each {
				f := channel.Frame{Kind: channel.Received, Peer: w, Message: channel.Message{Seq: uint64(i), Data: make([]byte, i%97)}}
				lsn, err := l.Append(f)
				if err == nil {
					err = l.Wait(context.Background(), lsn)
				}
				if err == nil {
					acked[w] = append(acked[w], lsn)
				} else if err := l.Reopen(); err != nil && !errors.Is(err, errFlaky) {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		for range 60 {
			if _, err := readAll(l.NewReader(0)); err != nil && !errors.Is(err, ErrTruncated) {
				return err
			}
			if s := l.Stats(); s.Frames%5 == 4 {
				if _, _, err := l.Truncate(first(l) + 20); err != nil {
					return err
				}
			}
		}
		return nil
	})
	must(t, g.Wait())
	disk.arm(false)
	must(t, l.Reopen())
	must(t, l.Close())
	there, rec, err := readDir(vfs.OS{}, dir, 0)
	must(t, err)
	at := make(map[LSN]numbered)
	for _, f := range there {
		at[f.lsn] = f
	}
	total := 0
	for w, list := range acked {
		if !slices.IsSorted(list) {
			t.Errorf("writer %d: not in order", w)
		}
		for _, lsn := range list {
			if f, ok := at[lsn]; lsn >= rec.First && (!ok || f.Peer != w || payloadSize(&f.Frame) != int(f.Message.Seq)%97) {
				t.Fatalf("frame %d of writer %d is not there", lsn, w)
			}
			total++
		}
	}
	s := l.Stats()
	if int(s.Frames) != total || s.Lost == 0 || s.Lost > writers*each-s.Frames {
		t.Errorf("%d frames were reported, %+v", total, s)
	}
	t.Logf("%d frames durable, %d lost in failures, %d commits, %d fsyncs", s.Frames, s.Lost, s.Commits, s.Fsyncs)
}

// A flaky file system fails a sync now and then.
type flaky struct {
	vfs.Buffered
	mu  sync.Mutex
	rng *rand.Rand
	on  bool
}

var errFlaky = errors.New("flaky")

func (f *flaky) arm(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

func (f *flaky) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return flakyFile{file, f}, nil
}

type flakyFile struct {
	vfs.File
	fs *flaky
}

func (f flakyFile) Sync() error {
	f.fs.mu.Lock()
	fail := f.fs.on && f.fs.rng.IntN(25) == 0
	f.fs.mu.Unlock()
	if fail {
		return errFlaky
	}
	return f.File.Sync()
}

// TestModel compares a log with a slice under random use: groups of all sizes,
// segments of all sizes, reopened and truncated.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := memfs.New()
		opt := Options{SegmentBytes: rapid.Int64Range(1, 4000).Draw(t, "segment")}
		l, _, err := Open(disk, testDir, testID, opt)
		fatal(t, err)
		var want []numbered
		durable, floor := 0, LSN(0)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				f := frameOf(rapid.IntRange(0, 200).Draw(t, "frame"))
				lsn, err := l.Append(f)
				fatal(t, err)
				want = append(want, numbered{lsn: lsn, Frame: f})
			},
			"commit": func(t *rapid.T) {
				fatal(t, l.Commit(context.Background()))
				durable = len(want)
			},
			"truncate": func(t *rapid.T) {
				floor = max(floor, LSN(rapid.IntRange(0, durable+1).Draw(t, "before")))
				_, _, err := l.Truncate(floor)
				fatal(t, err)
			},
			"close": func(t *rapid.T) {
				fatal(t, l.Close())
				durable = len(want)
				var rec Recovery
				l, rec, err = Open(disk, testDir, testID, opt)
				fatal(t, err)
				if int(rec.Next) != len(want)+1 || rec.CutBytes != 0 {
					t.Fatalf("%+v after %d frames", rec, len(want))
				}
			},
			"": func(t *rapid.T) {
				oldest := int(first(l))
				if oldest > max(int(floor), 1) {
					t.Fatalf("begins with %d, truncated before %d", oldest, floor)
				}
				from := rapid.IntRange(oldest, len(want)+1).Draw(t, "from")
				r, err := l.NewReader(LSN(from))
				got, err := readAll(r, err)
				fatal(t, err)
				if len(got) != max(0, durable-from+1) {
					t.Fatalf("%d frames from %d on, %d are durable", len(got), from, durable)
				}
				for i, f := range got {
					if w := want[from-1+i]; f.lsn != w.lsn || !sameFrame(f.Frame, w.Frame) {
						t.Fatalf("frame %d is %+v", w.lsn, f)
					}
				}
				if oldest > 1 {
					if _, err := l.NewReader(LSN(oldest) - 1); !errors.Is(err, ErrTruncated) {
						t.Fatalf("read from %d on: %v", oldest-1, err)
					}
				}
			},
		})
		fatal(t, l.Close())
	})
}

func fatal(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClosed(t *testing.T) {
	l, _, err := Open(memfs.New(), testDir, testID, Options{})
	must(t, err)
	must(t, l.Commit(context.Background()))
	must(t, l.Close())
	_, aerr := l.Append(frameOf(0))
	_, rerr := l.NewReader(0)
	_, _, terr := l.Truncate(1)
	for _, err := range []error{aerr, rerr, terr, l.Reopen(), l.Commit(context.Background()), l.Close()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestBadFrames(t *testing.T) {
	l, _, err := Open(memfs.New(), testDir, testID, Options{})
	must(t, err)
	for _, f := range []channel.Frame{{}, {Kind: 4}, {Kind: channel.Received, Peer: -2}, {Kind: channel.Received, Message: channel.Message{Context: 2}},
		{Kind: channel.Received, Message: channel.Message{Tag: -1}}} {
		if _, err := l.Append(f); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
	for _, lsn := range []LSN{0, 1} {
		if err := l.Wait(context.Background(), lsn); err == nil {
			t.Errorf("waited for %d", lsn)
		}
	}
	must(t, l.Close())
}
