package pfs

import (
	"math"
	"slices"
	"testing"

	"ckpt/image/plan"
)

// TestUnpackPlace: where a node has one processor for each of its ranks, or a slow network,
// each rank unpacks its bytes; where the storage answers few processes only, and the network is
// fast, aggregators may read. Times are those of a sum by hand.
func TestUnpackPlace(t *testing.T) {
	const bytes, ranks = 64 << 20, 8
	// Two nodes of four processors, one fast target, and a network of 1 GB/s of each node.
	s := &System{Name: "x", RPC: 1 << 20, InFlight: 8, Host: Host{Processors: 4, Network: 1e9}, Servers: Servers{Count: 1},
		Targets: Targets{Count: 1, Rate: 1e15, ReadRate: 1e15, Stragglers: Stragglers{Factor: 1}}}
	seconds := func(u *Unpack, settings plan.Settings) float64 {
		t.Helper()
		settings.Layout, settings.P1, settings.P2, settings.StripeCount = plan.Shared, true, true, 1
		return mustRun(t, s, Job{Plan: mustPlan(t, sources(ranks, 4, bytes), settings), Read: true, Depth: 4, Unpack: u}).Jobs[0].Seconds
	}
	alone, one := plan.Settings{Strategy: plan.Individual}, plan.Settings{Aggregators: 1}
	stored := float64(ranks * bytes)

	// Unpacking is all: each of 8 processors has 64 MiB / 0.25 at 100 MB/s, once its first bytes
	// have come; the aggregator has all, with 4.
	slow := Unpack{Rate: 100e6, Ratio: 0.25}
	each := bytes / slow.Ratio / slow.Rate
	within(t, "ranks unpack", seconds(&slow, alone), each+stored/2/1e9/16, 0.05)
	sent := slow
	sent.Sender = true
	within(t, "the aggregator unpacks", seconds(&sent, one), 2*each+stored/1e9+stored/2/slow.Ratio/1e9, 0.05)

	// The network is all: ranks read packed bytes, and the aggregator sends the memory of four.
	fast := Unpack{Rate: 1e15, Ratio: 0.25}
	within(t, "ranks read", seconds(&fast, alone), stored/2/1e9, 0.05)
	packed := seconds(&fast, one)
	fast.Sender = true
	memory := seconds(&fast, one)
	within(t, "the aggregator sends memory", memory-packed, stored/2/1e9*(1/fast.Ratio-1), 0.05)
	if raw := seconds(nil, one); math.Abs(raw-packed) > 1e-6 {
		t.Errorf("unpacking in no time takes %g s", packed-raw)
	}
}

// TestChosenTargets: a file lies on the targets that were chosen, and on no others, whatever is
// free there.
func TestChosenTargets(t *testing.T) {
	s := &System{Name: "x", RPC: 1 << 20, InFlight: 8, Host: Host{Processors: 1}, Servers: Servers{Count: 8},
		Targets: Targets{Count: 8, Rate: 100e6, ReadRate: 100e6, Stragglers: Stragglers{Factor: 1}, Free: []Bytes{1 << 40, 1 << 40, 1 << 30, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 20}}}
	p := mustPlan(t, sources(4, 1, 64<<20), plan.Settings{Layout: plan.Shared, Strategy: plan.Individual, StripeCount: 8, P1: true})
	for _, chosen := range [][]int{{1}, {1, 4}, {6, 0, 3, 5}} {
		sim := NewSim(s, Options{})
		jobs, err := sim.prepare([]Job{{Plan: p, Sync: true, Depth: 4, Targets: chosen}})
		if err != nil || sim.Run(t.Context()) != nil {
			t.Fatal(err)
		}
		within(t, "seconds", sim.result(jobs).Jobs[0].Seconds, float64(256<<20)/100e6/float64(len(chosen)), 0.05)
		for i, target := range sim.targets {
			if used := target.disk.busy > 0; used != slices.Contains(chosen, i) {
				t.Errorf("%v: target %d is used: %v", chosen, i, used)
			}
		}
	}
	for _, bad := range [][]int{{8}, {-1}, {2, 2}} {
		if _, err := Run(t.Context(), s, []Job{{Plan: p, Targets: bad}}, Options{}); err == nil {
			t.Errorf("targets %v are taken", bad)
		}
	}
	if _, free, _ := s.Targets.Fullest([]int{1, 2}); free != 1<<30 {
		t.Errorf("of targets 1 and 2 the fullest has %d free", free)
	}
	s.Targets.Local, s.Targets.Free = true, nil
	if _, err := Run(t.Context(), s, []Job{{Plan: p, Targets: []int{1}}}, Options{}); err == nil {
		t.Error("targets of nodes are chosen")
	}
}
