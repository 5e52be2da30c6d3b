package benchmarks

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"ckpt/zones/dmtcptest"
)

// TestCodecs tries the codecs on a smooth field, in a plain file and in an image
// of DMTCP.
func TestCodecs(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "field")
	var field []byte
	for i := range 1 << 17 {
		v := math.Float64bits(20 + math.Sin(float64(i)/5000))
		for k := range 8 {
			field = append(field, byte(v>>(8*k)))
		}
	}
	if err := os.WriteFile(plain, append(field, make([]byte, 1<<20)...), 0o600); err != nil {
		t.Fatal(err)
	}
	job := dmtcptest.Job(1, dmtcptest.Options{Seed: 1})
	if err := job.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{plain, filepath.Join(dir, job.Images[0].FileName())} {
		x, err := readExtents(context.Background(), name, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		told := int64(0)
		results, err := x.codecs(context.Background(), func(n int64) { told += n })
		if err != nil || len(results) != 4 || told != 4*x.Bytes {
			t.Fatalf("%d results, %d bytes told of %d, %v", len(results), told, x.Bytes, err)
		}
		if r := results[0]; r.Codec != "none" || r.Stored != x.Bytes || r.Raw != 1 {
			t.Errorf("none: %+v", r)
		}
		if name == plain {
			if x.Bytes != 1<<20 || x.Zeros != 1<<20 {
				t.Errorf("%d bytes and %d of zeros, want 1 MiB each", x.Bytes, x.Zeros)
			}
			if r := results[2]; r.Ratio < 1.2 || r.Filtered != 1 || r.PaysBelow <= 0 {
				t.Errorf("zstd on a smooth field: %+v", r)
			}
		}
	}
	if x, err := readExtents(context.Background(), plain, 300<<10); err != nil || x.Bytes != 256<<10 {
		t.Errorf("with a limit: %+v, %v", x, err)
	}
	if _, err := readExtents(context.Background(), filepath.Join(dir, "none"), 1); err == nil {
		t.Error("a missing file is read")
	}
}
