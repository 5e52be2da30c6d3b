package container

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

// FuzzImage opens arbitrary bytes as a container file and reads all of it. The
// checksums are made right first, or the fuzzer would never get past them.
// Minimizing inputs of whole pages takes for ever:
//
//	go test ./image/container -run xxx -fuzz FuzzImage -fuzzminimizetime 1x
func FuzzImage(f *testing.F) {
	images, _ := filepath.Glob("../testdata/store/jobs/*/*/*.img")
	for _, name := range images {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
		f.Add(b, false)
		f.Add(b[:len(b)-BlockSize], true)
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, repair bool) {
		if len(b) > 1<<20 {
			return
		}
		if repair {
			b = repaired(b)
		}
		m := memfs.New()
		if err := durable.Replace(m, "/x", b); err != nil {
			t.Fatal(err)
		}
		c, err := openContainer(m, "/x")
		if err != nil {
			if !errors.As(err, new(*durable.DamageError)) && !errors.Is(err, durable.ErrNewerVersion) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		defer c.Close()
		// An accepted file is consistent, and reading it terminates.
		var sum int64
		for _, e := range c.index.own() {
			sum += e.storedLen
		}
		if sum != c.trailer.indexOffset-BlockSize || sum > int64(len(b)) {
			t.Fatalf("extents of %d bytes in a payload of %d", sum, c.trailer.indexOffset-BlockSize)
		}
		r := &reader{depth: 2, bad: func(error) error { return nil }}
		if err := r.read(context.Background(), c.f, c.path, c.index.own()); err != nil {
			t.Fatal(err)
		}
	})
}

// repaired makes the checksums of header, trailer and index right.
func repaired(b []byte) []byte {
	if len(b) < 3*BlockSize || len(b)%BlockSize != 0 {
		return b
	}
	b = append([]byte(nil), b...)
	head, tail := b[:BlockSize], b[len(b)-BlockSize:]
	put32(head[crcAt:], crcOf(head[:crcAt]))
	put32(tail[crcAt:], crcOf(tail[:crcAt]))
	t, err := decodeTrailer(tail, int64(len(b)))
	if err != nil {
		return b
	}
	x := b[t.indexOffset : t.indexOffset+t.indexLen]
	sum := digestOf(head)
	copy(x, sum[:])
	t.digest, t.indexCRC = digestOf(x), crcOf(x)
	t.encode(tail)
	return b
}

func crcOf(b []byte) uint32    { return durable.Sum(b) }
func put32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }
