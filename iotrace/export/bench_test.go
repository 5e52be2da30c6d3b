package export

import (
	"bytes"
	"io"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// BenchmarkFormats writes and reads 100,000 events. The figure to look at is the
// processor time: others may be using the machine.
func BenchmarkFormats(b *testing.B) {
	const events = 100_000
	t := iotracetest.Dense(events)
	var csv, pq bytes.Buffer
	if err := WriteCSV(&csv, t); err != nil {
		b.Fatal(err)
	}
	if err := WriteParquet(&pq, t); err != nil {
		b.Fatal(err)
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			start := iotracetest.ProcessorTime()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(iotracetest.ProcessorTime()-start)/float64(b.N)/events, "cpu-ns/event")
		})
	}
	run("csv/write", func() error { return WriteCSV(io.Discard, t) })
	run("csv/read", func() error {
		_, _, err := ReadCSV(bytes.NewReader(csv.Bytes()), iotrace.Options{Events: events})
		return err
	})
	run("parquet/write", func() error { return WriteParquet(io.Discard, t) })
	run("parquet/read", func() error {
		_, _, err := ReadParquet(bytes.NewReader(pq.Bytes()), int64(pq.Len()), iotrace.Options{})
		return err
	})
	run("chrome", func() error { return WriteChrome(io.Discard, t) })
}
