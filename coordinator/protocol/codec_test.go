package protocol

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := make([]Kind, 0, len(kindNames))
		for k := Hello; k <= Quit; k++ {
			if k.Valid() {
				kinds = append(kinds, k)
			}
		}
		small := rapid.IntRange(0, 1<<31-1)
		want := Message{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Rank: small.Draw(t, "rank"),
			Number: small.Draw(t, "number"), Iter: small.Draw(t, "iter"),
			Progress: rapid.Uint64().Draw(t, "progress"), Text: rapid.String().Draw(t, "text"),
		}
		if b := rapid.SliceOf(rapid.Byte()).Draw(t, "body"); len(b) > 0 {
			want.Body = b
		}
		for range rapid.IntRange(0, 5).Draw(t, "counts") {
			want.Counts = append(want.Counts, Count{small.Draw(t, "peer"), rapid.Uint64().Draw(t, "n")})
		}
		frame, err := AppendFrame(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		r := bytes.NewReader(append(frame, frame...))
		for range 2 {
			got, err := ReadFrame(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
		if _, err := ReadFrame(r); err != io.EOF {
			t.Fatalf("at the end: %v, want io.EOF", err)
		}
	})
}

// TestKindValues pins what stands on the wire: a new kind is appended.
func TestKindValues(t *testing.T) {
	for first, kinds := range map[Kind][]Kind{
		1: {Hello, Ready, SetupFailed, Holding, Stopped, Drained, Written, WriteFailed, Aborted, Beat, InjectDue, Done,
			Unrestorable, Captured, Share, Fenced, Output},
		32: {Welcome, Start, Propose, StopAt, Drain, Write, Abort, Resume, Quit, Shares, Fence, Unfence, Moved, Collected},
	} {
		for i, k := range kinds {
			if k != first+Kind(i) || !k.Valid() {
				t.Errorf("%v is %d, valid %v; want %d", k, uint8(k), k.Valid(), first+Kind(i))
			}
		}
	}
}

// TestFrameDamage flips every bit and cuts at every byte of a frame.
func TestFrameDamage(t *testing.T) {
	frame, err := AppendFrame(nil, Message{Kind: Stopped, Rank: 3, Number: 7, Iter: 12,
		Counts: []Count{{1, 4}, {2, 300}}, Text: "text", Body: []byte("body")})
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(frame) * 8 {
		bad := bytes.Clone(frame)
		bad[bit/8] ^= 1 << (bit % 8)
		if m, err := ReadFrame(bytes.NewReader(bad)); err == nil {
			t.Errorf("bit %d flipped: read %v", bit, m)
		}
	}
	for n := range frame {
		if n == 0 {
			continue
		}
		if _, err := ReadFrame(bytes.NewReader(frame[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v, want unexpected EOF", n, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	for _, m := range []Message{
		{Kind: Hello, Rank: 1, Iter: 4711, Text: "127.0.0.1:4242"},
		{Kind: Stopped, Rank: 3, Number: 2, Iter: 10, Counts: []Count{{0, 20}, {2, 20}}},
		{Kind: Written, Rank: 2, Number: 1, Body: []byte(`{"bytes":4096}`)},
		{Kind: Captured, Rank: 2, Number: 1},
		{Kind: Resume, Iter: 15, Number: 3},
	} {
		frame, err := AppendFrame(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame)
		f.Add(frame[:len(frame)/2])
		f.Add(frame[frameHeader:]) // a bare payload, for the decoder behind the checksum
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = ReadFrame(bytes.NewReader(data))
		m, err := decode(data)
		if err != nil {
			if !errors.Is(err, ErrFrame) {
				t.Fatalf("error %v does not wrap ErrFrame", err)
			}
			return
		}
		frame, err := AppendFrame(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadFrame(bytes.NewReader(frame))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
