package source

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"

	"ckpt/zones"
	"ckpt/zones/dmtcptest"
)

// benchImage is an image of 256 MiB: a solver's array, a segment, and the many
// runs of DMTCP's own arena.
var benchImage = sync.OnceValue(func() []byte {
	const pages = 1 << 20 / zones.PageSize
	im := tiny()
	im.Areas = append(im.Areas,
		dmtcptest.Anonymous(1<<40, "", dmtcptest.Doubles(1), dmtcptest.Touched(200*pages), dmtcptest.Untouched(100*pages)),
		dmtcptest.Segment(2<<40, "/dev/shm/mpich", 44<<20, dmtcptest.Noise(2)),
		dmtcptest.Arena(3<<40, dmtcptest.Noise(3)),
		dmtcptest.Stack(1<<46, 8<<20, 1<<20, dmtcptest.Noise(4), []string{"PMI_RANK=3"}))
	return im.Bytes()
})

// BenchmarkScan finds the areas of an image that can be sought in.
func BenchmarkScan(b *testing.B) {
	image := benchImage()
	b.SetBytes(int64(len(image)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadImage(context.Background(), "image", bytes.NewReader(image), int64(len(image))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScanPipe finds the areas of an image that comes through a pipe.
func BenchmarkScanPipe(b *testing.B) {
	image := benchImage()
	b.SetBytes(int64(len(image)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadImage(context.Background(), "image", pipe(image), -1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadAll reads all data, plain and through gzip.
func BenchmarkReadAll(b *testing.B) {
	image := benchImage()
	for _, c := range []struct {
		name string
		file func() []byte
	}{
		{"plain", func() []byte { return image }},
		{"gzip", func() []byte { return compressed(b, image) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			file := c.file()
			buf := make([]byte, 1<<20)
			b.SetBytes(int64(len(image)))
			b.ReportAllocs()
			for b.Loop() {
				s, err := NewImageScanner("image", bytes.NewReader(file), -1)
				for err == nil {
					var n int
					for err == nil {
						n, err = s.Read(buf)
						_ = n
					}
					if err == io.EOF {
						_, err = s.Next()
					}
				}
				if err != io.EOF || s.Consumed() != int64(len(image)) {
					b.Fatal(err, s.Consumed())
				}
			}
		})
	}
}
