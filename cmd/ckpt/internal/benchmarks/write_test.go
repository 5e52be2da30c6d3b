package benchmarks

import (
	"context"
	"os"
	"testing"
)

func TestMeasureWrite(t *testing.T) {
	dir := t.TempDir()
	var told int64
	res, err := MeasureWrite(context.Background(), dir, WriteOptions{Size: 8 << 20, Rounds: 2, Progress: func(n int64) { told += n }})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Checkpoint) != 2 || len(res.Buffered) != 2 || res.Ratio <= 0 {
		t.Errorf("result is not complete: %+v", res)
	}
	if told < 2*2*8<<20 {
		t.Errorf("progress was told %d bytes", told)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestMeasureWriteCanceled(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := MeasureWrite(ctx, dir, WriteOptions{Size: 1 << 20, Rounds: 1}); err == nil {
		t.Error("no error")
	}
	if _, err := MeasureWrite(t.Context(), dir, WriteOptions{Size: 1 << 50, Rounds: 1}); err == nil {
		t.Error("a petabyte of memory was had")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// BenchmarkMeasureWrite measures the ratio of a checkpoint to plain writes; set
// CKPT_BENCH_DIR to measure another disk than that of the temporary directory.
func BenchmarkMeasureWrite(b *testing.B) {
	dir := os.Getenv("CKPT_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	const size = 256 << 20
	b.SetBytes(size)
	for b.Loop() {
		res, err := MeasureWrite(context.Background(), dir, WriteOptions{Size: size, Rounds: 3})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(res.Ratio, "ratio")
		b.ReportMetric(res.CheckpointMedian/(1<<20), "ckpt-MiB/s")
		b.ReportMetric(res.DirectMedian/(1<<20), "direct-MiB/s")
		b.ReportMetric(res.BufferedMedian/(1<<20), "buffered-MiB/s")
	}
}
