package pfs

import (
	"context"
	"runtime"
	"testing"

	"ckpt/image/plan"
	"ckpt/internal/testkit"
)

// scales are the sizes that the simulator is made for. All ranks have the same,
// and write it at the same time.
var scales = []struct {
	name                  string
	ranks, perNode        int
	bytes                 int64
	targets, stripes, rpc int
	layout                plan.Layout
}{
	{"10k/shared", 10_000, 10, 256 << 20, 100, 100, 1 << 20, plan.Shared},
	{"10k/per-rank", 10_000, 10, 256 << 20, 100, 1, 1 << 20, plan.PerRank},
	{"1M/shared", 1_000_000, 100, 8 << 20, 1000, 1000, 1 << 20, plan.Shared},
	{"1M/aggregated", 1_000_000, 100, 8 << 20, 1000, 4, 1 << 20, plan.Aggregated},
	{"1M/per-rank", 1_000_000, 100, 8 << 20, 1000, 1, 1 << 20, plan.PerRank},
	{"1M/per-rank-64MiB", 1_000_000, 100, 64 << 20, 1000, 1, 1 << 20, plan.PerRank},
}

// BenchmarkScale plans and simulates. It reports events, and the memory that the
// process had at most.
func BenchmarkScale(b *testing.B) {
	for _, test := range scales {
		b.Run(test.name, func(b *testing.B) {
			if test.ranks > 100_000 && !testkit.Nightly() {
				b.Skip("a million ranks take 10 to 25 s: set CKPT_NIGHTLY=1")
			}
			s := mustLoad(b, "eos-spider2")
			s.Targets.Count, s.Servers.Count, s.RPC = test.targets, test.targets, Bytes(test.rpc)
			var events, heap float64
			for b.Loop() {
				p := mustPlan(b, sources(test.ranks, test.perNode, test.bytes), plan.Settings{Layout: test.layout, StripeCount: test.stripes, P1: true, P2: true})
				sim := NewSim(s, Options{})
				jobs, err := sim.prepare([]Job{{Plan: p, Sync: true}})
				if err != nil {
					b.Fatal(err)
				}
				if err := sim.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
				r := sim.result(jobs)
				b.Logf("%.1f s simulated, %s", r.Jobs[0].Seconds, r.Jobs[0].Bottleneck)
				events = float64(sim.count)
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap = float64(m.HeapSys)
			}
			b.ReportMetric(events, "events")
			b.ReportMetric(heap/(1<<20), "MiB")
		})
	}
}
