package report

import (
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/iotracetest"
)

// TestGrid: a grid that is not full keeps all. A full one keeps a request near each
// that it was given, of the same class, and the range of all.
func TestGrid(t *testing.T) {
	for name, c := range map[string]struct {
		log     bool
		n       int
		x, y, l int64 // bounds of the places and of the length
	}{
		"few": {false, gridMarks - 1, 1e9, 1e12, 1e6}, "plane": {false, 300_000, 1e9, 1e12, 1e6}, "long": {false, 200_000, 1e9, 1e9, 1e9},
		"log": {true, 300_000, 1e6, 1e12, 1}, "whole": {false, 200_000, math.MaxInt64, math.MaxInt64, 1}, "point": {false, 200_000, 1, 1, 1},
	} {
		g, r := newGrid(c.log), rand.New(rand.NewPCG(1, 2))
		all := make([]place, c.n)
		for i := range all {
			b := place{x0: r.Int64N(c.x), y0: 1 + r.Int64N(c.y), class: i % 3}
			if i%2 == 1 {
				b.x0 = -b.x0
			}
			b.x1, b.y1 = b.x0, b.y0+r.Int64N(min(c.l, math.MaxInt64-b.y0)+1)
			all[i] = b
			g.add(b)
		}
		if len(g.kept) == 0 || len(g.kept) > gridMarks || c.n < gridMarks && len(g.kept) != c.n {
			t.Errorf("%s: %d of %d are kept", name, len(g.kept), c.n)
		}
		var xmin, xmax int64 = math.MaxInt64, math.MinInt64
		kept := map[uint64]bool{}
		for i := range g.kept {
			kept[g.key(&g.kept[i])] = true
		}
		if c.n >= gridMarks && len(kept) != len(g.kept) {
			t.Errorf("%s: %d requests are kept in %d cells", name, len(g.kept), len(kept))
		}
		lost := 0
		for i := range all {
			xmin, xmax = min(xmin, all[i].x0), max(xmax, all[i].x1)
			if !kept[g.key(&all[i])] {
				lost++
			}
		}
		if lost > 0 || xmin != g.xmin || xmax != g.xmax || g.n != c.n {
			t.Errorf("%s: %d requests are lost, or the range is", name, lost)
		}
		if c.n >= gridMarks && !g.fits() {
			t.Errorf("%s: the grid is too small", name)
		}
	}
}

// TestCounter: each rank counts its requests to each file.
func TestCounter(t *testing.T) {
	tr := &iotrace.Trace{Ranks: make([]iotrace.Rank, 5), Files: make([]string, 7)}
	c := newCounter(tr)
	r, want := rand.New(rand.NewPCG(1, 2)), map[[2]int32]int{}
	for range 1000 {
		rank, file := r.Int32N(8)-1, r.Int32N(7)
		k := [2]int32{rank, file}
		if n := c.next(rank, file); n != want[k] {
			t.Fatalf("request %d of rank %d to file %d: number %d", want[k], rank, file, n)
		}
		want[k]++
	}
}

var benchEvents = flag.Int("events", 1_000_000, "events of the traces of BenchmarkReport; the promise is about 10000000")

// BenchmarkReport writes the page of a trace of each pattern, without its analysis.
func BenchmarkReport(b *testing.B) {
	for _, p := range iotracetest.Patterns() {
		b.Run(string(p), func(b *testing.B) {
			tr := iotracetest.Generate(iotracetest.Spec{Pattern: p, Shared: true, Ranks: 64, Ops: *benchEvents / 64 / 20, Bursts: 20,
				Every: 10 * time.Second, Size: 4096, Variable: p != iotracetest.StridedSimple, Noise: 0.05, Seed: 1})
			r := analyze.Analyze(tr, analyze.Options{})
			cpu := iotracetest.ProcessorTime()
			for b.Loop() {
				if err := HTML(io.Discard, tr, r, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
			cpu = iotracetest.ProcessorTime() - cpu
			b.ReportMetric(float64(cpu)/float64(b.N)/float64(len(tr.Events)), "cpu-ns/event")
		})
	}
}
