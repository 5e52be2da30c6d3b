package supervisor

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSchedules runs seeded schedules of faults and checks the promises of the
// package on each. CKPT_SIM_SCHEDULES says how many, CKPT_SIM_SEED runs one
// again; a failing seed is printed and replays exactly.
func TestSchedules(t *testing.T) {
	if seed := os.Getenv("CKPT_SIM_SEED"); seed != "" {
		replaySeed(t, seed)
		return
	}
	n := 2000
	if testing.Short() {
		n = 400
	}
	if s := os.Getenv("CKPT_SIM_SCHEDULES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var all seen
	var mu sync.Mutex
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var mine seen
			for seed := next.Add(1) - 1; seed < int64(n) && failed.Load() < 5; seed = next.Add(1) - 1 {
				w, text := simulate(uint64(seed), &mutant{})
				if text != "" {
					failed.Add(1)
					t.Errorf("seed %d (log %v) %s", seed, w.log, text)
				}
				mine.add(w.seen)
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(mine)
		})
	}
	wg.Wait()
	t.Logf("%d schedules: %+v", n, all)
}
