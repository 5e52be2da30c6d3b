package tune_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/internal/durable"
)

func search(t *testing.T, sys *pfs.System, c tune.Case, o tune.Objective) tune.Choice {
	t.Helper()
	choice, err := tune.Search(t.Context(), sys, c, o)
	if err != nil {
		t.Fatal(err)
	}
	return choice
}

func TestSearchNeverWorse(t *testing.T) {
	for _, app := range []string{"bt.W.4", "cg.W.8"} {
		for _, o := range []tune.Objective{tune.Pause, tune.Latency, tune.Bytes} {
			c := caseOf(t, app, 2)
			c.Whole = false
			choice := search(t, system(), c, o)
			was, is := value(o, &choice.Default.Forecast), value(o, &choice.Best.Forecast)
			if is > was || choice.Gain < 1 {
				t.Errorf("%s by %s: the best takes %g, the default %g, gain %g", app, o, is, was, choice.Gain)
			}
			for _, x := range choice.Ranking {
				if v := value(o, &x.Forecast); v < is*0.94 && choice.Gain > 1 || x.Why == "" {
					t.Errorf("%s by %s: %+v takes %g, the best %g; why %q", app, o, x.Settings, v, is, x.Why)
				}
			}
		}
	}
}

func value(o tune.Objective, f *tune.Forecast) float64 {
	switch o {
	case tune.Latency:
		return f.Latency.Value
	case tune.Bytes:
		return float64(f.Bytes)
	}
	return f.Pause.Value
}

func TestSearchObjectives(t *testing.T) {
	c := caseOf(t, "bt.W.16", 4)
	c.Whole = false
	if choice := search(t, system(), c, tune.Bytes); choice.Best.Codec != "gzip" {
		t.Errorf("the fewest bytes with %s, gzip leaves a fifth", choice.Best.Codec)
	}
	if choice := search(t, system(), c, tune.Pause); !choice.Best.Async {
		t.Errorf("the shortest pause without async: %+v", choice.Best)
	}
	fast := system()
	fast.Targets.Rate, fast.Host.Processors = 1e12, 1
	if choice := search(t, fast, c, tune.Latency); choice.Best.Codec != "none" {
		t.Errorf("codec %s on a storage that is faster than any", choice.Best.Codec)
	}
}

// TestSearchFull: a target that is too full for the default has the search choose what fits, and
// refuses where nothing does.
func TestSearchFull(t *testing.T) {
	c, sys := caseOf(t, "bt.W.16", 4), system()
	c.Settings.Layout, c.Settings.StripeCount = plan.Shared, 1
	all, err := tune.Predict(t.Context(), sys, c)
	if err != nil {
		t.Fatal(err)
	}
	if all.Job.MostOnTarget != all.Job.Bytes {
		t.Fatalf("%d bytes on the only target of %d", all.Job.MostOnTarget, all.Job.Bytes)
	}
	sys.Targets.Free = make([]pfs.Bytes, sys.Targets.Count)
	for i := range sys.Targets.Free {
		sys.Targets.Free[i] = pfs.Bytes(all.Job.Bytes) * 10
	}
	sys.Targets.Free[1] = pfs.Bytes(all.Job.Bytes) * 9 / 10
	if _, err := tune.Predict(t.Context(), sys, c); !errors.Is(err, durable.ErrStorageFull) || !strings.Contains(err.Error(), "target 1 of") {
		t.Errorf("%v", err)
	}
	choice := search(t, sys, c, tune.Latency)
	if choice.Default.Forecast.Full() == nil || choice.Best.Forecast.Full() != nil || choice.Best.Forecast.Job.MostOnTarget > int64(sys.Targets.Free[1]) {
		t.Errorf("the default lacks %v, the best %v", choice.Default.Forecast.Full(), choice.Best.Forecast.Full())
	}
	sys.Targets.Free = []pfs.Bytes{0}
	if _, err := tune.Search(t.Context(), sys, c, tune.Latency); !errors.Is(err, durable.ErrStorageFull) {
		t.Errorf("%v", err)
	}
}

func TestSearchLimit(t *testing.T) {
	c := caseOf(t, "bt.W.16", 4)
	c.Limit = 65 << 20 // the buffers of four writers, and no copies beside them
	choice := search(t, system(), c, tune.Pause)
	for _, o := range choice.Ranking {
		if o.Forecast.Buffers > c.Limit {
			t.Errorf("%+v, async %t, takes %d bytes of a node", o.Settings, o.Async, o.Forecast.Buffers)
		}
	}
	c.Limit = 1
	if _, err := tune.Search(t.Context(), system(), c, tune.Pause); err == nil {
		t.Error("a limit of one byte was kept")
	}
}

func TestSearchIsDeterministic(t *testing.T) {
	c := caseOf(t, "cg.W.8", 4)
	c.Whole = false
	a, b := search(t, system(), c, tune.Latency), search(t, system(), c, tune.Latency)
	if !reflect.DeepEqual(a, b) {
		t.Error("two searches differ")
	}
}

func TestSearchIn(t *testing.T) {
	c := caseOf(t, "bt.W.16", 4)
	choice, err := tune.SearchIn(t.Context(), system(), c, tune.Bytes, tune.Space{Codec: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range choice.Ranking {
		if o.Settings != c.Settings || o.Async {
			t.Errorf("a search for a codec tried %+v, async %t", o.Settings, o.Async)
		}
	}
}
