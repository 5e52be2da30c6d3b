package coordinator

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
)

// TestOutages counts failures and what they cost.
func TestOutages(t *testing.T) {
	t.Parallel()
	var all outages
	var r Result
	at := func(s int) time.Duration { return time.Duration(s) * time.Second }

	// Node 1 dies with the ranks of three groups; each comes back by itself.
	all.died(4, 1, 20, at(1))
	all.restarts(4, []int{4}, 1, 3)
	all.died(5, 1, 20, at(1))
	all.died(6, 1, 20, at(1))
	all.restarts(5, []int{5}, 1, 4)
	all.computes(4, at(2))
	all.restarts(6, []int{6}, 1, 5)
	all.computes(5, at(3))
	all.computes(6, at(4))

	// Two nodes fail, and a group that lives goes back on account of the second.
	all.died(0, 0, 30, at(5))
	all.died(4, 1, 30, at(6))
	all.restarts(0, []int{0, 4}, 2, 1)
	all.restarts(4, []int{0, 4}, 2, 2)
	all.restarts(2, []int{0, 4}, 2, 10)
	all.computes(0, at(7))
	all.computes(4, at(8))

	// A rank dies while it comes back, before group 2 computes: that is another one.
	all.died(2, 0, 25, at(9))
	all.restarts(2, []int{2}, 2, 0)
	all.computes(2, at(10))

	// One that nobody recovers from.
	all.died(3, 1, 40, at(11))

	all.sum(&r, at(12))
	if r.Failures != 5 || !slices.Equal(r.Restarts, []int{3, 2, 4, 2}) || !slices.Equal(r.WorkLost, []int{12, 2, 24, 0}) ||
		!slices.Equal(r.Recovery, []float64{3, 2, 4, 1}) {
		t.Errorf("%d failures, restarts %v, work lost %v, recovery %v", r.Failures, r.Restarts, r.WorkLost, r.Recovery)
	}
	if lost := all.lost(3, 33); lost != 7 {
		t.Errorf("%d iterations lost, want 7", lost)
	}
}

// TestFallenBack counts a failure after which the newest checkpoint cannot be
// restored: its ranks are restarted once, from the one before.
func TestFallenBack(t *testing.T) {
	t.Parallel()
	var one, several outages
	one.died(0, 0, 1400, 0)
	one.restarts(0, nil, 4, one.lost(0, 1200))
	one.restarts(0, nil, 4, one.lost(0, 900))
	several.died(2, 0, 1400, 0)
	several.restarts(2, []int{2}, 4, 200)
	several.restarts(2, nil, 4, 300)
	for _, all := range []outages{one, several} {
		var r Result
		all.sum(&r, time.Second)
		if !slices.Equal(r.Restarts, []int{4}) || !slices.Equal(r.WorkLost, []int{2000}) {
			t.Errorf("restarts %v, work lost %v; want 4 ranks, 500 iterations each", r.Restarts, r.WorkLost)
		}
	}
}

// TestUnusableNewest damages the newest checkpoint of a job before a rank fails.
func TestUnusableNewest(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, mode := range []job.Mode{job.Coordinated, job.Semi} {
		t.Run(string(mode), func(t *testing.T) {
			s := newSpec(t, "ring.S.4", 2)
			s.Mode, s.AutoRestart, s.Incremental, s.Schedule.Every = mode, true, false, 10
			opt := Options{Store: t.TempDir(), Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: 25}}}
			rec := &recorder{t: t}
			rec.on = func(ev any) {
				if c, ok := ev.(*job.CheckpointEvent); !ok || c.Iteration != 20 || c.Of != nil && c.Of[0] != 0 {
					return
				}
				names, err := filepath.Glob(filepath.Join(opt.Store, "jobs", "job", "*", "rank-0.img"))
				if err != nil || len(names) < 2 {
					t.Fatalf("images %v, %v", names, err)
				}
				f, err := os.OpenFile(slices.Max(names), os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteAt([]byte("damage"), 20000); err != nil {
					t.Fatal(err)
				}
			}
			opt.Observer = rec
			r, _, _ := mustLaunch(t, s, opt)
			ranks := 4
			if mode == job.Semi {
				ranks = 2
			}
			if r.Failures != 1 || !slices.Equal(r.Restarts, []int{ranks}) || len(r.WorkLost) != 1 ||
				r.WorkLost[0] < 14*ranks || r.WorkLost[0] > 15*ranks {
				t.Errorf("%d failures, restarts %v, work lost %v; want %d ranks, 15 iterations each", r.Failures, r.Restarts, r.WorkLost, ranks)
			}
		})
	}
}
