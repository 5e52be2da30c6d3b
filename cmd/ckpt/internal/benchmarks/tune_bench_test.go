package benchmarks

import (
	"flag"
	"math/rand/v2"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

var (
	tuneDir = flag.String("tune.dir", "", "directory of BenchmarkTune")
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
			if joined(outcomes[i]).Latency < joined(outcomes[best]).Latency {
				best = i
			}
		}
		times := [3]float64{joined(outcomes[0]).Latency, joined(outcomes[1]).Latency, joined(outcomes[best]).Latency}
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
