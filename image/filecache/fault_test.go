package filecache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs/memfs"
)

// A faulty cache has one file system that fails once, or from then on.
func faulty(all []*memfs.FS, which int, fault memfs.Fault) (*Cache, *memfs.FaultFS) {
	c := cacheOf(all)
	var f *memfs.FaultFS
	if which == len(c.Nodes) {
		f = memfs.WithFault(all[which], fault)
		c.Store.FS = f
	} else {
		f = memfs.WithFault(all[which], fault)
		c.Nodes[which].FS = f
	}
	return c, f
}

// session uses a file until the first error. Acknowledged writes are in the model.
func useUntilError(c *Cache, l Levels, m *model, seed uint64) error {
	f, err := c.Open(background, "x", Options{Create: true, Size: crashSize, Levels: l, Processes: onePerNode(len(c.Nodes))})
	if err != nil {
		return err
	}
	defer f.Abandon()
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range 6 {
		off := rng.IntN(crashSize)
		data := random(rng.Uint64(), min(1+rng.IntN(5000), crashSize-off))
		w := m.begin(int64(off), data)
		if _, err := f.Process(i%len(f.processes)).WriteAt(data, int64(off)); err != nil {
			return err
		}
		m.end(w)
		if i == 2 {
			m.beginSync()
			if err := f.Sync(background); err != nil {
				return err
			}
			m.endSync()
		}
	}
	m.beginSync()
	if err := f.Close(background); err != nil {
		return err
	}
	m.endSync()
	return nil
}

// TestEveryFault fails each operation of a node, and of the store, once. The error is
// reported or does no harm, and recovery with or without a loss of power keeps the
// promise of the level.
func TestEveryFault(t *testing.T) {
	for _, l := range []Levels{{Records: true}, {Replicas: 1}, {Versions: true}, {Records: true, Replicas: 1, Versions: true}} {
		for _, which := range []int{1, 3} {
			_, all := cluster(3)
			c, counted := faulty(all, which, memfs.Fault{})
			check(t, useUntilError(c, l, &model{initial: make([]byte, crashSize)}, 1))
			total := len(counted.Ops())
			step := 3
			switch {
			case testkit.Enabled:
				step = 9
			case testkit.Nightly():
				step = 1
			}
			for at := 1; at <= total; at += step {
				for _, fault := range []memfs.Fault{{At: at, Err: syscall.EIO}, {At: at, Err: syscall.ENOSPC, Short: true, Stop: true}} {
					if err := oneFault(l, which, fault); err != nil {
						t.Fatalf("%+v: file system %d, fault %+v (%v): %v", l, which, fault, counted.Ops()[at-1], err)
					}
				}
			}
		}
	}
}

func oneFault(l Levels, which int, fault memfs.Fault) error {
	_, all := cluster(3)
	m := &model{initial: make([]byte, crashSize)}
	c, _ := faulty(all, which, fault)
	failed := useUntilError(c, l, m, 1)
	for _, crash := range []memfs.Crash{{Mode: memfs.Kept}, {Mode: memfs.Lost}, {Seed: uint64(fault.At)}} {
		after := make([]*memfs.FS, len(all))
		for i, fsys := range all {
			after[i] = fsys.CrashClone(crash)
		}
		s := &crashState{levels: l, all: after, model: m.snapshot(), seed: uint64(fault.At)}
		kind, err := s.check()
		if err != nil {
			return fmt.Errorf("after %w: crash %+v: %w", errors.Join(failed), crash, err)
		}
		if failed == nil && kind != "nothing" {
			return fmt.Errorf("the file was closed, and is recovered from %s", kind)
		}
	}
	return nil
}

// TestJournalAsksForSync: a long journal has the file stored; if the store fails for
// a while, writes wait for it and nothing is lost.
func TestJournalAsksForSync(t *testing.T) {
	c, all := cluster(3)
	l := Levels{Replicas: 1, JournalBytes: 1000}
	f := must(c.Open(background, "x", Options{Create: true, Size: 3000, Levels: l, Processes: []int{0}}))(t)
	p := f.Process(0)
	want := make([]byte, 3000)
	write := func(i int) error {
		b := random(uint64(i), 100)
		_, err := p.WriteAt(b, int64(i*100))
		if err == nil {
			copy(want[i*100:], b)
		}
		return err
	}
	for i := range 6 { // of 164 bytes in the journal, behind its head of 64
		if f.base != 0 {
			t.Errorf("write %d: stored %d times", i, f.base)
		}
		check(t, write(i))
	}
	if f.base != 1 || f.managers[0].journal.size != journalStart {
		t.Fatalf("stored %d times, journal of %d bytes", f.base, f.managers[0].journal.size)
	}
	c.Store.FS = memfs.WithFault(all[3], memfs.Fault{At: 1, Err: syscall.ESTALE, Stop: true})
	for i := range 6 {
		check(t, write(i))
	}
	if err := write(8); !errors.Is(err, ErrJournalFull) || !errors.Is(err, syscall.ESTALE) {
		t.Errorf("write: %v", err)
	}
	c.Store.FS = all[3]
	check(t, write(9))
	check(t, same(must(contents(p))(t), want))
	check(t, f.Close(background))
	check(t, same(stored(t, c, "/store/x"), want))
}

// TestDamagedVersionFallsBack to the one before, with a warning; Open refuses it.
func TestDamagedVersionFallsBack(t *testing.T) {
	c, all := cluster(2)
	opt := Options{Create: true, Size: 100, Levels: Levels{Versions: true}, Processes: []int{0}}
	f := must(c.Open(background, "x", opt))(t)
	first := random(1, 100)
	must(f.Process(0).WriteAt(first, 0))(t)
	check(t, f.Sync(background))
	must(f.Process(0).WriteAt(random(2, 100), 0))(t)
	check(t, f.Sync(background))
	check(t, f.Abandon())
	file := must(all[2].OpenWrite("/store/x.v0002"))(t)
	must(file.WriteAt([]byte("damage"), 70))(t)
	f, rec, err := c.Recover(background, "x", opt)
	check(t, err)
	check(t, same(must(contents(f.Process(0)))(t), first))
	if rec.Version != 1 || len(rec.Warnings) != 1 {
		t.Errorf("%+v", rec)
	}
	check(t, f.Abandon())
	for _, m := range all[:2] {
		check(t, clearDir(Node{m, "/nvme"}, "/nvme/x"))
	}
	if _, err := c.Open(background, "x", opt); err == nil {
		t.Error("a damaged version was opened")
	}
}

// TestVersionsAreKept: as many as asked for, the newest ones.
func TestVersionsAreKept(t *testing.T) {
	c, _ := cluster(2)
	f := must(c.Open(background, "x", Options{Create: true, Size: 10, Levels: Levels{Versions: true, Keep: 3}, Processes: []int{0}}))(t)
	for range 5 {
		check(t, f.Sync(background))
	}
	if got := must(c.Versions("x"))(t); fmt.Sprint(got) != "[3 4 5]" {
		t.Error(got)
	}
	check(t, f.Abandon())
}

// TestFinishedRequestIsNotRepeated: process 0 died when its request had been served and
// its record was still there; then another process wrote to the same bytes.
func TestFinishedRequestIsNotRepeated(t *testing.T) {
	c, _ := cluster(2)
	opt := Options{Create: true, Size: 100, Levels: Levels{Records: true, Replicas: 1}, Processes: []int{0, 1}}
	f := must(c.Open(background, "x", opt))(t)
	p := f.Process(0)
	head := frame{use: f.session.Use, seq: 1, off: 40, process: 0, parts: 1, mask: -1}
	must(p.WriteAt([]byte("first, on two nodes"), 40))(t)
	check(t, p.record.put(head, []byte("first, on two nodes")))
	must(f.Process(1).WriteAt([]byte("later"), 48))(t)
	check(t, f.Abandon())
	f, rec, err := c.Recover(background, "x", opt)
	check(t, err)
	if got := must(contents(f.Process(1)))(t); string(got[40:59]) != "first, olater nodes" {
		t.Errorf("%q, %+v", got[40:59], rec)
	}
	check(t, f.Close(background))
}

// TestFailedSyncEndsWrites: after an fsync that failed, the next one succeeds without
// the bytes.
func TestFailedSyncEndsWrites(t *testing.T) {
	for _, l := range []Levels{{}, {Records: true}, {Replicas: 1}} {
		_, all := cluster(2)
		c, watched := faulty(all, 1, memfs.Fault{})
		opt := Options{Create: true, Size: 100, Levels: l, Processes: []int{0}}
		f := must(c.Open(background, "x", opt))(t)
		check(t, f.Abandon())
		sync := 0 // the first one of a write
		{
			before := len(watched.Ops())
			f, _, err := c.Recover(background, "x", opt)
			check(t, err)
			must(f.Process(0).WriteAt([]byte("x"), 60))(t)
			check(t, f.Abandon())
			for i, op := range watched.Ops() {
				if i >= before && op.Name == "sync" {
					sync = i + 1
				}
			}
		}
		_, all = cluster(2)
		c, _ = faulty(all, 1, memfs.Fault{At: sync, Err: syscall.EIO})
		f = must(c.Open(background, "x", opt))(t)
		check(t, f.Abandon())
		f, _, err := c.Recover(background, "x", opt)
		check(t, err)
		if _, err := f.Process(0).WriteAt([]byte("x"), 60); !errors.Is(err, syscall.EIO) {
			t.Errorf("%+v: the write says %v", l, err)
		}
		if _, err := f.Process(0).WriteAt([]byte("y"), 60); !errors.Is(err, syscall.EIO) {
			t.Errorf("%+v: the next one says %v", l, err)
		}
		check(t, f.Abandon())
	}
}
