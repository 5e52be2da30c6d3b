package pfs

import (
	"testing"

	"ckpt/image/plan"
)

// TestSlots: the requests that a host may have in flight bound its rate to slots · request /
// latency, whatever the storage could do. Few ranks never meet that limit.
func TestSlots(t *testing.T) {
	run := func(ranks int, more string) JobResult {
		s := read(t, "rpc: 1MiB\nin_flight: 8\nhost: {latency: 100ms, processors: 64"+more+"}\n")
		s.Targets.Count, s.Targets.Rate = 64, 1e12
		settings := plan.Defaults()
		settings.Buffer = 64 << 20
		p := mustPlan(t, sources(ranks, ranks, 64<<20), settings)
		return mustRun(t, s, Job{Plan: p, Depth: 8}).Jobs[0]
	}
	for _, ranks := range []int{2, 32} {
		free, bound := run(ranks, ""), run(ranks, ", in_flight: 64")
		want := 64 * float64(1<<20) / 0.1
		switch {
		case ranks == 2 && bound.Seconds != free.Seconds:
			t.Errorf("2 ranks: %g s, without the limit %g", bound.Seconds, free.Seconds)
		case ranks == 32 && (bound.Rate > want*1.01 || bound.Rate < want*0.7 || free.Rate < 2*want):
			t.Errorf("32 ranks: %g B/s, without the limit %g, want %g", bound.Rate, free.Rate, want)
		case ranks == 32 && bound.Bottleneck != "requests":
			t.Errorf("32 ranks: bottleneck %s", bound.Bottleneck)
		}
	}
}
