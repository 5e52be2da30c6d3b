package live

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ckpt/image/iosched"
)

// TestUnit has processes of several applications move requests under each policy, in virtual time:
// each byte moves once and in order, one part at a time.
func TestUnit(t *testing.T) {
	for _, policy := range iosched.Names() {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, err := New("disk", policy, Options{Policy: iosched.Options{Quantum: 8 << 10}})
				if err != nil {
					t.Fatal(err)
				}
				defer u.Close()
				var moving atomic.Int32
				var all sync.WaitGroup
				for p := range 6 {
					all.Go(func() {
						rng := rand.New(rand.NewPCG(1, uint64(p)))
						for range 40 {
							r := &iosched.Request{App: fmt.Sprint(p % 3), Rank: p, User: "u", File: fmt.Sprint(p % 2), Op: iosched.Op(rng.IntN(2)),
								Offset: rng.Int64N(1 << 20), Bytes: 1 + rng.Int64N(64<<10)}
							at, end := r.Offset, r.End()
							err := u.Move(r, func(off, n int64) error {
								if moving.Add(1) != 1 {
									t.Error("two parts move")
								}
								if off != at || n < 1 {
									t.Errorf("part at %d, want %d", off, at)
								}
								at += n
								time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
								moving.Add(-1)
								return nil
							})
							if err != nil || at != end {
								t.Errorf("moved up to %d of %d, %v", at, end, err)
							}
							time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
						}
					})
				}
				all.Wait()
				if len(u.desk.live) > 0 || u.desk.moves {
					t.Errorf("%d requests are left", len(u.desk.live))
				}
			})
		})
	}
}

// TestLease has a process stop in the middle of its part: the next waits for the lease.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := New("disk", "fifo", Options{Lease: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		began := time.Now()
		var ends [2]time.Duration
		var all sync.WaitGroup
		for i, long := range []time.Duration{time.Hour, time.Second} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_ = u.Move(&iosched.Request{App: fmt.Sprint(i), File: "f", Op: iosched.Write, Bytes: 10}, func(int64, int64) error {
					time.Sleep(long)
					return nil
				})
				ends[i] = time.Since(began)
			})
		}
		all.Wait()
		if want := [2]time.Duration{time.Hour, 4 * time.Second}; ends != want {
			t.Errorf("ended at %v, want %v", ends, want)
		}
	})
}

// TestDrop has a client go whose requests move and wait.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := New("disk", "mlf", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		var left []*iosched.Request
		for i := range 5 {
			r := &iosched.Request{App: "gone", File: "f", Op: iosched.Write, Offset: int64(i) * 10, Bytes: 10}
			if err := u.Ask(r, func(Part) {}); err != nil {
				t.Fatal(err)
			}
			left = append(left, r)
		}
		var moved []int64
		var all sync.WaitGroup
		all.Go(func() {
			err := u.Move(&iosched.Request{App: "here", File: "f", Op: iosched.Write, Bytes: 100}, func(off, n int64) error {
				moved = append(moved, off, n)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		u.Drop(left)
		all.Wait()
		if !slices.Equal(moved, []int64{0, 100}) || len(u.desk.live) > 0 {
			t.Errorf("moved %v; %d requests are left", moved, len(u.desk.live))
		}
	})
}
