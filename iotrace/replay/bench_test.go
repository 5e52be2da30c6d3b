package replay

import (
	"fmt"
	"io"
	"testing"

	"ckpt/iotrace"
)

// BenchmarkCheckpoint writes a checkpoint of four ranks with and without recording. recorder-%
// is the time from entering the recorder to leaving it, as a share of the whole.
// The times of two checkpoints differ by more than recording takes.
func BenchmarkCheckpoint(b *testing.B) {
	const ranks, size, request = 4, 64 << 20, 1 << 20
	t := checkpointOf(ranks, size, request)
	for _, recorded := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "recorded"}[recorded], func(b *testing.B) {
			b.SetBytes(size)
			var spent float64
			for b.Loop() {
				opt := Options{Dir: b.TempDir()}
				if recorded {
					opt.Recorder = iotrace.NewRecorder(io.Discard, iotrace.Meta{})
					opt.Recorder.Measure()
				}
				if _, err := Run(b.Context(), t, opt); err != nil {
					b.Fatal(err)
				}
				if recorded {
					spent += opt.Recorder.Spent().Seconds()
				}
				if err := opt.Recorder.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(100*spent/b.Elapsed().Seconds(), "recorder-%")
		})
	}
}

// checkpointOf writes a file per rank with large requests, then syncs it.
func checkpointOf(ranks int, size, request int64) *iotrace.Trace {
	t := &iotrace.Trace{Job: "checkpoint"}
	part := size / int64(ranks)
	for rank := range ranks {
		t.Ranks = append(t.Ranks, iotrace.Rank{Rank: rank})
		t.Files = append(t.Files, fmt.Sprintf("rank-%d.img", rank))
	}
	var now int64
	all := func(op iotrace.Op, off, n int64) {
		for rank := range int32(ranks) {
			t.Events = append(t.Events, iotrace.Event{
				Op: op, Create: op == iotrace.Open, Rank: rank, File: rank, Peer: iotrace.None,
				Offset: off, Bytes: n, Start: now, End: now + 1,
			})
		}
		now++
	}
	all(iotrace.Open, iotrace.None, 0)
	for off := int64(0); off < part; off += request {
		all(iotrace.Write, off, min(request, part-off))
	}
	all(iotrace.Sync, iotrace.None, 0)
	all(iotrace.Close, iotrace.None, 0)
	return t
}
