package plan_test

import (
	"testing"

	"ckpt/image/plan"
)

// large is a job of 4096 ranks, 8 on a node, with 10 pieces of 4 to 13 MiB each:
// 340 GiB.
func large() []plan.Source {
	sources := make([]plan.Source, 4096)
	for i := range sources {
		s := &sources[i]
		s.Rank, s.Node = i, i/8
		for j := range 10 {
			s.Pieces = append(s.Pieces, plan.Piece{Key: j, Bytes: int64(4+j)<<20 + int64(i%7)*plan.PageSize, Align: true})
		}
	}
	return sources
}

var benchmarks = []struct {
	name     string
	settings plan.Settings
}{
	{"per-rank", plan.Settings{}},
	{"aggregated", plan.Settings{Layout: plan.Aggregated}},
	{"shared", plan.Settings{Layout: plan.Shared}},
	{"shared-P4", plan.Settings{Layout: plan.Shared, P4: true}},
	{"shared-512-OSTs", plan.Settings{Layout: plan.Shared, StripeCount: 512}},
	{"static", plan.Settings{Layout: plan.Shared, Strategy: plan.Static}},
}

// BenchmarkNew is what every rank does once per checkpoint.
func BenchmarkNew(b *testing.B) {
	sources := large()
	for _, bench := range benchmarks {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustPlan(b, sources, bench.settings)
			}
		})
	}
}

// BenchmarkWriterPlan is the part of one writer.
func BenchmarkWriterPlan(b *testing.B) {
	sources := large()
	for _, bench := range benchmarks {
		b.Run(bench.name, func(b *testing.B) {
			p := mustPlan(b, sources, bench.settings)
			rank := p.Writers[len(p.Writers)/2].Rank
			rounds := 0
			b.ReportAllocs()
			for b.Loop() {
				rounds = 0
				for range p.WriterPlan(rank) {
					rounds++
				}
			}
			b.ReportMetric(float64(rounds), "rounds")
		})
	}
}

// BenchmarkSummary goes through the parts of all writers.
func BenchmarkSummary(b *testing.B) {
	sources := large()
	for _, bench := range benchmarks {
		b.Run(bench.name, func(b *testing.B) {
			p := mustPlan(b, sources, bench.settings)
			var s plan.Summary
			b.ReportAllocs()
			for b.Loop() {
				s = p.Summary()
			}
			b.ReportMetric(float64(len(s.Writers)), "writers")
			b.ReportMetric(float64(s.Writes), "writes")
		})
	}
}
