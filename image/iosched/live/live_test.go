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
							err := u.Move(r, func(off, n, _ int64) error {
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
				_ = u.Move(&iosched.Request{App: fmt.Sprint(i), File: "f", Op: iosched.Write, Bytes: 10}, func(_, _, _ int64) error {
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
			err := u.Move(&iosched.Request{App: "here", File: "f", Op: iosched.Write, Bytes: 100}, func(off, n, _ int64) error {
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

// TestIdle has applications come and go under each policy: while a request waits, the unit is idle for one
// that another has yet to make no longer than the policy's own waits last.
func TestIdle(t *testing.T) {
	o := iosched.DefaultMLF()
	longest := 4*o.IdleWait + o.ShiftWait + o.AggWait
	for _, policy := range iosched.Names() {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, err := New("disk", policy, Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer u.Close()
				var mu sync.Mutex
				var waiting, moving int
				var since time.Time // of the unit's idleness while requests wait
				change := func(waits, moves int) {
					mu.Lock()
					defer mu.Unlock()
					idle := waiting > 0 && moving == 0
					if gap := time.Since(since); idle && gap > longest {
						t.Errorf("the unit was idle for %v while %d requests waited, want %v at most", gap, waiting, longest)
					}
					waiting, moving = waiting+waits, moving+moves
					if !idle || moves > 0 {
						since = time.Now()
					}
				}
				var all sync.WaitGroup
				for p := range 8 {
					all.Go(func() {
						rng := rand.New(rand.NewPCG(2, uint64(p)))
						for i := range int64(60) {
							r := &iosched.Request{App: fmt.Sprint(p % 4), Rank: p, User: fmt.Sprint(p % 2), File: fmt.Sprint(p % 3), Op: iosched.Op(p % 2),
								Offset: (i*8 + int64(p)) << 15, Bytes: 1 << 15}
							change(1, 0)
							err := u.Move(r, func(_, _, _ int64) error {
								change(-1, 1)
								time.Sleep(time.Millisecond)
								change(1, -1) // for the next part, if there is one
								return nil
							})
							change(-1, 0)
							if err != nil {
								t.Error(err)
							}
							if away := rng.IntN(10); away == 0 {
								time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
							} else {
								time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
							}
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// TestUsers has a user with four applications and one with a single one use a unit for as long as each
// wants to: under wsjf both move as many bytes, under rr each application does.
func TestUsers(t *testing.T) {
	for _, c := range []struct {
		policy    string
		low, high float64 // of the bytes of the user with four, over those of the other
	}{{"wsjf", 0.8, 1.25}, {"rr", 3.5, 4.5}} {
		t.Run(c.policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, err := New("disk", c.policy, Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer u.Close()
				var moved [2]atomic.Int64
				end := time.Now().Add(time.Minute)
				var all sync.WaitGroup
				for p := range 10 { // two processes of each application, so that one always waits
					app := p / 2
					user := min(app, 1)
					all.Go(func() {
						for i := int64(0); time.Now().Before(end); i++ {
							r := &iosched.Request{App: fmt.Sprint(app), Rank: p, User: fmt.Sprint(user), File: fmt.Sprint(app), Op: iosched.Write,
								Offset: (2*i + int64(p%2)) << 18, Bytes: 1 << 18}
							_ = u.Move(r, func(_, n, _ int64) error {
								time.Sleep(time.Duration(n) * 10) // 100 MB/s
								moved[1-user].Add(n)
								return nil
							})
						}
					})
				}
				all.Wait()
				if ratio := float64(moved[0].Load()) / float64(moved[1].Load()); ratio < c.low || ratio > c.high {
					t.Errorf("the user with four applications moved %.2f times the bytes, want %.2f to %.2f", ratio, c.low, c.high)
				}
			})
		})
	}
}

// TestBehind has readers of neighbouring blocks wait while another part moves. Under mlf, which joins
// them, the first of them learns how much follows; the others, and all under fifo, learn nothing.
func TestBehind(t *testing.T) {
	for policy, want := range map[string][]int64{"mlf": {30, 0, 0, 0}, "fifo": {0, 0, 0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			u, err := New("disk", policy, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			var all sync.WaitGroup
			got := make([]int64, 4)
			read := func(p int, file string, off int64, done func(behind int64)) {
				all.Go(func() {
					err := u.Move(&iosched.Request{App: file, Rank: p, File: file, Offset: off, Bytes: 10}, func(_, _, behind int64) error {
						time.Sleep(time.Millisecond)
						done(behind)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			read(0, "other", 0, func(int64) {})
			for p := range 4 {
				read(p, "file", int64(10*p), func(behind int64) { got[p] = behind })
			}
			all.Wait()
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", policy, got, want)
			}
		})
	}
}
