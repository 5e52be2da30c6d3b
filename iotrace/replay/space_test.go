package replay

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// TestScaleBytes: each request stays, in its order, touches where it touched, and has
// the factor times its bytes, up to a byte or a page.
func TestScaleBytes(t *testing.T) {
	for _, name := range iotracetest.Builtins() {
		rapid.Check(t, func(rt *rapid.T) {
			in, _ := chosen(builtin(t, name, iotracetest.Params{Class: "A", Ranks: rapid.IntRange(1, 5).Draw(rt, "ranks")}))
			factor := rapid.Float64Range(0.001, 20).Draw(rt, "factor")
			out := copied(in)
			if err := scaleBytes(out, factor); err != nil {
				rt.Fatal(err)
			}
			if err := iotracetest.Valid(out); err != nil {
				rt.Fatal(err)
			}
			for i, e := range in.Events {
				got, want := out.Events[i], factor*float64(e.Bytes)
				if !e.Op.Data() || e.Bytes == 0 {
					continue
				}
				if got.Bytes < 1 || float64(got.Bytes) > want+pageSize || float64(got.Bytes) < want-pageSize {
					rt.Fatalf("event %d: %d bytes became %d, times %g", i, e.Bytes, got.Bytes, factor)
				}
				if far := float64(e.Offset) * factor; float64(got.Offset) > far+1 || float64(got.Offset) < far-pageSize {
					rt.Fatalf("event %d: offset %d became %d, times %g", i, e.Offset, got.Offset, factor)
				}
			}
		})
	}
	in := &iotrace.Trace{Ranks: []iotrace.Rank{{}}, Files: []string{"pages", "bytes"}, Events: []iotrace.Event{
		{Op: iotrace.Write, Peer: iotrace.None, Bytes: 8 * pageSize}, {Op: iotrace.Write, Peer: iotrace.None, Offset: 8 * pageSize, Bytes: pageSize},
		{Op: iotrace.Write, Peer: iotrace.None, File: 1, Offset: iotrace.None, Bytes: 100}, {Op: iotrace.Truncate, Peer: iotrace.None, File: 1, Bytes: 1000}}}
	if err := scaleBytes(in, 0.25); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]int64{{0, 2 * pageSize}, {2 * pageSize, pageSize}, {iotrace.None, 25}, {0, 250}} {
		if e := in.Events[i]; e.Offset != want[0] || e.Bytes != want[1] {
			t.Errorf("%d: %d bytes at %d, want %v", i, e.Bytes, e.Offset, want)
		}
	}
	for _, factor := range []float64{-1, mostFactor * 2} {
		if err := scaleBytes(in, factor); err == nil {
			t.Errorf("a factor of %g was not refused", factor)
		}
	}
	in.Events[0].Bytes = 1 << 60
	if err := scaleBytes(in, 100); err == nil {
		t.Error("a file without an end was not refused")
	}
}

// TestNoSpace: a replay that does not fit makes no file, and a smaller one does.
func TestNoSpace(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{}}, Files: []string{"read", "written", "removed", "again"}, Events: []iotrace.Event{
		{Op: iotrace.Read, Peer: iotrace.None, Bytes: 10 * pageSize},
		{Op: iotrace.Write, Peer: iotrace.None, File: 1, Bytes: 4 * pageSize, Start: 1, End: 1},
		{Op: iotrace.Write, Peer: iotrace.None, File: 1, Bytes: 4 * pageSize, Start: 2, End: 2},                   // over the first
		{Op: iotrace.Write, Peer: iotrace.None, File: 2, Offset: 1 << 40, Bytes: 16 * pageSize, Start: 3, End: 3}, // behind a hole
		{Op: iotrace.Unlink, Peer: iotrace.None, File: 2, Start: 4, End: 4},
		{Op: iotrace.Write, Peer: iotrace.None, File: 3, Bytes: 6*pageSize + 1, Start: 5, End: 5}}}
	for _, c := range []struct {
		free   int64
		factor float64
		fits   bool
	}{{30*pageSize - 1, 0, false}, {30 * pageSize, 0, true}, {15 * pageSize, 0.5, true}, {14 * pageSize, 0.5, false}} {
		m := newMemFS()
		m.free = c.free
		_, err := Run(t.Context(), tr, Options{fs: m, Dir: "/", ScaleBytes: c.factor})
		var space *SpaceError
		switch {
		case c.fits && err != nil, !c.fits && !errors.As(err, &space):
			t.Errorf("%+v: %v", c, err)
		case !c.fits && (len(m.names()) > 0 || space.Factor() >= 1):
			t.Errorf("%+v: %v, factor %g", c, m.names(), space.Factor())
		}
	}
	if _, err := Run(t.Context(), tr, Options{fs: newMemFS(), Dir: "/", ScaleBytes: 2, Bytes: 100}); err == nil {
		t.Error("two sizes were not refused")
	}
}

// TestPlanningStops: an interrupt ends the planning, before a file is made.
func TestPlanningStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m := newMemFS()
	if _, err := Run(ctx, builtin(t, "dmtcp", iotracetest.Params{Ranks: 2}), Options{fs: m, Dir: "/new"}); !errors.Is(err, context.Canceled) || len(m.names()) > 0 {
		t.Errorf("%v, %v", err, m.names())
	}
}
