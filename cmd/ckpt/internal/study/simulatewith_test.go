package study

import (
	"math"
	"strings"
	"testing"

	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/predict/life"
)

// TestBesideIsStorage holds two jobs that share a storage in a life to the simulation of all of their
// requests: from how they fare when both begin at once, the life knows what a checkpoint takes that
// begins while the other one is under way, or is met by it.
func TestBesideIsStorage(t *testing.T) {
	sys, err := pfs.Read(strings.NewReader("name: disks\nhost: {processors: 4, network: 1GB/s}\ntargets: {count: 8, rate: 100MB/s, read_rate: 200MB/s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	mine, other := costs{nodes: 8, np: 32, bytes: 512 << 20}, costs{nodes: 4, np: 8, bytes: 1 << 30}
	contend := func(a, b float64) *tune.Contention {
		t.Helper()
		var jobs []tune.Contender
		for i, c := range []*costs{&mine, &other} {
			of, err := c.caseOf(&unit{nodes: c.nodes, ranks: c.np, count: 1}, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, tune.Contender{Case: of, Start: []float64{a, b}[i]})
		}
		flows, err := tune.Contend(t.Context(), sys, jobs, tune.Policies{})
		if err != nil {
			t.Fatal(err)
		}
		return flows
	}
	once := contend(0, 0)
	speeds, alone := pairOf(once), once.Jobs[0].Seconds
	if both := speeds[3]; both[0] > 0.95 || both[1] > 0.95 {
		t.Fatalf("the jobs hardly meet: speeds %v", both)
	}
	const interval = 1000.
	for _, late := range []float64{-4, -2, -1, 1, 2, 4} { // the other begins so much after the job
		want := contend(max(0, -late), max(0, late)).Orders[0].Jobs[0].Seconds
		j := life.Job{Work: 1.5 * interval, Interval: interval, Nodes: 8, Levels: []life.Level{{Name: "store", Cost: alone}},
			Beside: &life.Beside{Bursts: []life.Burst{{Interval: 1e6, Write: once.Jobs[1].Seconds, Start: interval + late}}, Speeds: speeds}}
		l, err := life.One(j, life.Machine{NodeMTBF: 1e14}, 1, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.End - j.Work; math.Abs(got/want-1) > 0.05 {
			t.Errorf("%+g s: the checkpoint takes %.2f s in the life, and %.2f s in the storage; alone %.2f s", late, got, want, alone)
		}
	}
}
