package benchmarks

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

var (
	tuneDir = flag.String("tune.dir", "", "directory of BenchmarkTune and BenchmarkForecast")
	tuneOn  = flag.String("tune.on", "", "its description, as ckpt bench storage writes it")
)

// BenchmarkTune draws short jobs, has the search of ckpt tune choose their settings with a
// description of a directory, and runs each there with the default, the choice and every
// combination of layout, codec and buffer, three times in turns:
//
//	go test -run '^$' -bench Tune -benchtime 12x ./cmd/ckpt/internal/benchmarks -tune.dir /scratch -tune.on /scratch.yaml
func BenchmarkTune(b *testing.B) {
	if *tuneDir == "" {
		b.Skip("no -tune.dir")
	}
	sys, err := pfs.Load(*tuneOn)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 20))
	r := &trials{g: &ui.Globals{}, dir: *tuneDir, most: 2 << 30}
	near, worse := 0.0, 0.0
	for range b.N {
		t := drawTrial(rng)
		t.Settings, t.Codec = plan.Defaults(), "none"
		search, err := t.forecast()
		if err != nil {
			b.Fatal(err)
		}
		space := tune.Space{Codec: true, Buffer: true, Aggregators: true, Layout: true}
		found, err := tune.SearchIn(b.Context(), sys, search, tune.Latency, space)
		if err != nil {
			b.Fatal(err)
		}
		choice := t
		choice.Settings, choice.Codec = found.Best.Settings, found.Best.Codec
		list := append([]trial{t, choice}, combinations(t)...)
		outcomes, err := runInTurns(b.Context(), r, list, rng)
		if err != nil {
			b.Fatal(err)
		}
		best := 0
		for i := range list {
			if outcomes[i].latency() < outcomes[best].latency() {
				best = i
			}
		}
		times := [3]float64{outcomes[0].latency(), outcomes[1].latency(), outcomes[best].latency()}
		b.Logf("%v: default %.1f ms; choice %v %.1f ms; best %v %.1f ms", t.row(), 1e3*times[0], choice.row(), 1e3*times[1], list[best].row(), 1e3*times[2])
		if times[1] <= 1.1*times[2] {
			near += 1 / float64(b.N)
		}
		if times[1] > times[0] && choice != t {
			worse++
		}
	}
	b.ReportMetric(near, "near-share")
	b.ReportMetric(worse, "worse-than-default")
}

// combinations are the settings of an exhaustive run.
func combinations(t trial) (list []trial) {
	for _, layout := range []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared} {
		for _, codec := range []string{"none", "s2", "zstd"} {
			for _, buffer := range []int64{4 << 20, 16 << 20} {
				x := t
				x.Settings.Layout, x.Settings.Buffer, x.Codec = layout, buffer, codec
				list = append(list, x)
			}
		}
	}
	return list
}

// BenchmarkForecast draws short jobs, runs them, and compares the latency of their checkpoints
// with what the description gives:
//
//	go test -run '^$' -bench Forecast -benchtime 40x ./cmd/ckpt/internal/benchmarks -tune.dir /scratch -tune.on /scratch.yaml
func BenchmarkForecast(b *testing.B) {
	if *tuneDir == "" {
		b.Skip("no -tune.dir")
	}
	sys, err := pfs.Load(*tuneOn)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 40))
	list := make([]trial, b.N)
	for i := range list {
		list[i] = drawTrial(rng)
	}
	outcomes, err := runInTurns(b.Context(), &trials{g: &ui.Globals{}, dir: *tuneDir, most: 2 << 30}, list, rng)
	if err != nil {
		b.Fatal(err)
	}
	var off []float64
	inside := 0.0
	for i := range list {
		c, err := list[i].forecast()
		if err != nil {
			b.Fatal(err)
		}
		f, err := tune.Predict(b.Context(), sys, c)
		if err != nil {
			b.Fatal(err)
		}
		measured, p := outcomes[i].latency(), f.Latency
		off = append(off, math.Abs(p.Value/measured-1))
		if measured >= p.Low && measured <= p.High {
			inside += 1 / float64(b.N)
		}
		b.Logf("%v: %.2f ms, predicted %.2f, 95 %% %.1f–%.1f", list[i].row(), 1e3*measured, 1e3*p.Value, 1e3*p.Low, 1e3*p.High)
	}
	b.ReportMetric(medianOf(off), "median-error")
	b.ReportMetric(inside, "inside-share")
}

// drawTrial draws a configuration: layout, ranks, nodes, buffer and codec.
func drawTrial(rng *rand.Rand) trial {
	pick := func(n ...int) int { return n[rng.IntN(len(n))] }
	s := plan.Defaults()
	s.Layout = []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared}[rng.IntN(3)]
	if s.Layout == plan.Shared && rng.IntN(3) == 0 {
		s.Strategy = plan.Individual
	}
	s.Buffer = int64(pick(4, 8, 16, 32)) << 20
	np := pick(2, 4, 8, 16)
	codec := []string{"none", "none", "s2", "zstd"}[rng.IntN(4)]
	app := packApp // how well other data pack, and how fast, no description of storage says
	if codec == "none" && rng.IntN(3) == 0 {
		app = "minighost.W"
	}
	return trial{App: app, NP: np, Nodes: min(np, pick(1, 2, 4)), Settings: s, Codec: codec}
}

// runInTurns runs trials in three rounds, each in an order of its own, so that a machine that
// gets slower or faster meets all alike.
func runInTurns(ctx context.Context, r *trials, list []trial, rng *rand.Rand) ([]outcome, error) {
	outcomes := make([]outcome, len(list))
	for range 3 {
		for _, i := range rng.Perm(len(list)) {
			o, err := r.run(ctx, &list[i], 5)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list[i].job(), err)
			}
			outcomes[i] = append(outcomes[i], o...)
		}
	}
	return outcomes, nil
}
