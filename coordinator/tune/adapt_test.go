package tune_test

import (
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

func next(t *testing.T, a *tune.Adapter, m tune.Taken) *tune.Change {
	t.Helper()
	change, err := a.Next(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

// A checkpoint that takes the time of its forecast changes nothing.
func TestAdapterKeepsAWay(t *testing.T) {
	c := caseOf(t, "bt.A.16", 4)
	c.Whole, c.Codec = false, "none"
	f := predict(t, system(), c)
	a := tune.NewAdapter(system(), c, tune.Latency, tune.Between)
	for _, seconds := range []float64{f.Latency.Value, 1.1 * f.Latency.Value, 0.9 * f.Latency.Value} {
		if change := next(t, a, tune.Taken{Full: true, Bytes: f.Bytes, Seconds: seconds, Pause: seconds}); change != nil {
			t.Errorf("%g s were forecast, %g s measured: %+v", f.Latency.Value, seconds, change)
		}
	}
}

// A storage that is much faster than its description makes a slow codec useless, and one
// that is much slower makes it useful.
func TestAdapterChangesTheCodec(t *testing.T) {
	for _, x := range []struct {
		codec, want string
		factor      float64
	}{{"gzip", "none s2 zstd", 0.2}, {"none", "gzip zstd s2", 20}} {
		sys, c := system(), caseOf(t, "bt.A.16", 4)
		c.Whole, c.Codec = false, x.codec
		if x.codec == "gzip" {
			sys.Targets.Rate = 5e6 // as the description has it
		}
		f := predict(t, sys, c)
		a := tune.NewAdapter(sys, c, tune.Latency, tune.Space{Codec: true})
		change := next(t, a, tune.Taken{Full: true, Bytes: f.Bytes, Seconds: x.factor * f.Latency.Value, Pause: x.factor * f.Latency.Value})
		if change == nil || !strings.Contains(x.want, change.Codec) || change.Settings != c.Settings {
			t.Fatalf("%s takes %g of its forecast: %+v", x.codec, x.factor, change)
		}
		if !strings.Contains(change.Why, "a checkpoint took") || change.Forecast <= 0 {
			t.Errorf("%+v", change)
		}
	}
}

// Bytes that differ from those expected are no sign of another storage.
func TestAdapterKnowsBytes(t *testing.T) {
	c := caseOf(t, "bt.A.16", 4)
	c.Whole = false
	f := predict(t, system(), c)
	a := tune.NewAdapter(system(), c, tune.Latency, tune.Between)
	tenth := f.Latency.Value - 0.9*f.Storage
	if change := next(t, a, tune.Taken{Full: true, Bytes: f.Bytes / 10, Seconds: tenth, Pause: tenth}); change != nil {
		t.Errorf("a tenth of the bytes in %g s, all in %g: %+v", tenth, f.Latency.Value, change)
	}
}

// A way that was measured to be worse is not gone back to, whatever is forecast of it.
func TestAdapterRemembers(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.A.16", 4)
	c.Whole, c.Codec, c.Incremental = false, "none", true
	a := tune.NewAdapter(sys, c, tune.Latency, tune.Space{Codec: true})
	seen := map[string]bool{"none": true}
	slow := 1000.0
	for range 8 {
		change := next(t, a, tune.Taken{Bytes: 100 << 20, Seconds: slow, Pause: slow})
		if change == nil {
			continue
		}
		if seen[change.Codec] {
			t.Fatalf("%s was tried before, in vain", change.Codec)
		}
		seen[change.Codec] = true
		slow *= 3
	}
	if len(seen) < 2 {
		t.Error("nothing was tried")
	}
}

func TestScaled(t *testing.T) {
	for _, bottleneck := range []string{"target", "processor", "gather", "metadata"} {
		c := caseOf(t, "bt.A.16", 4)
		c.Whole, c.Codec = false, "zstd"
		sys := system()
		sys.Host.Gather = pfs.Gather{Rate: 50e6, Parallel: 100e6}
		switch bottleneck {
		case "processor":
			sys.Codecs["zstd"] = pfs.CodecSpeed{Pack: 1e6, Ratio: 0.25}
		case "gather":
			c.Settings.Layout, c.Settings.Aggregators, c.Codec = plan.Aggregated, 1, "none"
			sys.Host.Gather.Parallel = 1e6
		case "metadata":
			sys.Metadata.Creates = 0.1
		case "target":
			sys.Targets.Rate = 1e6
		}
		was := predict(t, sys, c)
		if was.Bottleneck != bottleneck {
			t.Errorf("the bottleneck is %s, want %s", was.Bottleneck, bottleneck)
		}
		is := predict(t, tune.Scaled(sys, bottleneck, 3), c)
		if !near(is.Storage, 3*was.Storage, 0.15) {
			t.Errorf("%s three times slower: %g s, before %g", bottleneck, is.Storage, was.Storage)
		}
		if err := tune.Scaled(sys, bottleneck, 3).Check(); err != nil {
			t.Error(err)
		}
	}
}

// The first checkpoint of a program tells its memory: then a way is looked for, once for full
// checkpoints and once for those that follow, though each took the time of its forecast.
func TestAdapterLearnsMemory(t *testing.T) {
	c := tune.Case{Mapping: job.Mapping{4}, Settings: plan.Defaults(), Codec: "none", Incremental: true}
	c.Settings.Layout, c.Settings.Strategy = plan.Shared, plan.Dynamic
	a := tune.NewAdapter(system(), c, tune.Latency, tune.Space{Layout: true, Aggregators: true, Buffer: true})
	changes := 0
	for _, full := range []bool{true, false, false} {
		m := &tune.PlannedMemory{Regions: []string{"memory"}}
		for rank := range 4 {
			m.Sources = append(m.Sources, plan.Source{Rank: rank, Pieces: []plan.Piece{{Bytes: 64 << 20, Align: true}}})
		}
		c.Memory = m
		f := predict(t, system(), c)
		change := next(t, a, tune.Taken{Full: full, Bytes: f.Bytes, Seconds: f.Latency.Value, Pause: f.Pause.Value, Memory: m})
		if change == nil {
			continue
		}
		if changes++; change.Settings.Layout == plan.Shared && change.Settings.Strategy == plan.Dynamic {
			t.Errorf("changed to %+v", change.Settings)
		}
		c.Settings = change.Settings
	}
	if changes != 1 {
		t.Errorf("%d changes, want 1 after the first checkpoint", changes)
	}
}
