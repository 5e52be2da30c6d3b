package iosched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestStarvation bounds how long anybody waits for the unit, whatever the others do:
// under mlf a file for one window of each other file, and its oldest request for a
// deadline more; under rr and wsjf an application for one quantum of each other.
func TestStarvation(t *testing.T) {
	const quantum = 8 * block
	bound := 100 * ms
	request := seek + moving(block)
	mlf := DefaultMLF()
	window := mlf.WindowMax + mlf.ShiftWait + seek + moving(mlf.MaxAgg)
	for _, c := range []struct {
		policy string
		bound  func(n int) time.Duration
	}{
		{"mlf", func(n int) time.Duration { return mlf.Deadline + time.Duration(n)*window }},
		{"rr", func(n int) time.Duration { return time.Duration(n) * quantum / block * request }},
		{"wsjf", func(n int) time.Duration { return bound + time.Duration(n)*quantum/block*(request+defaultIdle) }},
	} {
		t.Run(c.policy, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s := newSim(t, c.policy, Options{Rate: unitRate, Quantum: quantum, Bound: bound}, seek)
				n := rapid.IntRange(1, 6).Draw(rt, "files")
				var since [6]time.Duration
				var pending [6]int
				s.begin = func(g Grant, at time.Duration) {
					i := g.Request.Data.(int)
					if gap := at - since[i]; gap > c.bound(n) {
						rt.Fatalf("file %d of %d waited for %v until %v, want at most %v", i, n, gap, at, c.bound(n))
					}
				}
				s.done = func(r *Request) {
					i := r.Data.(int)
					pending[i]--
					since[i] = s.now
				}
				s.came = func(r *Request) {
					i := int(r.File[0] - '0')
					r.Data = i
					if pending[i]++; pending[i] == 1 {
						since[i] = s.now
					}
				}
				for i := range n {
					load(rt, s, i)
				}
				s.run()
			})
		})
	}
}

// moving is how long the disk takes for so many bytes.
func moving(bytes int64) time.Duration { return time.Duration(float64(bytes) / unitRate * 1e9) }

// load has processes use file i: strided ones, a burst of requests at one time,
// or requests anywhere.
func load(t *rapid.T, s *sim, i int) {
	file := fmt.Sprint(i)
	seed := rapid.Uint64().Draw(t, "seed")
	rnd := rand.New(rand.NewPCG(seed, 0))
	op := Op(rapid.IntRange(0, 1).Draw(t, "op"))
	ranks := rapid.IntRange(1, 8).Draw(t, "ranks")
	at := time.Duration(rapid.IntRange(0, 1000).Draw(t, "start")) * ms
	if rapid.Bool().Draw(t, "burst") {
		s.at(at, func() {
			for range 40 * ranks {
				s.add(&Request{App: file, File: file, Op: op, Offset: rnd.Int64N(1000) * block, Bytes: block})
			}
		})
		return
	}
	think := time.Duration(rapid.IntRange(1, 5000).Draw(t, "think")) * time.Microsecond
	for rank := range ranks {
		s.start(at, &reader{app: file, rank: rank, file: file, op: op, offset: int64(rank) * block, size: block, stride: int64(ranks) * block, count: 40, think: think, jitter: rnd})
	}
}

// TestOldRequest has a request at the end of a file wait for others that always come
// before it in the file.
func TestOldRequest(t *testing.T) {
	s := newSim(t, "mlf", mlfOptions(nil), seek)
	var wait time.Duration
	s.begin = func(g Grant, at time.Duration) {
		if g.Request.App == "late" {
			wait = at - g.Request.Arrival
		}
	}
	s.start(0, &reader{app: "a", file: "f", size: block, count: 1000, think: ms, rank: 1}, &reader{app: "a", file: "f", size: block, count: 1000, think: ms, rank: 2})
	s.at(0, func() { s.add(&Request{App: "late", File: "f", Offset: 1 << 30, Bytes: block}) })
	s.run()
	if wait < 500*ms || wait > 500*ms+seek+2*ms {
		t.Errorf("it waited for %v, want 500 ms and the request that is being served then", wait)
	}
}
