package msglog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// A crashRun writes a log on a file system in memory. After every operation it
// looks at the states that a loss of power may leave then.
type crashRun struct {
	disk   *memfs.FS
	clones int // per operation
	ops    int
	states int
	seen   map[string]bool
	err    error

	// The writer was told this so far.
	frames  map[LSN]int // what was appended, as the number for frameOf
	count   int
	durable LSN // all before were reported durable, or lost
	floor   LSN // all before may have been truncated
	lost    map[LSN]bool
	cut     map[LSN]bool // lost, and Reopen has returned: they must not come back
}

func newCrashRun(clones int) *crashRun {
	r := &crashRun{disk: memfs.New(), clones: clones, seen: make(map[string]bool), frames: make(map[LSN]int), lost: make(map[LSN]bool), cut: make(map[LSN]bool)}
	r.disk.AfterOp = r.afterOp
	return r
}

func (r *crashRun) afterOp(op, name string) {
	r.ops++
	for i := range r.clones {
		crash := memfs.Crash{Mode: memfs.Random, Seed: uint64(r.ops)<<16 | uint64(i)}
		switch i {
		case 0:
			crash.Mode = memfs.Lost
		case 1:
			crash.Mode = memfs.Kept
		}
		after := r.disk.CrashClone(crash)
		r.states++
		key := fmt.Sprint(after.Digest(), r.durable, r.floor, len(r.cut))
		if r.seen[key] || r.err != nil {
			continue
		}
		r.seen[key] = true
		if err := r.check(after, i%10 == 2); err != nil {
			r.err = fmt.Errorf("operation %d (%s %s), crash %+v: %w", r.ops, op, name, crash, err)
		}
	}
}

// check opens the log after a crash, looks at what is there, and goes on. With
// again, power fails again after every operation of the opening.
func (r *crashRun) check(after *memfs.FS, again bool) error {
	var nested error
	if again {
		seed := uint64(0)
		after.AfterOp = func(op, name string) {
			seed++
			for _, c := range []memfs.Crash{{Seed: seed}, {Mode: memfs.Lost}} {
				if err := r.check(after.CrashClone(c), false); err != nil && nested == nil {
					nested = fmt.Errorf("then %s %s, crash %+v: %w", op, name, c, err)
				}
			}
		}
	}
	l, rec, err := Open(after, testDir, testID, Options{SegmentBytes: 1500})
	if err != nil {
		return err
	}
	after.AfterOp = nil
	if nested != nil {
		return nested
	}
	there, err := readAll(l.NewReader(0))
	if err != nil {
		return err
	}
	if err := r.compare(there, rec); err != nil {
		return err
	}
	// It goes on, behind what is there.
	for i := range 3 {
		lsn, err := l.Append(frameOf(i))
		if err != nil {
			return err
		}
		if lsn != rec.Next+LSN(i) {
			return fmt.Errorf("goes on with frame %d after %d", lsn, rec.Next)
		}
	}
	if err := l.Commit(context.Background()); err != nil {
		return err
	}
	// Frames that opening has shown stay, also if power fails now.
	end, now, err := readDir(after.CrashClone(memfs.Crash{Mode: memfs.Lost}), testDir, 0)
	if err != nil {
		return err
	}
	if now.Next != rec.Next+3 || len(end) != len(there)+3 || now.CutBytes != 0 {
		return fmt.Errorf("%d frames up to %d became %d up to %d", len(there), rec.Next, len(end), now.Next)
	}
	return l.Close()
}

func (r *crashRun) compare(there []numbered, rec Recovery) error {
	at := min(max(r.floor, 1), rec.First)
	if len(there) > 0 && there[0].lsn < at {
		at = there[0].lsn
	}
	for _, f := range there {
		for ; at < f.lsn; at++ {
			if !r.lost[at] {
				return fmt.Errorf("frame %d is missing", at)
			}
		}
		n, ok := r.frames[f.lsn]
		if !ok || !sameFrame(f.Frame, frameOf(n)) {
			return fmt.Errorf("frame %d is not what was appended", f.lsn)
		}
		if r.cut[f.lsn] {
			return fmt.Errorf("frame %d has come back", f.lsn)
		}
		at++
	}
	for ; at < r.durable; at++ {
		if !r.lost[at] {
			return fmt.Errorf("frame %d is lost, all before %d are durable; %d bytes were cut at %d: %s", at, r.durable, rec.CutBytes, rec.CutOffset, rec.CutReason)
		}
	}
	return nil
}

func (r *crashRun) append(l *Log, n int) error {
	for range n {
		// The callback may not see a frame that it does not know.
		r.frames[l.Next()] = r.count
		if _, err := l.Append(frameOf(r.count)); err != nil {
			return err
		}
		r.count++
	}
	return nil
}

func (r *crashRun) commit(l *Log) error {
	if err := l.Commit(context.Background()); err != nil {
		return err
	}
	r.durable = l.Next()
	return nil
}

// A faulty file system fails the syncs or writes of files when it is told to. A
// sync that fails loses its pages, and the next one succeeds.
type faulty struct {
	vfs.Buffered
	sync, write bool
	lies        int // so many syncs lose what they should write, and succeed
}

type faultyFile struct {
	vfs.Plain
	fs *faulty
}

func (f *faulty) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	return &faultyFile{vfs.Only(file), f}, err
}

func (f *faultyFile) Sync() error {
	if f.fs.sync || f.fs.lies > 0 {
		f.File.(interface{ FailSync() }).FailSync()
	}
	switch {
	case f.fs.sync:
		return &fs.PathError{Op: "sync", Path: "x", Err: syscall.EIO}
	case f.fs.lies > 0:
		f.fs.lies--
	}
	return f.File.Sync()
}

func (f *faulty) OpenDirect(name string) (vfs.File, error) {
	return f.FS.OpenDirect(name)
}

func (f *faulty) OpenWrite(name string) (vfs.File, error) {
	file, err := f.FS.OpenWrite(name)
	return &faultyFile{vfs.Only(file), f}, err
}

func (f *faultyFile) WriteAt(b []byte, off int64) (int, error) {
	if f.fs.write {
		n, _ := f.File.WriteAt(b[:len(b)/2], off)
		return n, &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	}
	return f.File.WriteAt(b, off)
}

// work writes a log that follows from seed: groups of all sizes, some of them
// failed, reopened or not, truncated, closed or left by a dead process.
func (r *crashRun) work(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	disk := &faulty{Buffered: vfs.Through(r.disk)}
	r.disk.Reread = seed%2 == 1
	// A process that dies releases its lock and nothing else.
	open := func() (*Log, error) {
		l, rec, err := Open(disk, testDir, testID, Options{SegmentBytes: 1500})
		if err != nil {
			return nil, err
		}
		// Frames that nobody reported and that are there now are durable from now on. Others
		// take the numbers of those that are not there.
		for lsn := range maps.Clone(r.frames) {
			if lsn >= rec.Next {
				delete(r.frames, lsn)
				delete(r.lost, lsn)
			}
		}
		r.durable = rec.Next
		return l, nil
	}
	l, err := open()
	if err != nil {
		return err
	}
	for range 30 {
		switch k := rng.IntN(12); {
		case k < 6:
			err = errors.Join(r.append(l, 1+rng.IntN(4)), r.commit(l))
		case k < 7:
			err = r.append(l, 1) // committed with what comes next, or never
		case k < 9:
			disk.sync, disk.write = k == 7, k == 8
			if err = r.append(l, 1+rng.IntN(3)); err != nil {
				break
			}
			for lsn := r.durable; lsn < l.Next(); lsn++ {
				r.lost[lsn] = true
			}
			if cerr := r.commit(l); cerr == nil {
				err = errors.New("nothing failed")
			}
			disk.sync, disk.write = false, false
			if rng.IntN(3) == 0 { // dies
				err = errors.Join(err, l.lock.Close())
				l2, oerr := open()
				l, err = l2, errors.Join(err, oerr)
				break
			}
			err = errors.Join(err, l.Reopen())
			for lsn := r.durable; lsn < l.Next(); lsn++ {
				r.cut[lsn] = true
			}
			r.durable = l.Next()
		case k < 10:
			if r.durable > 3 {
				r.floor = max(r.floor, r.durable-LSN(rng.IntN(3)))
				_, _, err = l.Truncate(r.floor)
			}
		case k < 11: // dies
			err = l.lock.Close()
			l2, oerr := open()
			l, err = l2, errors.Join(err, oerr)
		default:
			err = l.Close()
			l2, oerr := open()
			l, err = l2, errors.Join(err, oerr)
		}
		if err != nil {
			return err
		}
		if r.err != nil {
			return nil
		}
	}
	return l.Close()
}

// TestCrash loses power after every operation of some workloads. The nightly form has
// more of them.
func TestCrash(t *testing.T) {
	if testkit.Enabled {
		t.Skip("one goroutine; .ci/run does it without the race detector")
	}
	workloads, clones, want := 2, 8, 400
	if testkit.Nightly() {
		workloads, clones, want = 12, 24, 8_000
	}
	states, different, ops := 0, 0, 0
	for seed := range workloads {
		r := newCrashRun(clones)
		err := r.work(uint64(seed))
		if err == nil {
			err = r.err
		}
		if err != nil {
			t.Fatalf("workload %d: %v", seed, err)
		}
		states, different, ops = states+r.states, different+len(r.seen), ops+r.ops
	}
	t.Logf("%d crash states, %d of them different, after %d operations", states, different, ops)
	if different < want {
		t.Errorf("%d different crash states, want %d", different, want)
	}
}

// TestCrashIsNoticed shows that the test above can fail: on a disk that lies it
// does.
func TestCrashIsNoticed(t *testing.T) {
	for name, lie := range map[string]func(*memfs.FS){
		"sync":    func(m *memfs.FS) { m.IgnoreSync = true },
		"syncdir": func(m *memfs.FS) { m.IgnoreSyncDir = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newCrashRun(3)
			lie(r.disk)
			if err := r.work(1); err != nil {
				t.Fatal(err)
			}
			if r.err == nil {
				t.Fatal("no crash did any harm")
			}
			t.Log(r.err)
		})
	}
}
