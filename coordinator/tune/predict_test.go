package tune_test

import (
	"math"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// system is a storage of four disks of 100 MB/s for hosts of two processors.
func system() *pfs.System {
	return &pfs.System{Name: "test", RPC: 1 << 20, InFlight: 8,
		Host:     pfs.Host{Processors: 2, Copy: 1e9, Network: 1e9},
		Servers:  pfs.Servers{Count: 4},
		Targets:  pfs.Targets{Count: 4, Rate: 100e6, ReadRate: 100e6, Stragglers: pfs.Stragglers{Factor: 1}},
		Metadata: pfs.Metadata{Creates: 1000},
		Locks:    pfs.Locks{Kind: pfs.NoLocks},
		Service: pfs.Service{Coordination: pfs.Cost{Base: 0.01, PerRank: 0.001},
			Management: pfs.Cost{Base: 0.02, PerFile: 0.002}},
		Codecs: map[string]pfs.CodecSpeed{"none": {Pack: 1e12}, "s2": {Pack: 1e9, Ratio: 0.5}, "zstd": {Pack: 200e6, Ratio: 0.25}, "gzip": {Pack: 50e6, Ratio: 0.2}},
		Misfit: pfs.Misfit{Scatter: 0.1, Count: 10}}
}

func caseOf(t *testing.T, app string, nodes int) tune.Case {
	t.Helper()
	inst, err := dataset.ParseApp(app, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := job.EvenMapping(inst.NP, nodes)
	if err != nil {
		t.Fatal(err)
	}
	s := plan.Defaults()
	s.StripeCount = 4
	return tune.Case{Instance: inst, Mapping: m, MPI: "mpich", Settings: s, Codec: "none", Whole: true}
}

func predict(t *testing.T, sys *pfs.System, c tune.Case) tune.Forecast {
	t.Helper()
	f, err := tune.Predict(t.Context(), sys, c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// near reports whether two numbers differ by at most a share.
func near(a, b, share float64) bool { return math.Abs(a-b) <= share*math.Abs(b) }

func TestPredictAddsUp(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.B.16", 4)
	f := predict(t, sys, c)
	if want := 0.01 + 16*0.001; !near(f.Coordination, want, 1e-9) {
		t.Errorf("coordination %g, want %g", f.Coordination, want)
	}
	if want := 0.02 + 16*0.002; !near(f.Management, want, 1e-9) {
		t.Errorf("management %g, want %g", f.Management, want)
	}
	if sum := f.Coordination + f.Management + f.Storage; !near(f.Latency.Value, sum, 1e-9) || f.Pause != f.Latency {
		t.Errorf("latency %+v, pause %+v, the parts add up to %g", f.Latency, f.Pause, sum)
	}
	if least := float64(f.Bytes) / 400e6; f.Storage < least {
		t.Errorf("%d bytes are stored in %g s, four disks need %g", f.Bytes, f.Storage, least)
	}
	if f.Files != 16 || !(f.Latency.Low < f.Latency.Value && f.Latency.Value < f.Latency.High) {
		t.Errorf("%d files, latency %+v", f.Files, f.Latency)
	}
}

// A forecast of the whole memory is of the plan that ckpt layout shows.
func TestPredictStoresThePlan(t *testing.T) {
	c := caseOf(t, "bt.A.4", 2)
	m, err := tune.PlanMemory(c.Instance, c.Mapping, c.MPI)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(m.Sources, c.Settings)
	if err != nil {
		t.Fatal(err)
	}
	if f, want := predict(t, system(), c), p.Summary().Bytes; f.Bytes != want {
		t.Errorf("%d bytes, the plan writes %d", f.Bytes, want)
	}
}

// Nodes share the storage: twice the nodes with as much each do not write in the same time.
func TestPredictSharedStorage(t *testing.T) {
	sys := system()
	one := predict(t, sys, caseOf(t, "bt.C.16", 1))
	four := predict(t, sys, caseOf(t, "bt.C.16", 4))
	if four.Storage < one.Storage/2 {
		t.Errorf("4 nodes store in %g s, 1 in %g: they share the disks", four.Storage, one.Storage)
	}
}

func TestPredictCodecAndContent(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.B.16", 4)
	c.Whole = false
	raw := predict(t, sys, c)
	c.Codec = "s2"
	packed := predict(t, sys, c)
	if share := float64(packed.Bytes) / float64(raw.Bytes); !near(share, 0.5, 0.02) {
		t.Errorf("s2 stores %g of the bytes, the description says 0.5", share)
	}
	if packed.Storage >= raw.Storage || packed.Packing <= raw.Packing {
		t.Errorf("s2 takes %+v, raw %+v", packed.Storage, raw.Storage)
	}
	c.Following = true
	if next := predict(t, sys, c); next.Bytes >= packed.Bytes {
		t.Errorf("a following checkpoint stores %d bytes, a full one %d", next.Bytes, packed.Bytes)
	}
	c.Content = func(region, codec string) tune.Content { return tune.Content{Written: 0.5, Ratio: 0.5} }
	if quarter := predict(t, sys, c); !near(float64(quarter.Bytes), 0.25*float64(raw.Bytes), 0.15) {
		t.Errorf("a half of the half of %d bytes is %d", raw.Bytes, quarter.Bytes)
	}
}

// Ranks of a host share its processors, and with OneHost all ranks do.
func TestPredictSharedProcessors(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.B.16", 4)
	c.Whole, c.Codec = false, "gzip"
	apart := predict(t, sys, c)
	sys.Host.OneHost = true
	if together := predict(t, sys, c); !near(together.Packing, 4*apart.Packing, 0.05) {
		t.Errorf("one host packs in %g s, four in %g", together.Packing, apart.Packing)
	}
	if apart.Bottleneck != "processor" {
		t.Errorf("gzip waits for %s", apart.Bottleneck)
	}
}

func TestPredictAsync(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.B.16", 4)
	c.Async = true
	f := predict(t, sys, c)
	if want := f.Coordination + float64(f.Bytes)/4/2/1e9; !near(f.Pause.Value, want, 0.01) {
		t.Errorf("pause %g, want the copy of a host, %g", f.Pause.Value, want)
	}
	if f.Pause.Value >= f.Latency.Value {
		t.Errorf("pause %g, latency %g", f.Pause.Value, f.Latency.Value)
	}
}

// The library of a first checkpoint is stored beside it, on the same disks.
func TestPredictLibrary(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.S.4", 1)
	without := predict(t, sys, c)
	c.Library = 400 << 20
	with := predict(t, sys, c)
	if with.Bytes != without.Bytes+400<<20 || with.Storage < 2*without.Storage {
		t.Errorf("with a library of 400 MiB %d bytes in %g s, without %d in %g", with.Bytes, with.Storage, without.Bytes, without.Storage)
	}
}

// The interval holds the misfit of the description.
func TestPredictInterval(t *testing.T) {
	width := func(m pfs.Misfit, doubt float64) float64 {
		sys, c := system(), caseOf(t, "bt.S.4", 1)
		sys.Misfit, c.Doubt = m, doubt
		f := predict(t, sys, c)
		return f.Latency.High / f.Latency.Value
	}
	good, poor, unknown := width(pfs.Misfit{Scatter: 0.05, Count: 40}, 0), width(pfs.Misfit{Scatter: 0.4, Count: 40}, 0), width(pfs.Misfit{}, 0)
	if !(good < unknown && unknown < poor*1.5 && good < poor) {
		t.Errorf("widths %g, %g and unknown %g", good, poor, unknown)
	}
	if doubtful := width(pfs.Misfit{Scatter: 0.05, Count: 40}, 0.3); doubtful <= good {
		t.Errorf("with a doubt about the bytes the width is %g, without %g", doubtful, good)
	}
	seen, beyond := width(pfs.Misfit{Scatter: 0.05, Count: 40, Writers: 4}, 0), width(pfs.Misfit{Scatter: 0.05, Count: 40, Writers: 1}, 0)
	if seen != good || beyond <= good {
		t.Errorf("4 writers: width %g where 4 were probed, %g where one was", seen, beyond)
	}
}

func TestPredictRefuses(t *testing.T) {
	c := caseOf(t, "bt.S.4", 1)
	c.Settings.Layout, c.Settings.Buffer = plan.Shared, 4096
	if _, err := tune.Predict(t.Context(), system(), c); err == nil {
		t.Error("a buffer below a stripe was taken")
	}
	c = caseOf(t, "bt.S.4", 1)
	c.Background = 1
	if _, err := tune.Predict(t.Context(), system(), c); err == nil {
		t.Error("a background of everything was taken")
	}
	if _, err := tune.Predict(t.Context(), system(), tune.Case{}); err == nil {
		t.Error("a case without an application was taken")
	}
}

// Another checkpointer has one write under way: where each waits for its answer, that takes
// longer.
func TestPredictOneStream(t *testing.T) {
	sys, c := system(), caseOf(t, "bt.B.4", 4)
	sys.Host.Latency = 0.05
	many := predict(t, sys, c)
	c.OneStream = true
	if one := predict(t, sys, c); one.Storage <= many.Storage {
		t.Errorf("one write at a time takes %g s, four %g", one.Storage, many.Storage)
	}
}
