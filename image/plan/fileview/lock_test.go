package fileview_test

import (
	"bytes"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"ckpt/image/plan/fileview"
)

// noLock is what a Locker must not be.
type noLock struct{}

func (noLock) LockRange(int64, int64) (func(), error) { return func() {}, nil }

// announced is a Locker that tells of each call before it waits.
type announced struct {
	fileview.Locker
	asked chan<- struct{}
}

func (a announced) LockRange(off, n int64) (func(), error) {
	a.asked <- struct{}{}
	return a.Locker.LockRange(off, n)
}

// A writer comes between the read and the write of another's rewrite, into its
// hole. With a lock it waits and its bytes stay; without one they are lost,
// which shows that the test would notice.
func TestNoLostUpdate(t *testing.T) {
	t.Parallel()
	const block = 8
	odd := mustView(t, 0, []fileview.Tuple{{Size: block, Hole: block}}, 2)
	even := mustView(t, block, []fileview.Tuple{{Size: block, Hole: block}}, 1)
	for _, c := range []struct {
		name string
		lock fileview.Locker
		lost bool
	}{
		{"locked", new(fileview.RangeLock), false},
		{"not locked", noLock{}, true},
	} {
		file := &memFile{data: make([]byte, 3*block)}
		asked, written := make(chan struct{}, 2), make(chan error, 1)
		hole := mustFile(t, file, even, fileview.Options{Locker: announced{c.lock, asked}})
		var once sync.Once
		file.before = func(k call) {
			if !k.write || k.off != 0 {
				return
			}
			// The rewrite has read and is about to write.
			once.Do(func() {
				go func() {
					_, err := hole.WriteAt(bytes.Repeat([]byte{2}, block), 0)
					written <- err
				}()
				<-asked
				if c.lost {
					written <- <-written
				}
			})
		}
		f := mustFile(t, file, odd, fileview.Options{Rule: fileview.Extent, Locker: c.lock})
		if _, err := f.WriteAt(bytes.Repeat([]byte{1}, 2*block), 0); err != nil {
			t.Fatal(err)
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		if lost := file.data[block] != 2; lost != c.lost {
			t.Errorf("%s: update lost: %v", c.name, lost)
		}
		// The record is made after the hook: the write into the hole is the last
		// if it waited.
		if last := file.calls[2]; len(file.calls) != 3 || !c.lost && last.off != block {
			t.Errorf("%s: calls %+v", c.name, file.calls)
		}
	}
}

// Writers with interleaved views, each with its own buffer or all with one,
// write again and again; in the end everybody's last bytes are there.
func TestInterleavedWriters(t *testing.T) {
	t.Parallel()
	const writers, block, blocks, rounds = 8, 5, 12, 25
	for _, m := range methods {
		for _, shared := range []bool{false, true} {
			file, lock := &memFile{}, new(fileview.RangeLock)
			opts := fileview.Options{Rule: m, Buffer: 97, Locker: lock, Device: fileview.Device{Bandwidth: 1 << 20, Latency: 1e9, Stripe: 64}}
			var wg sync.WaitGroup
			everybody := mustFile(t, file, mustView(t, 3, []fileview.Tuple{{Size: block}}, writers*blocks), opts)
			for w := range writers {
				v := mustView(t, 3+int64(w)*block, []fileview.Tuple{{Size: block, Hole: (writers - 1) * block}}, blocks)
				f := mustFile(t, file, v, opts)
				wg.Go(func() {
					for round := range rounds {
						p := bytes.Repeat([]byte{byte(1 + w*rounds + round)}, block*blocks)
						if !shared {
							if _, err := f.WriteAt(p, 0); err != nil {
								t.Error(err)
							}
							continue
						}
						for i := range int64(blocks) {
							if _, err := everybody.WriteAt(p[:block], (i*writers+int64(w))*block); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			want := make([]byte, 3)
			for range blocks {
				for w := range writers {
					want = append(want, bytes.Repeat([]byte{byte(1 + w*rounds + rounds - 1)}, block)...)
				}
			}
			if !bytes.Equal(file.data, want) {
				t.Errorf("%v, one File for all %v:\n got %v\nwant %v", m, shared, file.data, want)
			}
		}
	}
}

// lockingFile is a file that brings its own Locker.
type lockingFile struct {
	nullFile
	locks atomic.Int64
}

func (l *lockingFile) LockRange(int64, int64) (func(), error) {
	l.locks.Add(1)
	return func() {}, nil
}

func TestWhichLocker(t *testing.T) {
	t.Parallel()
	v := mustView(t, 0, []fileview.Tuple{{Size: 8}}, 1)
	file := &lockingFile{}
	asked := make(chan struct{}, 1)
	for _, l := range []fileview.Locker{nil, announced{noLock{}, asked}} {
		f := mustFile(t, file, v, fileview.Options{Locker: l})
		if _, err := f.WriteAt(make([]byte, 8), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(make([]byte, 8), 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := file.locks.Load(); n != 1 || len(asked) != 1 {
		t.Errorf("%d locks of the file, %d of the options; want one each", n, len(asked))
	}
}

func TestRangeLockRefuses(t *testing.T) {
	t.Parallel()
	var l fileview.RangeLock
	for _, c := range [][2]int64{{-1, 1}, {0, 0}, {5, -1}, {math.MaxInt64, 1}, {2, math.MaxInt64 - 1}} {
		if _, err := l.LockRange(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "cannot lock") {
			t.Errorf("LockRange(%d, %d): %v", c[0], c[1], err)
		}
	}
	unlock, err := l.LockRange(1, math.MaxInt64-1)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A range waits for those that have a byte of it, also if these wait
// themselves, and for no others.
func TestRangeLockOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l fileview.RangeLock
		type claim struct {
			off, n int64
			unlock chan func()
		}
		lock := func(off, n int64) claim {
			c := claim{off, n, make(chan func(), 1)}
			go func() {
				unlock, err := l.LockRange(off, n)
				if err != nil {
					t.Error(err)
				}
				c.unlock <- unlock
			}()
			synctest.Wait()
			return c
		}
		has := func(want bool, claims ...claim) {
			t.Helper()
			synctest.Wait()
			for _, c := range claims {
				if got := len(c.unlock) == 1; got != want {
					t.Fatalf("%d bytes at %d: granted %v, want %v", c.n, c.off, got, want)
				}
			}
		}
		a := lock(10, 10)
		before, after := lock(0, 10), lock(20, 5)
		has(true, a, before, after)
		left, right, within, around := lock(5, 6), lock(19, 3), lock(12, 2), lock(0, 100)
		behind, beyond := lock(50, 1), lock(100, 10)
		has(false, left, right, within, around, behind)
		has(true, beyond)
		(<-a.unlock)()
		has(true, within)
		has(false, left, right, around, behind)
		(<-before.unlock)()
		(<-after.unlock)()
		has(true, left, right)
		for _, c := range []claim{left, right, within} {
			has(false, around, behind)
			(<-c.unlock)()
		}
		has(true, around)
		has(false, behind)
		(<-around.unlock)()
		has(true, behind)
		(<-behind.unlock)()
		(<-beyond.unlock)()
	})
}

// No byte has two owners at a time.
func TestRangeLock(t *testing.T) {
	t.Parallel()
	var l fileview.RangeLock
	// owner[i] is who has byte i.
	const size = 64
	var owner [size]atomic.Int64
	var wg sync.WaitGroup
	for g := range int64(16) {
		wg.Go(func() {
			for i := range int64(200) {
				off := (g*29 + i*13) % size
				n := 1 + (g+i*7)%(size-off)
				unlock, err := l.LockRange(off, n)
				if err != nil {
					t.Error(err)
					return
				}
				for b := off; b < off+n; b++ {
					if !owner[b].CompareAndSwap(0, g+1) {
						t.Errorf("byte %d has two owners", b)
					}
				}
				for b := off; b < off+n; b++ {
					owner[b].Store(0)
				}
				unlock()
			}
		})
	}
	wg.Wait()
}
