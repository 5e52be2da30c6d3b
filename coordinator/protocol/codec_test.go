package protocol

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"ckpt/coordinator/protocol/channel"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// draw fills a value at random.
func draw(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "truth"))
	case reflect.Int:
		v.SetInt(int64(rapid.IntRange(0, math.MaxInt32).Draw(t, "int")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "number"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "text"))
	case reflect.Slice:
		for range rapid.IntRange(0, 5).Draw(t, "length") {
			elem := reflect.New(v.Type().Elem()).Elem()
			draw(t, elem)
			v.Set(reflect.Append(v, elem))
		}
	default:
		for i := range v.NumField() {
			draw(t, v.Field(i))
		}
	}
}

func TestFrameRoundTrip(t *testing.T) {
	for _, kind := range kinds {
		rapid.Check(t, func(t *rapid.T) {
			v := reflect.New(reflect.TypeOf(kind)).Elem()
			draw(t, v)
			want := v.Interface().(Message)
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
}

// TestKinds: each message has one number.
func TestKinds(t *testing.T) {
	if len(kindOf) != len(kinds) || len(kinds) != 42 {
		t.Errorf("%d messages of %d types", len(kinds), len(kindOf))
	}
	if name := Name(StopAt{}); name != "stop-at" {
		t.Errorf("StopAt is named %q", name)
	}
}

func TestNegativeNumber(t *testing.T) {
	for _, m := range []Message{Abort{-1}, StopAt{1, maxNumber + 1}, Stopped{Sent: []Count{{Peer: -1}}}} {
		if _, err := AppendFrame(nil, m); err == nil {
			t.Errorf("%#v has a frame", m)
		}
	}
}

// TestFrameDamage flips every bit and cuts at every byte of a frame.
func TestFrameDamage(t *testing.T) {
	frame, err := AppendFrame(nil, Stopped{Number: 7, Iter: 12, Sent: []Count{{Peer: 1, N: 4}, {Peer: 2, N: 300}}})
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
	for _, m := range append([]Message{
		Hello{"127.0.0.1:4242", 4711},
		Stopped{2, 10, []Count{{Peer: 0, N: 20}, {Peer: 2, N: 20}}},
		Written{1, []byte(`{"bytes":4096}`), 1 << 30},
		Resume{15, 3},
		Unfence{2, []Life{{1, 3}}},
		Moved{Life{1, 3}, "127.0.0.1:4242"},
		Fenced{1, channel.Vector{Sent: []uint64{1, 2}, Received: []uint64{3, 4}, Depends: []uint64{0, 1 << 40}}},
	}, kinds[:]...) {
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
