package pfs

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"

	"ckpt/image/plan"
)

// TestEvents bounds the events of a large run by its bytes and rounds: the time
// of a run is in proportion.
func TestEvents(t *testing.T) {
	s := mustLoad(t, "eos-spider2")
	s.Targets.Count, s.Servers.Count = 100, 100
	for _, layout := range []plan.Layout{plan.PerRank, plan.Shared} {
		p := mustPlan(t, sources(2000, 10, 64<<20), plan.Settings{Layout: layout, StripeCount: 100, P1: true, P2: true})
		sim := NewSim(s, Options{})
		jobs, err := sim.prepare([]Job{{Plan: p, Sync: true}})
		if err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		bytes := sim.result(jobs).Jobs[0].Bytes
		// Per stripe of a file per rank: it goes to the router, the server and back.
		if most := 5*(bytes>>20) + 10*2000; sim.count > most || sim.count < 1000 {
			t.Errorf("%s: %d events of %d bytes, want at most %d", layout, sim.count, bytes, most)
		}
	}
}

// TestCoarse compares large chunks with small ones.
func TestCoarse(t *testing.T) {
	for _, name := range []string{"eos-spider2", "nfs", "local-nvme"} {
		for _, set := range []plan.Settings{
			{Layout: plan.PerRank, StripeCount: 1}, {Layout: plan.Aggregated}, {Layout: plan.Shared}, {Layout: plan.Shared, Strategy: plan.Individual},
		} {
			set.P1, set.P2 = true, true
			s := mustLoad(t, name)
			s.Locks.Kind = NoLocks // a lock changes hands once for each operation
			p := mustPlan(t, sources(32, 4, 256<<20), set)
			seconds := func(most int64) float64 {
				sim := NewSim(s, Options{})
				sim.coarsen(32*256<<20, most)
				jobs, err := sim.prepare([]Job{{Plan: p, Sync: true}})
				if err != nil {
					t.Fatal(err)
				}
				if err := sim.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
				return sim.result(jobs).Jobs[0].Seconds
			}
			fine, coarse := seconds(1<<40), seconds(32*256/16) // up to 16 MiB
			between(t, fmt.Sprintf("%s, %s %s: coarse over fine", name, set.Layout, set.Strategy), coarse/fine, 0.9, 1.1)
		}
	}
}

// TestBatches makes the same rounds by beginning the iterator again and again.
func TestBatches(t *testing.T) {
	p := mustPlan(t, sources(12, 3, 12<<20), plan.Settings{Layout: plan.Shared, StripeCount: 4, Buffer: 2 << 20})
	for _, w := range p.Writers {
		want := slices.Collect(p.WriterPlan(w.Rank))
		for _, most := range []int{1, 2, 3, 100} {
			b := &batches{seq: p.WriterPlan(w.Rank), most: most}
			var got []plan.Round
			for r, ok := b.next(); ok; r, ok = b.next() {
				got = append(got, r)
			}
			if !reflect.DeepEqual(got, want) || len(want) < 4 {
				t.Fatalf("writer %d, %d at a time: %d rounds, want %d", w.Rank, most, len(got), len(want))
			}
		}
	}
	var none iter.Seq[plan.Round] = func(func(plan.Round) bool) {}
	if _, ok := (&batches{seq: none, most: 1}).next(); ok {
		t.Error("a round of none")
	}
}
