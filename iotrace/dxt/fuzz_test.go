package dxt

import (
	"bytes"
	"errors"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// FuzzDXT reads arbitrary bytes as a text of darshan-dxt-parser.
func FuzzDXT(f *testing.F) {
	for _, b := range iotracetest.Files(f, "*.txt") {
		f.Add(b)
		f.Add(b[:len(b)*2/3])
	}
	f.Add([]byte(sample))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, rep, err := Read(bytes.NewReader(b), iotrace.Options{})
		if err != nil {
			var fe *iotrace.FormatError
			if !errors.As(err, &fe) || fe.Line < 1 {
				t.Fatal(err)
			}
			tr, rep, err = Read(bytes.NewReader(b), iotrace.Options{Lenient: true})
			if err == nil && rep.Unknown == 0 && rep.Cut == nil && !bytes.Contains(b, []byte("segment")) {
				// Only the numbers of segments are let pass without a word.
				if _, _, err := Read(bytes.NewReader(b), iotrace.Options{}); err.(*iotrace.FormatError).Reason != "the segment is not the next one of its record" {
					t.Fatal("lenient says nothing")
				}
			}
		} else {
			passOn(t, b)
			if rep.Unknown != 0 || rep.Cut != nil {
				t.Fatalf("%+v", rep)
			}
		}
		if err == nil {
			if err := iotracetest.Valid(tr); err != nil {
				t.Fatal(err)
			}
		}
	})
}
