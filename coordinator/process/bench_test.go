package process

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

// BenchmarkBoundary is the cost of a boundary while nothing is due.
func BenchmarkBoundary(b *testing.B) {
	pr := startProgram(b, plainProgram(b))
	p := pr.connect()
	p.SetLimit(1 << 62)
	b.ResetTimer()
	pr.tell("boundaries x %d", 1000*b.N)
	pr.expect(strconv.Itoa(1000 * b.N))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(1000*b.N), "ns/boundary")
}

// BenchmarkCapture is the pause of a checkpoint that is written behind the computation,
// next to a plain copy of the same bytes in the program.
func BenchmarkCapture(b *testing.B) {
	const size = 128 << 20
	for _, stride := range []int{1, 100} {
		for _, kind := range []string{"map", "heap"} {
			for _, huge := range []int{0, 1} {
				if kind == "heap" && huge == 1 {
					continue
				}
				b.Run(fmt.Sprintf("%s-%d/dirty-1-of-%d", kind, huge, stride), func(b *testing.B) {
					captureOf(b, kind, huge, size, stride)
				})
			}
		}
	}
}

func captureOf(b *testing.B, kind string, huge, size, stride int) {
	pr := startProgram(b, plainProgram(b))
	p := pr.connect()
	pr.do("%s u %d %d", kind, size, huge)
	pr.do("fill u 1")
	pr.tell("restore")
	pr.call(p, Restore)
	pr.must(p.Prepare(context.Background(), 1))
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
	number := int64(0)
	capture := func() time.Duration {
		number++
		pr.tell("boundary x 1")
		pr.call(p, Boundary)
		start := time.Now()
		c, err := p.Capture(context.Background(), number, number-1)
		took := time.Since(start)
		pr.must(err)
		pr.must(p.Answer(Answer{}))
		pr.expect("0")
		c.Release()
		return took
	}
	cold := capture()
	capture()
	var pauses, copies []float64
	for i := range b.N {
		pr.do("scatter u 1 %d %d", stride, i%stride)
		pauses = append(pauses, capture().Seconds())
		pr.tell("memcpy u %d", size)
		ns, err := strconv.ParseFloat(pr.answer(), 64)
		pr.must(err)
		copies = append(copies, ns/1e9)
	}
	slices.Sort(pauses)
	slices.Sort(copies)
	pause, plain := pauses[len(pauses)/2], copies[len(copies)/2]
	b.ReportMetric(cold.Seconds()*1e3, "first-ms")
	b.ReportMetric(pause*1e3, "pause-ms")
	b.ReportMetric(plain*1e3, "memcpy-ms")
	b.ReportMetric(pause/plain, "pause/memcpy")
	c := p.memory.choices["u"]
	b.ReportMetric(1/c.pace[byClient]/1e9, "client-GB/s")
	b.ReportMetric(1/c.pace[byKernel]/1e9, "kernel-GB/s")
}

// BenchmarkFetch is how fast memory comes that is written while the program waits.
func BenchmarkFetch(b *testing.B) {
	const size, piece = 128 << 20, 4 << 20
	for w := range ways + 1 {
		b.Run([]string{"client", "kernel", "measured"}[w], func(b *testing.B) {
			pr := startProgram(b, plainProgram(b))
			p := pr.connect()
			pr.do("map u %d 0", size)
			pr.do("fill u 1")
			p.memory.refused = w == byClient
			b.SetBytes(size)
			pr.atBoundary(p, func() {
				regions, err := p.Regions()
				pr.must(err)
				if w == byKernel {
					p.memory.choice(&region{name: "u", size: size}).pace = [ways]float64{1, 1e-12}
				}
				b.ResetTimer()
				for range b.N {
					for at := 0; at < size; at += piece {
						pr.must(p.Fetch(regions[0].Mem[at : at+piece]))
						p.Release(regions[0].Mem[at : at+piece])
					}
				}
				b.StopTimer()
			})
		})
	}
}
