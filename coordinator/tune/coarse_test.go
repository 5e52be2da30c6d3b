package tune

import (
	"math"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// TestCoarse: a simulation in which each request stands for many takes as long, in virtual time,
// as the one of all requests.
func TestCoarse(t *testing.T) {
	mapping, err := job.EvenMapping(128, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"eos-spider2", "xt5", "local-nvme", "afs1-shared"} {
		sys, err := pfs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, layout := range []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared, "static"} {
			memory := &PlannedMemory{Regions: []string{"u"}}
			for node, n := range mapping {
				for range n {
					memory.Sources = append(memory.Sources, plan.Source{Rank: len(memory.Sources), Node: node, Pieces: []plan.Piece{{Bytes: 256 << 20}}})
				}
			}
			c := Case{Memory: memory, Mapping: mapping, Settings: plan.Defaults()}
			if c.Settings.Layout = layout; layout == "static" {
				c.Settings.Layout, c.Settings.Strategy = plan.Aggregated, plan.Static
			}
			l, err := c.load(none, 1)
			if err != nil {
				t.Fatal(err)
			}
			forecast := func(k float64) Forecast {
				p, err := l.coarser(k).plan(c.Settings)
				if err != nil {
					t.Fatal(err)
				}
				var f Forecast
				if err := c.simulate(t.Context(), sys, l, p, make([]float64, 128), 1, k, &f); err != nil {
					t.Fatal(err)
				}
				return f
			}
			whole, coarse := forecast(1).Storage, forecast(8).Storage
			t.Logf("%s %s: %.2f s, coarse %.2f s, %+.1f %%", name, layout, whole, coarse, 100*(coarse/whole-1))
			limit := max(0.05, 2*coarseDoubtOf(&c.Settings))
			if math.Abs(coarse/whole-1) > limit {
				t.Errorf("%s %s: %.2f s with all requests, %.2f s with an eighth", name, layout, whole, coarse)
			}
		}
	}
}

// TestCoarseBound: all bytes pass the same routers, so that few aggregators on many targets, whose
// time doesn't grow in proportion to the requests, can't be forecast faster than files per rank.
func TestCoarseBound(t *testing.T) {
	const ranks, nodes = 1600, 100
	mapping, err := job.EvenMapping(ranks, nodes)
	if err != nil {
		t.Fatal(err)
	}
	sys, err := pfs.Load("eos-spider2")
	if err != nil {
		t.Fatal(err)
	}
	c := Case{Mapping: mapping, Settings: plan.Defaults(), Memory: &PlannedMemory{Regions: []string{"u"}}}
	for rank := range ranks {
		c.Memory.Sources = append(c.Memory.Sources, plan.Source{Rank: rank, Node: rank / (ranks / nodes), Pieces: []plan.Piece{{Bytes: 5 << 30}}})
	}
	forecast := func() float64 {
		f, err := Predict(t.Context(), sys, c)
		if err != nil {
			t.Fatal(err)
		}
		return f.Storage
	}
	alone := forecast()
	c.Settings.Layout, c.Settings.Strategy = plan.Aggregated, plan.Static
	c.Settings.Aggregators, c.Settings.StripeCount = 64, 1008
	if few := forecast(); few < 0.95*alone {
		t.Errorf("%.0f s with few aggregators on many targets, %.0f s with a file per rank", few, alone)
	}
}
