package pfs

import (
	"fmt"
	"math"
	"testing"

	"ckpt/image/plan"
	"ckpt/internal/testkit"
)

// TestPlans carries out plans of every kind, and finds every byte written.
func TestPlans(t *testing.T) {
	const each = 12 << 20
	every := 5 // each switch is on and off
	if testkit.Nightly() {
		every = 1
	}
	presets := Presets()
	for _, layout := range []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared} {
		for _, strategy := range []plan.Strategy{plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual} {
			for switches := 0; switches < 16; switches += every {
				set := plan.Settings{Layout: layout, Strategy: strategy, StripeCount: 4, Buffer: 4 << 20}
				set.P1, set.P2, set.P3, set.P4 = switches&8 != 0, switches&4 != 0, switches&2 != 0, switches&1 != 0
				p := mustPlan(t, sources(12, 3, each), set)
				for _, back := range []bool{false, true} {
					system := presets[0]
					presets = append(presets[1:], system) // each in turn
					name := fmt.Sprintf("%s %s %04b on %s, read %v", layout, strategy, switches, system, back)
					checkRun(t, name, mustRun(t, mustLoad(t, system), Job{Plan: p, Sync: true, Read: back, Depth: 2}), 12*each)
				}
			}
		}
	}
}

func checkRun(t *testing.T, name string, r *Result, bytes int64) {
	t.Helper()
	j := r.Jobs[0]
	if j.Bytes != bytes || !(j.Seconds > 0) || j.Bottleneck == "" || len(j.WritersPerTarget) == 0 {
		t.Fatalf("%s: %+v", name, j)
	}
	for _, phase := range []Phase{j.Phases.Create, j.Phases.Pack, j.Phases.Gather, j.Phases.LockWait, j.Phases.Write, j.Phases.Sync, j.Phases.Wait} {
		if phase.Mean < 0 || phase.Mean > phase.Max*1.000001 || phase.Max > j.Seconds*1.000001 {
			t.Errorf("%s: phase %+v of %v seconds", name, phase, j.Seconds)
		}
	}
	for _, u := range r.Use {
		if u.Share <= 0 || u.Share > 1.000001 {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// TestTurns has writers wait for each other: without P1 they take the time of all
// together.
func TestTurns(t *testing.T) {
	s := read(t, "")
	set := plan.Settings{Layout: plan.PerRank, P1: true, StripeCount: 1}
	p := mustPlan(t, sources(4, 1, 100<<20), set)
	near(t, "at the same time", mustRun(t, s, Job{Plan: p}).Jobs[0].Seconds, 1)
	set.P1 = false
	r := mustRun(t, s, Job{Plan: mustPlan(t, sources(4, 1, 100<<20), set)}).Jobs[0]
	near(t, "in turn", r.Seconds, 4)
	near(t, "wait of the last", r.Phases.Wait.Max, 3)
}

// TestPack packs on the processors of a node before anything is written.
func TestPack(t *testing.T) {
	s := read(t, "host: {processors: 2}")
	p := mustPlan(t, sources(4, 4, 100<<20), plan.Settings{Layout: plan.PerRank, P1: true, StripeCount: 1})
	r := mustRun(t, s, Job{Plan: p, Pack: func(int) float64 { return 3 }}).Jobs[0]
	near(t, "four ranks on two processors", r.Seconds, 3+3+1)
	if r.Bottleneck != "processor" {
		t.Errorf("bottleneck %s", r.Bottleneck)
	}
}

// TestJobs has two jobs meet on the same targets.
func TestJobs(t *testing.T) {
	s := read(t, "")
	p := mustPlan(t, sources(4, 1, 100<<20), plan.Settings{Layout: plan.PerRank, P1: true, StripeCount: 1})
	r := mustRun(t, s, Job{Plan: p}, Job{Plan: p, Start: 0.5})
	for i := range r.Jobs {
		// One of them may have the last chunk.
		if got := r.Jobs[i].Seconds; math.Abs(got-1.5) > 0.05 {
			t.Errorf("job %d: %v, want 1.5", i, got)
		}
	}
}

// TestGather pulls from one rank after the other, or from all.
func TestGather(t *testing.T) {
	s := read(t, "host: {gather: {rate: 104857600B/s, parallel: 209715200B/s, latency: 10ms, per_rank: 1ms}}")
	set := plan.Settings{Layout: plan.Shared, StripeCount: 4, Aggregators: 1, Buffer: 64 << 20, P1: true}
	// A round of 8 stripes of each of 4 ranks: 24 MiB come from others, then 32 MiB
	// go to 4 targets.
	all := sources(4, 1, 8<<20)
	p := mustPlan(t, all, set)
	near(t, "one by one", mustRun(t, s, Job{Plan: p}).Jobs[0].Seconds, 0.004+3*0.01+0.24+0.08)
	set.P2 = true
	p = mustPlan(t, all, set)
	near(t, "together", mustRun(t, s, Job{Plan: p}).Jobs[0].Seconds, 0.004+0.01+0.12+0.08)
}

// TestSync waits until the cache has drained.
func TestSync(t *testing.T) {
	s := read(t, "servers: {write_behind: true, cache: 1GiB}\nsync: 0.25\nmetadata: {rename: 0.125, sync_dir: 0.5}")
	p := mustPlan(t, sources(1, 1, 100<<20), plan.Settings{StripeCount: 1, P1: true})
	near(t, "without", mustRun(t, s, Job{Plan: p}).Jobs[0].Seconds, 0)
	near(t, "with", mustRun(t, s, Job{Plan: p, Sync: true}).Jobs[0].Seconds, 1+0.25+0.125+0.5)
}

// TestMetadata creates files one after the other.
func TestMetadata(t *testing.T) {
	s := read(t, "metadata: {creates: 10, opens: 100, latency: 1ms}")
	all := sources(16, 1, 1<<20)
	p := mustPlan(t, all, plan.Settings{StripeCount: 1, P1: true})
	near(t, "a file per rank", mustRun(t, s, Job{Plan: p}).Jobs[0].Phases.Create.Max, 1.601)
	p = mustPlan(t, all, plan.Settings{Layout: plan.Shared, StripeCount: 4, P1: true})
	near(t, "one file", mustRun(t, s, Job{Plan: p}).Jobs[0].Phases.Create.Max, 0.101+3*0.01+0.001)
}

// TestBottleneck has one part of the system after the other limit the rate.
func TestBottleneck(t *testing.T) {
	perRank, shared := plan.Settings{StripeCount: 1, P1: true}, plan.Settings{Layout: plan.Shared, StripeCount: 4, P1: true, P2: true}
	own := plan.Settings{Layout: plan.Shared, StripeCount: 1, Strategy: plan.Individual, P1: true}
	for want, test := range map[string]struct {
		more string
		set  plan.Settings
		pack float64
		sync bool
	}{
		"target":    {"", perRank, 0, false},
		"stream":    {"host: {stream: 10MB/s}", perRank, 0, false},
		"network":   {"host: {network: 20MB/s}", perRank, 0, false},
		"router":    {"routers: {count: 2, rate: 20MB/s}", perRank, 0, false},
		"server":    {"servers: {count: 2, rate: 20MB/s}", perRank, 0, false},
		"gather":    {"host: {gather: {rate: 10MB/s}}", shared, 0, false},
		"locks":     {"locks: {kind: extent-to-end, grant: 1ms, callback: 500ms}", own, 0, false},
		"metadata":  {"metadata: {creates: 1}", perRank, 0, false},
		"processor": {"", perRank, 10, false},
		"sync":      {"sync: 10", perRank, 0, true},
	} {
		p := mustPlan(t, sources(8, 2, 16<<20), test.set)
		j := Job{Plan: p, Sync: test.sync}
		if test.pack > 0 {
			j.Pack = func(int) float64 { return test.pack }
		}
		if r := mustRun(t, read(t, test.more), j); r.Jobs[0].Bottleneck != want {
			t.Errorf("%s, want %s: %+v", r.Jobs[0].Bottleneck, want, r)
		}
	}
}
