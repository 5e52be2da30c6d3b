package iotrace_test

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

func traces() map[string]*iotrace.Trace {
	return map[string]*iotrace.Trace{
		"per-rank":   iotracetest.PerRank(16, 200, 3),
		"one rank":   iotracetest.PerRank(1, 200, 3),
		"aggregated": iotracetest.Aggregated(16, 50, 3),
		"many ranks": iotracetest.PerRank(1024, 10, 2),
	}
}

// BenchmarkSize reports the bytes that an event takes in a file.
func BenchmarkSize(b *testing.B) {
	for name, t := range traces() {
		b.Run(name, func(b *testing.B) {
			var c counter
			for b.Loop() {
				c.n.Store(0)
				if err := iotrace.WriteTrace(&c, t); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(c.n.Load())/float64(len(t.Events)), "B/event")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(t.Events)), "ns/event")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	t := iotracetest.Dense(100_000)
	var buf bytes.Buffer
	if err := iotrace.WriteTrace(&buf, t); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := iotrace.Import(bytes.NewReader(buf.Bytes()), iotrace.Options{Events: len(t.Events)}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(t.Events)), "ns/event")
}

// BenchmarkRecord is what recording adds to an operation, both looks at the
// clock included, and without them.
func BenchmarkRecord(b *testing.B) {
	record := func(b *testing.B, r *iotrace.Recorder, clock bool, parallel bool) {
		b.ReportAllocs()
		me, file := r.Rank(iotrace.Rank{Rank: 1}), r.File("/store/file")
		one := func(n int64) {
			e := iotrace.Event{Op: iotrace.Write, Rank: me, File: file, Peer: iotrace.None, Offset: n * 4096, Bytes: 4096, Start: n * 100000, End: n*100000 + 50000}
			if clock {
				start := time.Now()
				e.Start, e.End = r.Since(start), r.Since(time.Now())
			}
			r.Record(e)
		}
		var n atomic.Int64
		if parallel {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					one(n.Add(1))
				}
			})
			return
		}
		for b.Loop() {
			one(n.Add(1))
		}
	}
	b.Run("record", func(b *testing.B) { record(b, iotrace.NewRecorder(io.Discard, iotrace.Meta{}), false, false) })
	b.Run("clock", func(b *testing.B) { record(b, iotrace.NewRecorder(io.Discard, iotrace.Meta{}), true, false) })
	b.Run("parallel", func(b *testing.B) { record(b, iotrace.NewRecorder(io.Discard, iotrace.Meta{}), false, true) })
	b.Run("nil", func(b *testing.B) { record(b, nil, false, false) })
}
