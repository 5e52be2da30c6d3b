package iotrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzEvents reads arbitrary bytes as an events file. Accepted files are valid and
// survive being written again.
func FuzzEvents(f *testing.F) {
	_, whole := golden(f)
	old, err := os.ReadFile(filepath.Join("testdata", "golden-v1.trace"))
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{encode(f, &Trace{}), whole, old} {
		f.Add(b)
		f.Add(b[:len(b)-blockHeader-endPayload])
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// With checksums set right, the fuzzer gets behind them.
		b = bytes.Clone(b)
		if len(b) > 0 && b[0] != 'x' { // else the fuzzer damages
			resum(b)
		}
		tr, rep, err := Import(bytes.NewReader(b), Options{Lenient: true})
		var fe *FormatError
		if err != nil {
			if !errors.As(err, &fe) {
				t.Fatal(err)
			}
			return
		}
		if _, err := ReadTrace(bytes.NewReader(b)); (err == nil) != (rep.Cut == nil) {
			t.Fatalf("%v, lenient %v", err, rep.Cut)
		}
		got, err := ReadTrace(bytes.NewReader(encode(t, tr)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tr, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// resum sets the checksums of a file as far as it has blocks.
func resum(b []byte) {
	if len(b) < headerSize {
		return
	}
	copy(b, magic)
	head := blockHeader
	if b[8] == version1 {
		head = blockHeader1
	}
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], castagnoli))
	for b = b[headerSize:]; len(b) >= head; {
		n := min(int(uint32(b[4])|uint32(b[5])<<8|uint32(b[6])<<16), len(b)-head)
		if head == blockHeader1 {
			binary.LittleEndian.PutUint32(b[12:], blockSum1(b[:12], b[head:head+n]))
		} else {
			seal(b[:head+n], string(b[:4]), int(uint32(b[8])|uint32(b[9])<<8), int64(b[12]))
		}
		b = b[head+n:]
	}
}

func FuzzDetect(f *testing.F) {
	for _, head := range heads {
		f.Add([]byte(head.head))
	}
	f.Fuzz(func(t *testing.T, b []byte) { _ = Detect(b).String() })
}
