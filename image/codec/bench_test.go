package codec

import (
	"testing"

	"ckpt/zones"
)

// benchExtent is a common length of extents.
const benchExtent = 1 << 20

var benchSettings = []struct {
	name    string
	setting Setting
	opt     Options
}{
	{"none", UseNone, Options{}},
	{"s2", UseS2, Options{}},
	{"zstd", UseZstd, Options{}},
	{"gzip", UseGzip, Options{}},
	{"auto", UseAuto, Options{}},
	{"auto-100MBps", UseAuto, Options{Conditions: Conditions{Bandwidth: 100e6}}},
	{"auto-2GBps", UseAuto, Options{Conditions: Conditions{Bandwidth: 2e9}}},
	{"auto-100GBps", UseAuto, Options{Conditions: Conditions{Bandwidth: 100e9}}},
}

func benchmarkEncode(b *testing.B, raw []byte, elem zones.Elem) {
	for _, s := range benchSettings {
		b.Run(s.name, func(b *testing.B) {
			e := NewEncoder(s.setting, s.opt)
			b.SetBytes(int64(len(raw)))
			var stored int
			for b.Loop() {
				stored = len(e.Encode(raw, elem).Data)
			}
			b.ReportMetric(float64(len(raw))/float64(stored), "ratio")
		})
	}
}

func BenchmarkEncodeField(b *testing.B) { benchmarkEncode(b, heat(benchExtent), zones.Float64) }

// BenchmarkEncodeUntyped is the same field as a process that knows no types
// has it.
func BenchmarkEncodeUntyped(b *testing.B) { benchmarkEncode(b, heat(benchExtent), zones.Bytes) }

func BenchmarkEncodeNoise(b *testing.B) { benchmarkEncode(b, noise(benchExtent, 1), zones.Float64) }

func BenchmarkDecodeField(b *testing.B) {
	raw := heat(benchExtent)
	for _, s := range benchSettings[:4] {
		b.Run(s.name, func(b *testing.B) {
			x := NewEncoder(s.setting, s.opt).Encode(raw, zones.Float64)
			var dec Decoder
			dst := make([]byte, len(raw))
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if err := dec.Decode(dst, x.Data, x.ID, x.Filter); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFilterChoice is the part of encoding that chooses the filter.
func BenchmarkFilterChoice(b *testing.B) {
	raw := heat(benchExtent)
	for _, elem := range []zones.Elem{zones.Float64, zones.Bytes} {
		b.Run(elem.String(), func(b *testing.B) {
			e := NewEncoder(UseZstd, Options{})
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				e.filter(raw, elem, Zstd)
			}
		})
	}
}
