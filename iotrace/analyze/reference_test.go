package analyze

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

// sized makes requests one after the other; each takes so many ns.
func sized(n int, of func(k int) (size, took int64)) *iotrace.Trace {
	var events []iotrace.Event
	var off, at int64
	for k := range n {
		size, took := of(k)
		events = append(events, iotrace.Event{Op: iotrace.Write, Offset: off, Bytes: size, Start: at, End: at + took})
		off, at = off+size, at+took
	}
	return script(1, events...)
}

// TestFittedRate: small requests of different sizes tell the bandwidth, although none
// is large: what each takes beyond its bytes is its fixed cost.
func TestFittedRate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const each, rate = 300_000, 0.2 // ns per request; bytes per ns: 200 MB/s
	n := 4000
	tr := sized(n, func(int) (int64, int64) {
		size := 512 + r.Int64N(90_000)
		return size, int64((each + float64(size)/rate) * (0.7 + 0.6*r.Float64()))
	})
	f := found(Analyze(tr, Options{}), "CK01")
	if f == nil {
		t.Fatal("no CK01")
	}
	if want := float64(n) * each / 1e9; math.Abs(*f.Gain-want) > 0.1*want || f.Severity != finding.High {
		t.Errorf("gain %g s, want %g; %s", *f.Gain, want, f.Severity)
	}
	if !strings.Contains(f.Model, "sizes and times of these requests") || strings.Contains(f.Model, "assumed") {
		t.Errorf("model: %s", f.Model)
	}
}

// TestAssumedRate: with requests of one small size the bandwidth of large ones is
// unknown. The finding says so, and its severity does not rest on the assumption.
func TestAssumedRate(t *testing.T) {
	for _, c := range []struct {
		took     int64 // ns of a write of 64 KiB
		severity string
		gain     float64 // s, at 1 GB/s
	}{
		{6_500_000, finding.High, 128.689}, // 10 MB/s: any storage is faster
		{130_000, finding.Info, 1.289},     // 500 MB/s: twice as fast by assumption only
	} {
		f := found(Analyze(sized(20_000, func(int) (int64, int64) { return 64 << 10, c.took }), Options{}), "CK01")
		if f == nil || f.Severity != c.severity || !strings.Contains(f.Model, "assumed") || !strings.Contains(f.Model, "100 MB/s") ||
			math.Abs(*f.Gain-c.gain) > 0.001 || math.Abs(*f.GainShare-*f.Gain/(20_000*float64(c.took)/1e9)) > 1e-6 {
			t.Errorf("%d ns: %+v, gain %g", c.took, f, *f.Gain)
		}
	}
	// Large requests tell the bandwidth.
	f := found(Analyze(sized(20_000, func(k int) (int64, int64) {
		if k < 10 {
			return 4 << 20, 8_000_000
		}
		return 64 << 10, 6_500_000
	}), Options{}), "CK01")
	if f == nil || f.Severity != finding.High || strings.Contains(f.Model, "assumed") {
		t.Errorf("%+v", f)
	}
}

// TestCountedRate: counters have one time for the small and the large requests of a
// file. Only files of large ones tell the bandwidth.
func TestCountedRate(t *testing.T) {
	mixed := writes(iotrace.POSIX, 0, 0, 2000, 4096)
	mixed.Writes += 10
	mixed.BytesWritten += 40 << 20
	mixed.WriteSizes[binOf(4<<20)] = 10
	mixed.Common[1] = iotrace.SizeCount{Size: 4 << 20, Count: 10}
	f := found(Analyze(countersOf(1, mixed), Options{}), "CK01")
	if f == nil || !strings.Contains(f.Model, "assumed") {
		t.Errorf("%+v", f)
	}
	large := writes(iotrace.POSIX, 1, 0, 50, 4<<20)
	f = found(Analyze(countersOf(1, mixed, large), Options{}), "CK01")
	if f == nil || strings.Contains(f.Model, "assumed") || !strings.Contains(f.Model, "210 MB/s") {
		t.Errorf("%+v", f)
	}
}
