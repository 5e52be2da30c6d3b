package tune_test

import (
	"testing"

	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// TestRestarts: a restart reads what a checkpoint stores, and unpacks all of the memory that was
// packed. Each rank does so faster than an aggregator for all, unless processors are many and the
// server of names is slow.
func TestRestarts(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.B.16", 4)
	sys.Codecs["zstd"] = pfs.CodecSpeed{Pack: 200e6, Unpack: 50e6, Ratio: 0.25}
	c.Whole, c.Codec, c.Incremental = false, "zstd", true
	c.Settings.Layout, c.Settings.Strategy, c.Settings.Aggregators = plan.Shared, plan.TwoPhase, 1
	places := func() (ranks, aggregators tune.Restart) {
		t.Helper()
		f := predict(t, sys, c)
		list, err := tune.Restarts(t.Context(), sys, c, &f)
		if err != nil || len(list) != 2 || list[0].Place != tune.AtRanks || list[1].Place != tune.AtAggregators {
			t.Fatal(list, err)
		}
		for _, r := range list {
			if s := r.Seconds; !(s.Low < s.Value && s.Value < s.High) {
				t.Errorf("%s: %+v", r.Place, s)
			}
		}
		return list[0], list[1]
	}
	ranks, aggregators := places()
	f := predict(t, sys, c)
	memory := float64(f.Bytes) / 0.25
	if want := memory / 50e6 / 8; !near(ranks.Seconds.Value, want, 0.15) || ranks.Bottleneck != "processor" {
		t.Errorf("8 processors unpack %g bytes in %g s, want %g; bottleneck %s", memory, ranks.Seconds.Value, want, ranks.Bottleneck)
	}
	if want := memory/50e6/2 + float64(f.Bytes)/400e6 + memory*3/4/1e9; !near(aggregators.Seconds.Value, want, 0.15) {
		t.Errorf("an aggregator reads, unpacks and sends in %g s, want %g", aggregators.Seconds.Value, want)
	}

	// One open in a second, and processors without end: the aggregator reads alone.
	sys.Metadata.Opens, sys.Codecs["zstd"] = 1, pfs.CodecSpeed{Pack: 200e6, Unpack: 1e15, Ratio: 0.25}
	if ranks, aggregators = places(); ranks.Seconds.Value < 16 || aggregators.Seconds.Value > ranks.Seconds.Value/2 {
		t.Errorf("16 opens of a second each: ranks %g s, one aggregator %g s", ranks.Seconds.Value, aggregators.Seconds.Value)
	}

	// Files of their own have no aggregators.
	c.Settings, c.Codec = plan.Defaults(), "none"
	f = predict(t, sys, c)
	if list, err := tune.Restarts(t.Context(), sys, c, &f); err != nil || len(list) != 1 || list[0].Seconds.Value < float64(f.Bytes)/400e6 {
		t.Errorf("files of their own: %+v, %v", list, err)
	}
}

// TestTargetsChosen: a forecast on the targets that were chosen is of as many disks, and their
// space counts alone.
func TestTargetsChosen(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.B.16", 4)
	all := predict(t, sys, c)
	c.Targets = []int{3, 1}
	if two := predict(t, sys, c); !near(two.Storage, 2*all.Storage, 0.15) || len(two.Job.WritersPerTarget) != 2 {
		t.Errorf("on two of four disks %g s, on all %g", two.Storage, all.Storage)
	}
	sys.Targets.Free = []pfs.Bytes{1, 1 << 40, 1, 1 << 40}
	predict(t, sys, c)
	c.Targets = []int{0, 1}
	if _, err := tune.Predict(t.Context(), sys, c); err == nil {
		t.Error("a full target is taken")
	}
}
