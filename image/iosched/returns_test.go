package iosched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestReturns has two writers of 10 MiB share a disk of 10 MB/s with seeks of 8 ms, as in BenchmarkGain of
// image/mount. The gain of mlf and wsjf over serving them as they come depends on how soon a writer is
// back with its next request: mlf waits a little longer for one that is usually a little late.
func TestReturns(t *testing.T) {
	flow := func(policy string, think time.Duration) (mean float64) {
		const seeds = 10
		for seed := range uint64(seeds) {
			s := newSim(t, policy, Options{Rate: 10e6}, 8*ms)
			for i := range 2 {
				s.start(0, &reader{app: fmt.Sprint(i), file: fmt.Sprint(i), op: Write, size: 256 << 10, stride: 256 << 10, count: 40,
					think: think, jitter: rand.New(rand.NewPCG(seed, uint64(i)))})
			}
			s.run()
			for _, a := range s.c.Stats().Apps {
				mean += a.Flow().Seconds() / (2 * seeds)
			}
		}
		return mean
	}
	for _, c := range []struct {
		policy string
		think  time.Duration // in the mean
		most   float64       // of the mean flow time, over that of fifo
	}{
		{"mlf", ms / 5, 0.81}, {"mlf", ms, 0.83}, {"mlf", 2 * ms, 0.85}, {"mlf", 3 * ms, 0.85}, {"mlf", 5 * ms, 0.90}, {"mlf", 12 * ms, 1.03},
		{"wsjf", ms / 5, 0.82}, {"wsjf", ms, 0.84}, {"wsjf", 12 * ms, 1.03},
	} {
		if ratio := flow(c.policy, c.think) / flow("fifo", c.think); ratio > c.most {
			t.Errorf("%s, back after %v: mean flow time %.3f of that of fifo, want %.2f at most", c.policy, c.think, ratio, c.most)
		}
	}
}
