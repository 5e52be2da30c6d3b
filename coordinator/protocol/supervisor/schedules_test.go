package supervisor

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"ckpt/internal/testkit"

	"github.com/google/go-cmp/cmp"
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
	n := 1500
	switch {
	case testkit.Enabled:
		n = 300
	case testkit.Nightly():
		n = 3000
	}
	n, first := environment(t, "CKPT_SIM_SCHEDULES", n), environment(t, "CKPT_SIM_FIRST", 0)
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
	if n >= 1500 && all.missing() {
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

// seen counts what has happened, so that a test can tell that it happens.
type seen struct {
	spawns, commits, recoveries, survivors, rolledBack, decisions int
	crashes, partitions, stops, failures, anew, refused           int
	forgotten, collected, replayed, lines                         int
}

func (s *seen) add(o seen) {
	s.spawns += o.spawns
	s.commits += o.commits
	s.recoveries += o.recoveries
	s.survivors += o.survivors
	s.rolledBack += o.rolledBack
	s.decisions += o.decisions
	s.crashes += o.crashes
	s.partitions += o.partitions
	s.stops += o.stops
	s.failures += o.failures
	s.anew += o.anew
	s.refused += o.refused
	s.forgotten += o.forgotten
	s.collected += o.collected
	s.replayed += o.replayed
	s.lines += o.lines
}

// missing reports whether something never happened.
func (s *seen) missing() bool {
	return slices.Contains([]int{s.spawns, s.commits, s.recoveries, s.survivors, s.rolledBack, s.decisions, s.crashes, s.partitions,
		s.stops, s.anew, s.refused, s.forgotten, s.collected, s.replayed, s.lines}, 0)
}

// TestReplay runs schedules twice: a seed says all that happens.
func TestReplay(t *testing.T) {
	for seed := range uint64(100) {
		var runs [2][]string
		for i := range runs {
			w := newWorld(seed, &mutant{})
			w.watch = func(a Action) {
				text := describe(a.Action)
				if text == "" {
					text = fmt.Sprintf("%T", a.Action)
				}
				runs[i] = append(runs[i], fmt.Sprintf("%v %d %s", w.now, a.Group, text))
			}
			if text := w.simulate(); text != "" {
				t.Fatalf("seed %d %s", seed, text)
			}
		}
		if !slices.Equal(runs[0], runs[1]) {
			t.Fatalf("seed %d is not the same twice:\n%s", seed, cmp.Diff(runs[0], runs[1]))
		}
	}
}
