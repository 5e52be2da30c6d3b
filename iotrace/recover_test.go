package iotrace

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ckpt/internal/testkit"
)

// manyBlocks returns the golden trace in blocks of three events, and how many events the
// largest has.
func manyBlocks(t testing.TB) (tr *Trace, file []byte, most int) {
	t.Helper()
	tr, _ = golden(t)
	most = 3
	var buf bytes.Buffer
	w := newWriter(&buf, Meta{Job: tr.Job, Source: tr.Source, Origin: tr.Origin}, *tr)
	for i, e := range tr.Events {
		// Names come when they are needed, as in a recording.
		for len(w.ranks) < len(tr.Ranks) && len(w.ranks) <= int(max(e.Rank, e.Peer)) {
			w.addRank(tr.Ranks[len(w.ranks)])
		}
		for len(w.files) < len(tr.Files) && len(w.files) <= int(e.File) {
			w.addFile(tr.Files[len(w.files)])
		}
		if err := w.add(e); err != nil {
			t.Fatal(err)
		}
		if i%most == most-1 {
			w.flush()
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return tr, buf.Bytes(), most
}

// lostOf checks that a damaged file has nothing that the whole one has not, and returns
// how many of the events and of the other entries it lacks.
func lostOf(t *testing.T, what string, whole, got *Trace) (events, others int) {
	t.Helper()
	at := 0
	for _, e := range got.Events {
		for at < len(whole.Events) && whole.Events[at] != e {
			at++
		}
		if at == len(whole.Events) {
			t.Fatalf("%s: event %v is not of the trace", what, e)
		}
		at++
	}
	own := len(got.Warnings)
	for own > 0 && (got.Warnings[own-1].Code == warnDamaged || got.Warnings[own-1].Code == warnCut) {
		own--
	}
	if diff := cmp.Diff(whole.Ranks, got.Ranks) + cmp.Diff(whole.Files, got.Files) + cmp.Diff(whole.Warnings, got.Warnings[:own], cmpopts.EquateEmpty()) +
		cmp.Diff(whole.Properties, got.Properties); diff != "" {
		t.Fatalf("%s: %s", what, diff)
	}
	if got.Job != whole.Job || got.Source != whole.Source || !got.Origin.Equal(whole.Origin) || got.Runtime != whole.Runtime {
		t.Fatalf("%s: %v of %v from %v, %v", what, got.Job, got.Source, got.Origin, got.Runtime)
	}
	others = len(whole.Counters) - len(got.Counters) + len(whole.Striping) - len(got.Striping) + len(whole.Renames) - len(got.Renames)
	return len(whole.Events) - len(got.Events), others
}

// warned returns how many events the warnings say are missing.
func warned(t *Trace) (n int) {
	for _, w := range t.Warnings {
		if w.Code == warnDamaged {
			n += int(w.Count)
		}
	}
	return n
}

// TestFlips changes each byte of a file. It loses one block at most, and says of how
// many events.
func TestFlips(t *testing.T) {
	whole, b, most := manyBlocks(t)
	lossy, tried := 0, 0
	for i := range b {
		for k, x := range []byte{1, 0x80, 0xff} {
			if i%9 != 4*k && !testkit.Nightly() {
				continue
			}
			tried++
			b[i] ^= x
			got, rep, err := Import(bytes.NewReader(b), Options{Lenient: true})
			b[i] ^= x
			if err != nil || rep.Cut == nil {
				t.Fatalf("byte %d changed by %#x: %v, %v", i, x, err, rep.Cut)
			}
			events, others := lostOf(t, "flip", whole, got)
			if events > most || events > 0 && others > 0 || others > 2 {
				t.Fatalf("byte %d changed by %#x: %d events and %d other entries are missing", i, x, events, others)
			}
			if n := warned(got); n != events {
				t.Fatalf("byte %d changed by %#x: %d events are missing, and the warning says %d", i, x, events, n)
			}
			if events+others > 0 {
				lossy++
			}
		}
	}
	if lossy < tried/6 {
		t.Errorf("only %d of %d changes lost something", lossy, tried)
	}
}

// TestDamagedSpots changes, removes, doubles and adds longer pieces. The rest is
// found again.
func TestDamagedSpots(t *testing.T) {
	whole, b, most := manyBlocks(t)
	rng := rand.New(rand.NewPCG(7, 8))
	const longest = 100 // bytes, which touch seven blocks at most
	pieces := 1000
	if testkit.Nightly() {
		pieces = 3000
	}
	for range pieces {
		at := len(magic) + rng.IntN(len(b)-longest-len(magic)) // something must tell the format
		n := 1 + rng.IntN(longest)
		piece := bytes.Clone(b[at : at+n])
		what, damaged := "changed", append([]byte(nil), b...)
		switch rng.IntN(4) {
		case 0:
			for i := range n {
				damaged[at+i] = byte(rng.Uint32())
			}
		case 1:
			what, damaged = "removed", append(damaged[:at], b[at+n:]...)
		case 2:
			what, damaged = "doubled", append(append(damaged[:at], piece...), b[at:]...)
		case 3:
			what, damaged = "added", append(append(damaged[:at], make([]byte, n)...), b[at:]...)
		}
		if bytes.Equal(damaged, b) {
			continue
		}
		got, rep, err := Import(bytes.NewReader(damaged), Options{Lenient: true})
		if err != nil || rep.Cut == nil {
			t.Fatalf("%d bytes at %d %s: %v, %v", n, at, what, err, rep.Cut)
		}
		if events, _ := lostOf(t, what, whole, got); events > 4*most || warned(got) > events {
			t.Fatalf("%d bytes at %d %s: %d events are missing, the warning says %d", n, at, what, events, warned(got))
		}
	}
}

// TestLostNames damages both copies of a table. Its events get other names.
func TestLostNames(t *testing.T) {
	whole, b, _ := manyBlocks(t)
	for i := range b[:len(b)-4] {
		if kind := string(b[i : i+4]); kind == kindFiles || kind == kindRanks {
			b[i+blockHeader]++
		}
	}
	got, rep, err := Import(bytes.NewReader(b), Options{Lenient: true})
	if err != nil || rep.Cut == nil || len(got.Events) != len(whole.Events) {
		t.Fatalf("%d events, %v, %v", len(got.Events), rep.Cut, err)
	}
	used := make(map[int32]bool)
	for _, e := range whole.Events {
		used[e.File] = e.File != None
	}
	delete(used, None)
	if got.Files[0] != "lost file 0" || len(got.Files) < len(used) || got.Ranks[0] != (Rank{None, "lost rank 0"}) {
		t.Errorf("%q, %v", got.Files, got.Ranks)
	}
	encode(t, got)
}

// TestNothingWhole refuses a file without a whole block.
func TestNothingWhole(t *testing.T) {
	b := encode(t, &Trace{Job: "j"})
	for i := headerSize; i < len(b); i++ {
		b[i] ^= 0x55
	}
	var fe *FormatError
	if _, _, err := Import(bytes.NewReader(b), Options{Lenient: true}); !errors.As(err, &fe) {
		t.Error(err)
	}
}
