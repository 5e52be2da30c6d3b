package turns

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// messages has one of each kind.
var messages = []message{
	&hello{version, "job", "user", 17, 0.5},
	&ask{3, Checkpoint, "images/7", -1, 1 << 40, 1 << 42},
	&progress{3, 1 << 30}, &idle{3}, &release{3, 9}, &end{3}, &alive{}, &status{},
	&welcome{version, 5e9}, &refused{version, "full"},
	&granted{3, 9}, &revoked{3, 9}, &evicted{3, 9}, &report{`{"pid":1}`},
	&want{5, "job", "user", "images/7", 17, 1, 1 << 40, 1 << 20}, &portion{5, 9, 1 << 40, 1 << 20, 1 << 22}, &moved{9},
}

func TestFrames(t *testing.T) {
	if len(messages) != len(kinds) {
		t.Fatalf("%d messages of %d kinds", len(messages), len(kinds))
	}
	var all []byte
	for _, m := range messages {
		all = appendFrame(all, m)
	}
	r := bufio.NewReader(bytes.NewReader(all))
	for _, want := range messages {
		got, err := readFrame(r, maxRequest)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: %+v, %v, want %+v", want, got, err, want)
		}
	}
	if _, err := readFrame(r, maxRequest); err != io.EOF {
		t.Errorf("%v at the end, want EOF", err)
	}
	// Texts are cut, not refused: nothing that a job says makes its client fail.
	long := appendFrame(nil, &ask{File: strings.Repeat("x", 100_000), Kind: strings.Repeat("y", 1000)})
	m, err := readFrame(bufio.NewReader(bytes.NewReader(long)), maxRequest)
	if a, ok := m.(*ask); !ok || err != nil || len(a.File) != maxFile || len(a.Kind) != maxName {
		t.Errorf("long texts: %v", err)
	}
}

// TestDamagedFrames changes each bit and each length.
func TestDamagedFrames(t *testing.T) {
	for _, m := range messages {
		whole := appendFrame(nil, m)
		for bit := range 8 * len(whole) {
			b := bytes.Clone(whole)
			b[bit/8] ^= 1 << (bit % 8)
			if got, err := readFrame(bufio.NewReader(bytes.NewReader(b)), maxRequest); err == nil {
				t.Errorf("%T with bit %d changed: %+v", m, bit, got)
			}
		}
		for n := 1; n < len(whole); n++ {
			_, err := readFrame(bufio.NewReader(bytes.NewReader(whole[:n])), maxRequest)
			if !errors.Is(err, errFrame) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%T cut at %d: %v", m, n, err)
			}
		}
	}
}

// TestOtherVersion reads what other versions say first as far as the version.
func TestOtherVersion(t *testing.T) {
	for kind, m := range map[byte]message{0: &hello{Version: 7}, 8: &welcome{Version: 7}} {
		got, err := decode([]byte{kind, 7, 1, 2, 3})
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// FuzzFrame decodes anything: without a panic, without an allocation beyond the limit, and
// with the same message after it was encoded again.
func FuzzFrame(f *testing.F) {
	for _, m := range messages {
		f.Add(appendFrame(nil, m)[frameHeader:])
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, _ = readFrame(bufio.NewReader(bytes.NewReader(payload)), maxRequest)
		if len(payload) == 0 {
			return
		}
		m, err := decode(payload)
		if err != nil {
			if !errors.Is(err, errFrame) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := readFrame(bufio.NewReader(bytes.NewReader(appendFrame(nil, m))), maxReport)
		if h, ok := m.(*hello); ok && h.Weight != h.Weight {
			return // NaN is not equal to itself
		}
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}

// FuzzInfo reads any file of a controller.
func FuzzInfo(f *testing.F) {
	b, err := Info{Version: version, PID: 1, Host: "h", Socket: socketName, Address: "10.0.0.1:1", Token: "t"}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := decodeInfo("controller.json", b)
		if err != nil {
			return
		}
		again, err := i.encode()
		if err != nil {
			t.Fatal(err)
		}
		if j, err := decodeInfo("controller.json", again); err != nil || *i != *j {
			t.Errorf("%+v became %+v, %v", i, j, err)
		}
	})
}
