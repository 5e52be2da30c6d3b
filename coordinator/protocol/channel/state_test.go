package channel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
)

func sampleState(t testing.TB) []byte {
	e, err := New(Config{Kind: Optimistic, Rank: 1, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.ReceivedAny(1, 0); err != nil {
		t.Fatal(err)
	}
	e.Send(0, Message{Tag: 7, Context: 1, Data: []byte("a message")})
	e.Send(2, Message{Data: []byte("another")})
	e.Send(2, Message{})
	e.Output()
	st := e.Snapshot()
	st.Replay = []Determinant{{Number: 3, Source: 2, Seq: 9}}
	return st.Encode()
}

func TestStateDamage(t *testing.T) {
	good := sampleState(t)
	st, err := Decode(good)
	if err != nil || !bytes.Equal(st.Encode(), good) {
		t.Fatalf("%+v, %v", st, err)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x40
		if _, err := Decode(b); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if _, err := Decode(good[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// TestImpossibleStates: the checksum is right and what it covers cannot be.
func TestImpossibleStates(t *testing.T) {
	for name, spoil := range map[string]func(st *State){
		"a determinant that was followed": func(st *State) { st.Replay[0].Number = 1 },
		"determinants in disorder":        func(st *State) { st.Replay = append(st.Replay, st.Replay[0]) },
		"a message never sent":            func(st *State) { st.Vector.Sent[0] = 0 },
		"a gap between messages":          func(st *State) { st.Kept[2] = []Message{st.Kept[2][0], {Seq: 3}}; st.Vector.Sent[2] = 3 },
		"the last message missing":        func(st *State) { st.Vector.Sent[2] = 3 },
		"a message to itself":             func(st *State) { st.Kept[1], st.Vector.Sent[1] = []Message{{Seq: 1}}, 1 },
	} {
		st, err := Decode(sampleState(t))
		if err != nil {
			t.Fatal(err)
		}
		spoil(st)
		if _, err := Decode(st.Encode()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sampleState(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 4 { // what lies behind the checksum is of interest
			b = reseal(b)
		}
		st, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(st.Encode(), b) {
			t.Fatal("not the only encoding")
		}
		// A determinant may be missing; it must not panic.
		_, _, _ = Restore(Config{Kind: st.Kind, Rank: st.Rank, Size: st.Size}, st, nil, nil)
	})
}

func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli))
	return b
}
