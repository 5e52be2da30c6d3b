package coordinator

import (
	"slices"
	"testing"
	"time"
)

// TestOutages counts failures and what they cost.
func TestOutages(t *testing.T) {
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
