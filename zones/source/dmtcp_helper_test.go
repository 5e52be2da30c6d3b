package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"ckpt/zones"
	"ckpt/zones/dmtcptest"
)

// mixed returns an image with an area of every form that DMTCP writes, in few
// and small areas. None of its lengths is a power of two pages, so that no
// flipped bit makes a length that means the same.
func mixed() *dmtcptest.Image {
	exe := dmtcptest.File(0x400000, "/opt/job/bin/bt.A.4", 5001, dmtcptest.Noise(1))
	exe.Offset = 2 * zones.PageSize
	data := dmtcptest.File(exe.End, exe.Name, 3*zones.PageSize, dmtcptest.Noise(2))
	data.Prot |= zones.Write
	unset := dmtcptest.File(data.End, "/dev/zero", 3*zones.PageSize, dmtcptest.Noise(3))
	unset.FileSize = 0 // a device has no length
	nscd := dmtcptest.Anonymous(unset.End, "/var/cache/nscd/hosts", nil, dmtcptest.Untouched(7))
	nscd.Runs, nscd.Dropped, nscd.Flags = nil, true, 0x22
	heap := dmtcptest.Anonymous(0x1a3d000, "[heap]", dmtcptest.Doubles(4),
		dmtcptest.Touched(2), dmtcptest.Untouched(3), dmtcptest.Touched(1))
	return &dmtcptest.Image{
		Name: "bt.A.4", Exe: "/opt/job/bin/bt.A.4", Peers: 6, Seed: 5,
		ID:    dmtcptest.ID{Host: 0x7f0101, Time: 0x66a00000, PID: 43000, Generation: 1},
		PPID:  dmtcptest.ID{Host: 0x7f0101, Time: 0x66a00000, PID: 41000, Generation: 1},
		Group: dmtcptest.ID{Host: 0x7f0101, Time: 0x669fffff, PID: 40000, Generation: 1},
		Areas: []dmtcptest.Area{
			exe, data, unset, nscd, heap,
			dmtcptest.Reserved(heap.End, 16<<20),
			dmtcptest.Segment(0x7f4000000000, "/dev/shm/mpich_shar_tmp", 3*zones.PageSize, dmtcptest.Noise(5)),
			dmtcptest.Stack(0x7ffffffff000, 40<<10, 20<<10, dmtcptest.Noise(6), []string{"A=B", "PMI_RANK=3", "C="}),
		},
	}
}

// tiny returns an image of two areas.
func tiny() *dmtcptest.Image {
	im := mixed()
	im.Areas = []dmtcptest.Area{
		dmtcptest.File(0x400000, "/opt/job/bin/bt.A.4", 1001, dmtcptest.Noise(1)),
		dmtcptest.Anonymous(0x1a3d000, "[heap]", dmtcptest.Noise(2), dmtcptest.Untouched(2), dmtcptest.Touched(1)),
	}
	return im
}

// pipe hides from a reader that it can seek.
func pipe(b []byte) io.Reader { return struct{ io.Reader }{bytes.NewReader(b)} }

func compressed(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func readImage(b []byte) (*zones.Process, error) {
	return ReadImage(context.Background(), "image", bytes.NewReader(b), int64(len(b)))
}

func mustReadImage(t *testing.T, b []byte) *zones.Process {
	t.Helper()
	p, err := readImage(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readAll reads an image to its end, data and all, and returns how far it came.
func readAll(r io.Reader, size int64) (int64, error) {
	s, err := NewImageScanner("image", r, size)
	if err != nil {
		return 0, err
	}
	for {
		if _, err := s.Next(); err == io.EOF {
			return s.Consumed(), nil
		} else if err != nil {
			return s.Consumed(), err
		}
		if _, err := io.Copy(io.Discard, s); err != nil {
			return s.Consumed(), err
		}
	}
}

// formatError returns err as what it must be for an image of n bytes.
func formatError(t *testing.T, err error, n int64) *zones.FormatError {
	t.Helper()
	fe, ok := errors.AsType[*zones.FormatError](err)
	if !ok {
		t.Fatalf("error %v (%T), not a FormatError", err, err)
	}
	if fe.File != "image" || fe.Offset < 0 || fe.Offset > n || fe.Reason == "" {
		t.Fatalf("error %+v of an image of %d bytes", fe, n)
	}
	return fe
}

// with returns a copy of b with a number changed.
func with(b []byte, at int64, v uint64) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint64(b[at:], v)
	return b
}
