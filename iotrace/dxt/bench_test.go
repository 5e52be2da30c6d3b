package dxt

import (
	"bytes"
	"io"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// BenchmarkText goes over 100,000 segments in 64 records. The figure to look at
// is the processor time: others may be using the machine.
func BenchmarkText(b *testing.B) {
	t := &iotrace.Trace{Job: "j", Ranks: make([]iotrace.Rank, 64), Files: []string{"/scratch/checkpoint.0001"}}
	for i := range t.Ranks {
		t.Ranks[i].Rank = i
	}
	const events = 100_000
	for i := range events {
		at := int64(i) * 1e6
		t.Events = append(t.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(i % 64), Peer: iotrace.None, Offset: int64(i) << 20, Bytes: 1 << 20, Start: at, End: at + 5e6})
	}
	var text bytes.Buffer
	if _, err := Write(&text, t); err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"write": func() error { _, err := Write(io.Discard, t); return err },
		"read": func() error {
			_, _, err := Read(bytes.NewReader(text.Bytes()), iotrace.Options{Events: events})
			return err
		},
		"log": func() error { _, err := ReadLog(bytes.NewReader(text.Bytes())); return err },
	} {
		b.Run(name, func(b *testing.B) {
			start := iotracetest.ProcessorTime()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(iotracetest.ProcessorTime()-start)/float64(b.N)/events, "cpu-ns/event")
		})
	}
}
