package analyze

import (
	"math"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
	"ckpt/iotrace/iotracetest"
)

func builtin(t testing.TB, name string, p iotracetest.Params) *Report {
	t.Helper()
	tr := iotracetest.Builtin(name, p)
	return Analyze(tr, Options{})
}

// TestDMTCP: independent, sequential, irregular sizes, two bursts, the first of
// 44 writes and 8192 bytes (León, Figures 3.14-3.17 and 5.14, Table 2.6).
func TestDMTCP(t *testing.T) {
	for _, p := range []iotracetest.Params{{}, {Ranks: 16, Class: "C", Seed: 3}, {Ranks: 64, Class: "D", Seed: 9}} {
		r := builtin(t, "dmtcp", p)
		if r.Access != Independent || r.Spatial != pattern.SequentialAccess || r.Detail != pattern.Contiguous || r.Sizes.Kind != "variable" {
			t.Errorf("%+v: %s, %s, %s, sizes %s", p, r.Access, r.Spatial, r.Detail, r.Sizes.Kind)
		}
		for _, f := range r.Files {
			if f.Access != Independent || f.Spatial != pattern.SequentialAccess || f.Sizes.Kind != "variable" || f.Ranks != 1 || f.Reads != 0 {
				t.Errorf("%+v: %s: %s, %s, sizes %s", p, f.Name, f.Access, f.Spatial, f.Sizes.Kind)
			}
			if len(f.Bursts) != 2 {
				t.Fatalf("%+v: %s: %d bursts", p, f.Name, len(f.Bursts))
			}
			if b := f.Bursts[0]; b.Op != "write" || b.Count != 44 || b.Bytes != 8192 || b.Kind != "metadata" {
				t.Errorf("first burst %+v", b)
			}
			if b := f.Bursts[1]; b.Op != "write" || b.Count != 163 || b.Kind != "data" || b.Sizes != "variable" {
				t.Errorf("second burst %+v", b)
			}
			if f.CommonSizes[0].Size != 4096 {
				t.Errorf("commonest size %d", f.CommonSizes[0].Size)
			}
		}
	}
	// BT.B.4: 155.12 MiB in the second burst (Figure 5.14).
	if b := builtin(t, "dmtcp", iotracetest.Params{}).Files[0].Bursts[1]; math.Abs(float64(b.Bytes)/(1<<20)-155.12) > 0.005 {
		t.Errorf("second burst of BT.B.4: %.3f MiB", float64(b.Bytes)/(1<<20))
	}
}

// TestMiniGhost: shared, all ranks strided at first, then large regular writes of
// the aggregators only, and reads (León, Figures 4.8-4.10, Table 4.8).
func TestMiniGhost(t *testing.T) {
	for _, p := range []iotracetest.Params{{}, {Ranks: 16}, {Ranks: 16, Class: "C", Aggregators: 4}, {Ranks: 64, Class: "C", Aggregators: 2, Buffer: 4 << 20}} {
		r := builtin(t, "minighost", p)
		f := r.Files[0]
		if len(r.Files) != 1 || f.Access != Shared || f.Spatial != pattern.StridedAccess || f.Ranks != len(ranksOf(p)) {
			t.Errorf("%+v: %s, %s, %d ranks", p, f.Access, f.Spatial, f.Ranks)
		}
		if len(f.Bursts) != 3 {
			t.Fatalf("%+v: %d bursts", p, len(f.Bursts))
		}
		header, data, read := f.Bursts[0], f.Bursts[1], f.Bursts[2]
		if header.Kind != "metadata" || header.Detail != pattern.StridedSimple || header.Ranks != f.Ranks {
			t.Errorf("%+v: header %+v", p, header)
		}
		if data.Kind != "data" || data.Op != "write" || data.Spatial != pattern.StridedAccess || data.Sizes != "uniform" || data.Ranks != max(2, p.Aggregators) {
			t.Errorf("%+v: data %+v", p, data)
		}
		if read.Op != "read" || read.Bytes*5 != data.Bytes {
			t.Errorf("%+v: read %+v", p, read)
		}
	}
	// Four ranks: 152.59 MiB, 76.29 of each of two aggregators (Figure 4.10).
	if f := builtin(t, "minighost", iotracetest.Params{}).Files[0]; math.Abs(float64(f.BytesWritten)/(1<<20)-152.59) > 0.005 {
		t.Errorf("file of four ranks: %.3f MiB", float64(f.BytesWritten)/(1<<20))
	}
}

func ranksOf(p iotracetest.Params) []int { return make([]int, max(4, p.Ranks)) }

// TestDeepLearning: independent, one file for each epoch, by rank 0, strided with
// backward seeks, irregular.
func TestDeepLearning(t *testing.T) {
	for _, p := range []iotracetest.Params{{}, {Ranks: 1, Class: "A"}, {Ranks: 8, Class: "D"}} {
		r := builtin(t, "deeplearning", p)
		if len(r.Files) != 3 || r.Access != Independent || r.Spatial != pattern.StridedAccess || r.ActiveRanks != 1 {
			t.Errorf("%+v: %d files, %s, %s, %d active ranks", p, len(r.Files), r.Access, r.Spatial, r.ActiveRanks)
		}
		for _, f := range r.Files {
			if f.Access != Independent || f.Detail != pattern.StridedVariable || f.Sizes.Kind != "variable" || f.Offsets.Backward < 0.2 {
				t.Errorf("%+v: %s: %s, %s, sizes %s, %.2f backward", p, f.Name, f.Access, f.Detail, f.Sizes.Kind, f.Offsets.Backward)
			}
		}
		if r.Repetition == nil || r.Repetition.Times != 3 || r.Repetition.Deviation > 0.05 {
			t.Errorf("%+v: epochs: %+v", p, r.Repetition)
		}
	}
}

// TestBTIO is what the application does in Figure 3.5: 40 times ten writes of 16
// MiB and one of 2.18 MiB.
func TestBTIO(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{}}, Files: []string{"btio.full.out"}}
	var off, now int64
	write := func(size int64) {
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Offset: off, Bytes: size, Start: now, End: now + size})
		off += size
		now += size + 1000
	}
	const last = 2285896 // 2.18 MiB
	for range 40 {
		for range 10 {
			write(16 << 20)
		}
		write(last)
		now += 5e9
	}
	r := Analyze(tr, Options{})
	f := r.Files[0]
	if f.Writes != 440 || f.BurstsTotal != 40 || f.Bursts[7].Count != 11 || f.Spatial != pattern.SequentialAccess {
		t.Errorf("%d writes, %d bursts of %d, %s", f.Writes, f.BurstsTotal, f.Bursts[7].Count, f.Spatial)
	}
	if p := f.Repetition; p == nil || p.Bursts != 1 || p.Times != 40 {
		t.Errorf("repetition %+v", p)
	}
	want := []iotrace.SizeCount{{Size: 16 << 20, Count: 400}, {Size: last, Count: 40}}
	if len(f.CommonSizes) != 2 || f.CommonSizes[0] != want[0] || f.CommonSizes[1] != want[1] {
		t.Errorf("sizes %v", f.CommonSizes)
	}
	if every := 5 + 0.170; !r.Period.Periodic || math.Abs(r.Period.Period-every) > 0.1*every {
		t.Errorf("period %+v", r.Period)
	}
	if p := r.Pattern.String(); p != "btio.full.out (1): rank 0 (1)\n  40×[write 10×16777216 @0, 1×2285896]+170058056\n" {
		t.Errorf("pattern %s", p)
	}
}

// TestTables2 computes the percentages of León's Tables 2.5 and 2.6.
func TestTables2(t *testing.T) {
	for _, c := range [][3]float64{ // a, b, as printed
		// Table 2.5, PIOM against Darshan; SP without the two rows whose numbers of
		// writes are misprints.
		{209, 216, 3.24}, {155.14, 156.59, 0.93}, {154.56, 156.00, 0.92}, {139.55, 141.02, 1.05}, {138.99, 140.43, 1.02},
		{219, 225, 2.67}, {93.16, 95.57, 2.52}, {217, 224, 3.13}, {93.16, 94.68, 1.60},
		// Table 2.6, PIOM against strace.
		{209, 199, 5.03}, {155.14, 154.48, 0.43}, {209, 201, 3.98}, {154.56, 154.49, 0.05}, {215, 217, 0.92}, {139.55, 138.98, 0.41},
		{221, 217, 1.84}, {138.99, 138.98, 0.01}, {219, 211, 3.79}, {93.23, 93.16, 0.07}, {217, 210, 3.33}, {93.23, 93.15, 0.08},
	} {
		if got := number("x", c[0], c[1]).Relative; got == nil || math.Abs(100*math.Abs(*got)-c[2]) > 0.0101 {
			t.Errorf("%v against %v: %v, printed %v", c[0], c[1], *got, c[2])
		}
	}
}
