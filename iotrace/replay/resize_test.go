package replay

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// TestResizeWrites: the trace writes the bytes that were asked for, to a page for each
// large request; small requests keep their size, and requests keep their order and
// touch where they touched.
func TestResizeWrites(t *testing.T) {
	for _, name := range iotracetest.Builtins() {
		rapid.Check(t, func(rt *rapid.T) {
			in, _ := chosen(builtin(t, name, iotracetest.Params{Class: "A", Ranks: rapid.IntRange(1, 5).Draw(rt, "ranks")}))
			before := volumeOf(in)
			want := int64(float64(before) * rapid.Float64Range(0.6, 20).Draw(rt, "factor"))
			out := copied(in)
			if err := resize(out, want); err != nil {
				rt.Fatal(err)
			}
			if err := iotracetest.Valid(out); err != nil {
				rt.Fatal(err)
			}
			large := 0
			for i, e := range in.Events {
				got := out.Events[i]
				if e.Op.Data() && e.Bytes >= largeRequest {
					large++
				} else if name == "dmtcp" && e.Op.Data() && got.Bytes != e.Bytes {
					rt.Fatalf("a request of %d bytes has %d", e.Bytes, got.Bytes)
				}
			}
			if got := volumeOf(out); math.Abs(float64(got-want)) > pageSize*float64(large+1) {
				rt.Fatalf("%s: %d bytes become %d, want %d", name, before, got, want)
			}
			touching(rt, in, out)
		})
	}
}

// copied returns a trace with events of its own.
func copied(t *iotrace.Trace) *iotrace.Trace {
	out := *t
	out.Events = slices.Clone(t.Events)
	return &out
}

// touching fails if an operation that begins where the one before ended, in the same
// file, no longer does, or if a file's operations change their order.
func touching(rt *rapid.T, in, out *iotrace.Trace) {
	last := map[int32]int{}
	for i, e := range in.Events {
		if !e.Op.Data() {
			continue
		}
		if k, ok := last[e.File]; ok {
			a, b := in.Events[k], out.Events[k]
			if a.Offset+a.Bytes == e.Offset && b.Offset+b.Bytes != out.Events[i].Offset {
				rt.Fatalf("event %d no longer touches event %d", i, k)
			}
			if a.Offset <= e.Offset && b.Offset > out.Events[i].Offset {
				rt.Fatalf("event %d is in front of event %d", i, k)
			}
		}
		last[e.File] = i
	}
}

// TestResizeSmall: without large requests all grow; what cannot be is refused.
func TestResizeSmall(t *testing.T) {
	in := &iotrace.Trace{Ranks: []iotrace.Rank{{}}, Files: []string{"a"}, Events: []iotrace.Event{
		{Op: iotrace.Write, Peer: iotrace.None, Bytes: 100}, {Op: iotrace.Write, Peer: iotrace.None, Offset: 100, Bytes: 300}}}
	out := copied(in)
	err := resize(out, 1200)
	if err != nil || volumeOf(out) != 1200 || out.Events[1].Offset != 300 {
		t.Errorf("%v, %+v", err, out)
	}
	in.Events[1].Bytes = largeRequest
	for _, n := range []int64{0, 100, mostBytes + 1} {
		if err := resize(in, n); err == nil {
			t.Errorf("%d bytes were not refused", n)
		}
	}
	in.Events = nil
	if err := resize(in, 10); err == nil {
		t.Error("a trace without writes was resized")
	}
}
