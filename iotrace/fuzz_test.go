package iotrace

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzEvents reads arbitrary bytes as an events file. Accepted files are valid and
// survive being written again.
func FuzzEvents(f *testing.F) {
	_, whole := golden(f)
	for _, b := range [][]byte{encode(f, &Trace{}), whole} {
		f.Add(b)
		f.Add(b[:len(b)-blockHeader-endPayload])
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// With checksums set right, the fuzzer gets behind them.
		b = bytes.Clone(b)
		resum(b)
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
	copy(b, fileHeader())
	for b = b[headerSize:]; len(b) >= blockHeader; {
		n := min(int(uint32(b[4])|uint32(b[5])<<8|uint32(b[6])<<16), len(b)-blockHeader)
		count := int(uint32(b[8]) | uint32(b[9])<<8)
		seal(b[:blockHeader+n], string(b[:4]), count)
		b = b[blockHeader+n:]
	}
}

func FuzzDetect(f *testing.F) {
	for _, head := range heads {
		f.Add([]byte(head.head))
	}
	f.Fuzz(func(t *testing.T, b []byte) { _ = Detect(b).String() })
}
