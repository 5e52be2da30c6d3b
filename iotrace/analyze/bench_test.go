package analyze

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"ckpt/iotrace/iotracetest"
)

var benchEvents = flag.Int("events", 1_000_000, "events of the traces of BenchmarkAnalyze; the promise is about 10000000")

// BenchmarkAnalyze analyses a trace of each pattern, of 64 ranks that share a
// file or have their own.
func BenchmarkAnalyze(b *testing.B) {
	for _, p := range iotracetest.Patterns() {
		for _, access := range []string{"own", "shared"} {
			b.Run(string(p)+"/"+access, func(b *testing.B) {
				tr := iotracetest.Generate(iotracetest.Spec{Pattern: p, Shared: access == "shared", Ranks: 64, Ops: *benchEvents / 64 / 20, Bursts: 20,
					Every: 10 * time.Second, Size: 4096, Variable: p != iotracetest.StridedSimple, Noise: 0.05, Seed: 1})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				cpu := iotracetest.ProcessorTime()
				for b.Loop() {
					Analyze(tr, Options{})
				}
				cpu = iotracetest.ProcessorTime() - cpu
				runtime.ReadMemStats(&after)
				n := float64(len(tr.Events))
				// Of the processor, so that a busy machine does not show.
				b.ReportMetric(float64(cpu)/float64(b.N)/n, "cpu-ns/event")
				// At most so much beside the trace, if nothing were collected meanwhile.
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/n, "B/event")
				b.ReportMetric(n, "events")
			})
		}
	}
}
