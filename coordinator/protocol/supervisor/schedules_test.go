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
// package on each. CKPT_SIM_SCHEDULES says how many, CKPT_SIM_FIRST with which
// seed to begin. A failing seed is printed; CKPT_SIM_SEED runs it again, exactly,
// and shows what the supervisor did.
func TestSchedules(t *testing.T) {
	if seed := os.Getenv("CKPT_SIM_SEED"); seed != "" {
		replay(t, seed)
		return
	}
	n, first := environment(t, "CKPT_SIM_SCHEDULES", 2000), environment(t, "CKPT_SIM_FIRST", 0)
	var all seen
	var mu sync.Mutex
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var mine seen
			for i := next.Add(1) - 1; i < int64(n) && failed.Load() < 5; i = next.Add(1) - 1 {
				seed := uint64(first) + uint64(i)
				w, text := simulate(seed, &mutant{})
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
	if n >= 2000 && all.missing() {
		t.Error("the schedules do not exercise the protocol")
	}
}

func environment(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q is not a number", name, s)
	}
	return n
}
