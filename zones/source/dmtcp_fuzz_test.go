package source

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/zones"
	"ckpt/zones/dmtcptest"
)

// FuzzImage reads arbitrary bytes as an image. Minimizing inputs of whole pages
// takes for ever:
//
//	go test ./zones/source -run xxx -fuzz FuzzImage -fuzzminimizetime 1x
func FuzzImage(f *testing.F) {
	im := tiny()
	for _, areas := range [][]dmtcptest.Area{
		nil,
		im.Areas,
		{dmtcptest.Stack(1<<46, 4*zones.PageSize, zones.PageSize, nil, []string{"PMI_RANK=3"})},
		{dmtcptest.Segment(1<<40, "/dev/shm/s", zones.PageSize, nil), dmtcptest.File(1<<41, "/f", 10, nil)},
		{dmtcptest.Reserved(1<<40, 1<<30), dmtcptest.Anonymous(1<<41, "", nil, dmtcptest.Alternating(4)...)},
	} {
		im.Areas = areas
		b := im.Bytes()
		f.Add(b)
		f.Add(b[:len(b)-zones.PageSize])
		for _, at := range im.Headers() {
			f.Add(with(b, at+atEnd, 1<<63))
			f.Add(with(b, at+atProperties, 1))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 || bytes.HasPrefix(b, imageMagic) {
			return // what gzip makes of it is longer
		}
		p, err := readImage(b)
		consumed, again := readAll(pipe(b), -1)
		if consumed > int64(len(b)) {
			t.Fatalf("%d bytes of %d", consumed, len(b))
		}
		if err != nil {
			formatError(t, err, int64(len(b)))
			// The same error, whether data is read or skipped.
			if diff := cmp.Diff(err, again); diff != "" {
				t.Fatal(diff)
			}
			return
		}
		if again != nil || p.Unpacked != int64(len(b)) || p.Image() != p.Unpacked || p.FileBytes != p.Unpacked || consumed != p.Unpacked {
			t.Fatalf("%d of %d bytes, areas of %d: %v", p.Unpacked, len(b), p.Image(), again)
		}
		var end uint64
		for _, a := range p.Areas {
			if a.Start < end || a.End <= a.Start || a.Occupied > a.Bytes() || a.Stored < headerSize {
				t.Fatalf("area %+v after %#x", a, end)
			}
			end = a.End
		}
		// Accepted images are accepted in every way of reading.
		if q, err := ReadImage(context.Background(), "image", pipe(b), int64(len(b))); err != nil || !cmp.Equal(p, q) {
			t.Fatalf("from a pipe: %+v, %v", q, err)
		}
	})
}
