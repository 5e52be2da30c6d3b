package source

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"ckpt/zones/dmtcptest"
)

// allocated returns what f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// claim returns an image of 20 KiB the only area of which claims a size.
func claim(size uint64, file bool) []byte {
	im := tiny()
	im.Areas = []dmtcptest.Area{dmtcptest.Anonymous(1<<20, "[stack]", nil, dmtcptest.Touched(1))}
	if file {
		im.Areas = []dmtcptest.Area{dmtcptest.File(1<<20, "/f", 4096, nil)}
	}
	b := im.Bytes()
	for _, at := range im.Headers() {
		if at < int64(len(b)-4096) {
			copy(b, with(b, at+8, 1<<20+size))
			copy(b, with(b, at+16, size))
			if file {
				copy(b, with(b, at+72, size))
			}
		}
	}
	return b
}

// TestHugeClaims has sizes that no file holds, and looks at what that costs.
func TestHugeClaims(t *testing.T) {
	for _, size := range []uint64{1 << 40, 1<<56 - 1<<20, 1 << 56, 1 << 62, 1 << 63, math.MaxUint64 - 1<<20 - 4095} {
		for _, file := range []bool{false, true} {
			b := claim(size, file)
			for _, in := range []func() io.Reader{
				func() io.Reader { return bytes.NewReader(b) },
				func() io.Reader { return pipe(b) },
				func() io.Reader { return bytes.NewReader(compressed(t, b)) },
			} {
				r := in()
				cost := allocated(func() {
					_, err := ReadImage(t.Context(), "image", r, -1)
					fe := formatError(t, err, int64(len(b)))
					if fits := size < 1<<56; fits != strings.Contains(fe.Reason, "bytes are missing") {
						t.Errorf("%#x: %v", size, err)
					}
				})
				if cost > 1<<20 {
					t.Errorf("%#x: a file of %d bytes costs %d bytes of memory", size, len(b), cost)
				}
			}
		}
	}
}

// An endless image is an area as large as there are addresses, cut into runs of
// a page each for ever.
type endless struct {
	*bytes.Reader
	run []byte
	at  uint64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.Len() == 0 {
		binary.LittleEndian.PutUint64(e.run, e.at)
		e.at += 4096
		binary.LittleEndian.PutUint64(e.run[8:], e.at)
		e.Reset(e.run)
	}
	return e.Reader.Read(p)
}

// TestEndless reads such an image for a while: it costs no memory.
func TestEndless(t *testing.T) {
	im := tiny()
	im.Areas = []dmtcptest.Area{dmtcptest.Anonymous(4096, "", nil, dmtcptest.Untouched(1<<44-2))}
	b, at := im.Bytes(), im.Headers()[1]
	e := &endless{Reader: bytes.NewReader(b[:at]), run: with(b[at:at+headerSize], 16, 4096), at: 4096}
	const enough = 16 << 20
	cost := allocated(func() {
		_, err := ReadImage(t.Context(), "image", io.LimitReader(e, enough), -1)
		if fe := formatError(t, err, enough); fe.Offset != enough {
			t.Error(err)
		}
	})
	if cost > 1<<20 {
		t.Errorf("%d bytes of memory for runs without end", cost)
	}
}

// TestBomb reads 16 MiB that gzip made a thousand times smaller.
func TestBomb(t *testing.T) {
	im := tiny()
	im.Gzip = true
	im.Areas = []dmtcptest.Area{dmtcptest.Anonymous(1<<40, "", nil, dmtcptest.Touched(4<<10))}
	b := im.Bytes()
	if len(b) > 1<<17 {
		t.Fatalf("%d bytes are no bomb", len(b))
	}
	cost := allocated(func() {
		if p := mustReadImage(t, b); p.Unpacked != im.Size() {
			t.Errorf("%d bytes, want %d", p.Unpacked, im.Size())
		}
	})
	if cost > 1<<20 {
		t.Errorf("%d bytes of memory", cost)
	}
}

// TestManyMembers reads a file of gzip that is made of empty members, which
// make no bytes.
func TestManyMembers(t *testing.T) {
	var empty bytes.Buffer
	z := gzip.NewWriter(&empty)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := readImage(bytes.Repeat(empty.Bytes(), 20_000))
	if fe := formatError(t, err, 0); !strings.Contains(fe.Reason, "ends early") {
		t.Error(err)
	}
	// Between the members of an image they do no harm.
	b := tiny().Bytes()
	var parts []byte
	for len(b) > 0 {
		n := min(len(b), 5000)
		parts = append(append(parts, compressed(t, b[:n])...), empty.Bytes()...)
		b = b[n:]
	}
	if p := mustReadImage(t, parts); p.Unpacked != tiny().Size() || p.FileBytes != int64(len(parts)) {
		t.Errorf("%d bytes in a file of %d", p.Unpacked, p.FileBytes)
	}
}
