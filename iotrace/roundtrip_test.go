package iotrace_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func encode(t testing.TB, tr *iotrace.Trace) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := iotrace.WriteTrace(&buf, tr); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := iotracetest.AnyFull().Draw(t, "trace")
		if err := iotracetest.Valid(want); err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if err := iotrace.WriteTrace(&buf, want); err != nil {
			t.Fatal(err)
		}
		got, err := iotrace.ReadTrace(iotest.HalfReader(&buf))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestSize holds the file to what it is for: 12 bytes an event, with times of
// nanoseconds and sizes that do not repeat.
func TestSize(t *testing.T) {
	for name, tr := range traces() {
		b := encode(t, tr)
		per := float64(len(b)) / float64(len(tr.Events))
		t.Logf("%s: %d events, %.2f bytes each", name, len(tr.Events), per)
		if limit := 12.0; per > limit && name != "many ranks" {
			t.Errorf("%s: %.2f bytes an event", name, per)
		}
		got, err := iotrace.ReadTrace(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(tr, got) { // Diff takes long
			t.Error(cmp.Diff(tr, got))
		}
	}
}

// TestGolden checks that the format stays what it is, byte by byte, and stays
// readable.
func TestGolden(t *testing.T) {
	tr := iotracetest.Full()
	b := encode(t, tr)
	name := filepath.Join("testdata", "golden.trace")
	if *update {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%d bytes, the golden file has others", len(b))
	}
	got, err := iotrace.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tr, got); diff != "" {
		t.Error(diff)
	}
}

// TestVersion1 reads a file of the first version.
func TestVersion1(t *testing.T) {
	got, err := iotrace.ReadFile(filepath.Join("testdata", "golden-v1.trace"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(iotracetest.Golden(), got); diff != "" {
		t.Error(diff)
	}
}

// TestEach: a caller that is handed the events has all of them, and gets the rest of the trace.
func TestEach(t *testing.T) {
	for _, name := range []string{"golden-v1.trace", "golden.trace"} {
		want, err := iotrace.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var events []iotrace.Event
		got, _, err := iotrace.Import(f, iotrace.Options{Events: 1 << 40, Each: func(list []iotrace.Event) { events = append(events, list...) }})
		if err != nil || len(got.Events) > 0 {
			t.Fatalf("%s: %v, with %d events", name, err, len(got.Events))
		}
		got.Events = events
		got.Sort()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestMerge takes a trace apart by rank, as ranks record it, and puts it
// together.
func TestMerge(t *testing.T) {
	whole := iotracetest.Aggregated(8, 5, 2)
	rng := rand.New(rand.NewPCG(3, 4))
	var parts []*iotrace.Trace
	for r := range whole.Ranks {
		p := &iotrace.Trace{Job: whole.Job, Source: whole.Source, Origin: whole.Origin.Add(time.Duration(rng.IntN(1000)))}
		if r == 0 {
			p.Origin = whole.Origin
		}
		shift := int64(p.Origin.Sub(whole.Origin))
		ranks, files := map[int32]int32{iotrace.None: iotrace.None}, map[int32]int32{iotrace.None: iotrace.None}
		rank := func(i int32) int32 {
			if _, ok := ranks[i]; !ok {
				ranks[i] = int32(len(p.Ranks))
				k := whole.Ranks[i]
				if int(i) != r {
					k.Node = "" // of the others it is not known where they are
				}
				p.Ranks = append(p.Ranks, k)
			}
			return ranks[i]
		}
		rank(int32(r))
		for _, e := range whole.Events {
			if int(e.Rank) != r {
				continue
			}
			if _, ok := files[e.File]; !ok {
				files[e.File] = int32(len(p.Files))
				p.Files = append(p.Files, whole.Files[e.File])
			}
			e.Rank, e.Peer, e.File = rank(e.Rank), rank(e.Peer), files[e.File]
			e.Start -= shift
			e.End -= shift
			p.Events = append(p.Events, e)
		}
		parts = append(parts, p)
	}
	got, err := iotrace.Merge(parts...)
	if err != nil {
		t.Fatal(err)
	}
	if err := iotracetest.Valid(got); err != nil {
		t.Fatal(err)
	}
	if cmp.Diff(whole.Origin, got.Origin) != "" || len(got.Ranks) != len(whole.Ranks) || got.Job != whole.Job || got.Source != whole.Source {
		t.Errorf("%v, %d ranks, job %q of %q", got.Origin, len(got.Ranks), got.Job, got.Source)
	}
	named := func(t *iotrace.Trace) (out []string) {
		for _, e := range t.Events {
			s := t.Files[e.File]
			if e.Peer != iotrace.None {
				s += t.Ranks[e.Peer].Node
			}
			k := t.Ranks[e.Rank]
			e.Rank, e.File, e.Peer = 0, 0, 0
			out = append(out, cmp.Diff(nil, e)+s+k.Node)
		}
		return out
	}
	if diff := cmp.Diff(named(whole), named(got)); diff != "" {
		t.Error(diff)
	}
}
