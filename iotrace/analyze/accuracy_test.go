package analyze

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ckpt/internal/testkit"
	"ckpt/iotrace/analyze/pattern"
	"ckpt/iotrace/iotracetest"
)

var accuracyTraces = flag.Int("traces", 0, "synthetic traces of each pattern that TestAccuracy classifies (default 150, at night 1000)")

// randomSpec draws a trace of a pattern, with noise of up to 15 %.
func randomSpec(p iotracetest.Pattern, seed uint64) iotracetest.Spec {
	r := rand.New(rand.NewPCG(seed, 77))
	s := iotracetest.Spec{Pattern: p, Seed: seed, Shared: r.IntN(2) == 0, Read: r.IntN(4) == 0, Variable: r.IntN(2) == 0,
		Ranks: 2 + r.IntN(7), Ops: 24 + r.IntN(300), Size: 1 << (9 + r.IntN(12)), Bursts: 1 + r.IntN(3),
		Every: time.Duration(r.IntN(20)) * time.Second, Noise: 0.15 * r.Float64()}
	if p == iotracetest.Mixed {
		s.Ops = 60 + r.IntN(300)
	}
	return s
}

// TestAccuracy classifies traces of each pattern with noise, 50 of each, at night 1000:
// access mode, spatial pattern to the last detail, sizes and number of bursts.
func TestAccuracy(t *testing.T) {
	traces := *accuracyTraces
	if traces == 0 {
		traces = 50
		if testkit.Nightly() {
			traces = 1000
		}
	}
	for _, p := range iotracetest.Patterns() {
		var access, spatial, detail, sizes, bursts int
		wrong := map[pattern.Detail]int{}
		for seed := range uint64(traces) {
			s := randomSpec(p, seed)
			tr := iotracetest.Generate(s)
			r := Analyze(tr, Options{})
			wantAccess, wantSizes := Independent, "uniform"
			if s.Shared {
				wantAccess = Shared
			}
			if s.Variable {
				wantSizes = "variable"
			}
			if r.Access == wantAccess {
				access++
			}
			if r.Spatial == pattern.Detail(p).Spatial() {
				spatial++
			}
			if r.Detail == pattern.Detail(p) {
				detail++
			} else if wrong[r.Detail]++; testing.Verbose() && wrong[r.Detail] <= 3 {
				fmt.Printf("%s as %s: %+v\n", p, r.Detail, s)
			}
			if r.Sizes.Kind == wantSizes {
				sizes++
			}
			if r.BurstsTotal == s.Bursts {
				bursts++
			}
		}
		pct := func(n int) float64 { return 100 * float64(n) / float64(traces) }
		t.Logf("%-16s access %.1f %%, spatial %.1f %%, detail %.1f %%, sizes %.1f %%, bursts %.1f %%", p, pct(access), pct(spatial), pct(detail), pct(sizes), pct(bursts))
		for what, n := range map[string]int{"access": access, "spatial": spatial, "detail": detail, "bursts": bursts} {
			if pct(n) < 98 {
				t.Errorf("%s: %s is right in %.1f %% of %d traces; wrong: %v", p, what, pct(n), traces, wrong)
			}
		}
	}
}
