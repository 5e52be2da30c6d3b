package process

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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

// BenchmarkPause is the pause of a checkpoint that is written behind the computation, by a copy
// and by a child, next to a plain copy of the same bytes: all in turn, in programs that pause at
// the same time. The slowest counts. After each pause the programs rewrite all of their memory, at
// once and again; behind-ms is until the child is ready while they do. For late they wait for that.
func BenchmarkPause(b *testing.B) {
	for _, huge := range []int{0, 1} {
		for _, ranks := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("huge-%d/ranks-%d", huge, ranks), func(b *testing.B) { pauses(b, ranks, huge) })
		}
	}
}

// A paused is a program that pauses with others.
type paused struct {
	*program
	p *Process
}

const pausedBytes = 128 << 20

func pauses(b *testing.B, ranks, huge int) {
	list := make([]*paused, ranks)
	for i := range list {
		pr := startProgram(b, plainProgram(b))
		list[i] = &paused{pr, pr.connect()}
		pr.do("map u %d %d", pausedBytes, huge)
		pr.do("fill u 1")
	}
	slowest := func(do func(*paused) time.Duration) float64 {
		took := make([]time.Duration, ranks)
		var all sync.WaitGroup
		for i, s := range list {
			all.Go(func() { took[i] = do(s) })
		}
		all.Wait()
		return slices.Max(took).Seconds() * 1e3
	}
	timed := func(command string) func(*paused) time.Duration {
		return func(s *paused) time.Duration {
			s.tell("%s u %d", command, pausedBytes)
			ns, err := strconv.ParseInt(s.answer(), 10, 64)
			s.must(err)
			return time.Duration(ns)
		}
	}
	times := map[string][]float64{}
	for i := range b.N + 1 { // the first makes the memory
		slowest(timed("memcpy")) // the first after a fork has faults
		round := map[string]float64{"memcpy-ms": slowest(timed("memcpy")), "rewrite-ms": slowest(timed("rewrite"))}
		for _, way := range []string{"copy", "fork", "late"} {
			for _, s := range list {
				s.p.memory.forks.refused, s.p.memory.forks.always = way == "copy", true
			}
			var captures sync.Map
			var behind atomic.Int64
			round[way+"-pause-ms"] = slowest(func(s *paused) time.Duration { return s.pause(&captures) })
			began := time.Now()
			var ready sync.WaitGroup
			for _, s := range list {
				ready.Go(func() {
					c, _ := captures.Load(s)
					s.must(c.(*Capture).Ready(context.Background()))
					behind.Store(int64(time.Since(began)))
				})
			}
			if way == "late" {
				ready.Wait()
			}
			round[way+"-rewrite-ms"] = slowest(timed("rewrite"))
			round[way+"-again-ms"] = slowest(timed("rewrite"))
			ready.Wait()
			round[way+"-behind-ms"] = float64(behind.Load()) / 1e6
			captures.Range(func(_, c any) bool { c.(*Capture).Release(); return true })
		}
		for name, v := range round {
			if i > 0 {
				times[name] = append(times[name], v)
			}
		}
	}
	for name, list := range times {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
	}
	b.ReportMetric(0, "ns/op")
}

// pause takes a program through a checkpoint, and returns how long it waited.
func (s *paused) pause(captures *sync.Map) (took time.Duration) {
	s.number++
	s.atBoundary(s.p, func() {
		start := time.Now()
		c, err := s.p.Capture(context.Background(), s.number, s.number-1)
		s.must(err)
		took = time.Since(start)
		captures.Store(s, &c)
	})
	return took
}

// BenchmarkCapture is the pause of a checkpoint that is written behind the computation, as the
// agent chooses its way.
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
		pr.must(c.Ready(context.Background()))
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
