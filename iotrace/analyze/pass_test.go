package analyze

import (
	"math/rand/v2"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// reopened makes one rank open a file and do the requests of each pass, with a pause
// after every fifth pass.
func reopened(passes int, open iotrace.Event, pass func() []iotrace.Event) *iotrace.Trace {
	var events []iotrace.Event
	now := int64(0)
	for k := range passes {
		for _, e := range append([]iotrace.Event{open}, pass()...) {
			e.Start, e.End = now, now+ms
			now += ms
			events = append(events, e)
		}
		if k%5 == 4 {
			now += 1000 * ms
		}
	}
	return script(1, events...)
}

// TestPasses: a file that is written, or read, in order again and again is sequential.
// The bytes are written again only if the file was not empty before.
func TestPasses(t *testing.T) {
	const size, passes = 4 << 20, 12
	opens := iotrace.Event{Op: iotrace.Open, Offset: iotrace.None}
	makes := opens
	makes.Create = true
	empties := iotrace.Event{Op: iotrace.Truncate, Offset: iotrace.None}
	for name, open := range map[string]iotrace.Event{"opened": opens, "made": makes, "emptied": empties} {
		for _, op := range []iotrace.Op{iotrace.Read, iotrace.Write} {
			for n := range int64(10) {
				r := Analyze(reopened(passes, open, func() (out []iotrace.Event) {
					for i := range n + 1 {
						out = append(out, iotrace.Event{Op: op, Offset: 1000 + i*size, Bytes: size})
					}
					return out
				}), Options{})
				f := r.Files[0]
				if f.Spatial != pattern.SequentialAccess || len(f.Bursts) != 3 || f.Bursts[1].Spatial != pattern.SequentialAccess {
					t.Errorf("%s, %d × %v: %v, bursts %+v", name, n+1, op, f.Detail, f.Bursts)
				}
				again := (passes - 1) * (n + 1) * size
				switch {
				case op == iotrace.Read && name == "opened" && f.Redundant.BytesReread != again:
					t.Errorf("%d × read: %d bytes read again, want %d", n+1, f.Redundant.BytesReread, again)
				case op == iotrace.Write && name == "opened" && f.Redundant.Overwritten != again:
					t.Errorf("%d × write: %d bytes written again, want %d", n+1, f.Redundant.Overwritten, again)
				case name != "opened" && f.Redundant.Overwritten+f.Redundant.BytesReread != 0:
					t.Errorf("%s, %d × %v: redundant %+v", name, n+1, op, f.Redundant)
				}
			}
		}
	}
}

// TestPassesInNoOrder: opening a file again makes no order.
func TestPassesInNoOrder(t *testing.T) {
	open := iotrace.Event{Op: iotrace.Open, Offset: iotrace.None}
	rng := rand.New(rand.NewPCG(1, 1))
	anywhere := func(n int) []iotrace.Event {
		var out []iotrace.Event
		for range n {
			out = append(out, iotrace.Event{Op: iotrace.Read, Offset: rng.Int64N(1e6) * 4096, Bytes: 4096})
		}
		return out
	}
	sweep := func() (out []iotrace.Event) {
		for i := range int64(20) {
			out = append(out, at(iotrace.Read, 0, 10*i, 1))
		}
		return out
	}
	head := iotrace.Event{Op: iotrace.Read, Bytes: 100}
	for name, c := range map[string]struct {
		pass func() []iotrace.Event
		want pattern.Spatial
	}{
		"a record each":              {func() []iotrace.Event { return anywhere(1) }, pattern.RandomAccess},
		"20 records each":            {func() []iotrace.Event { return anywhere(20) }, pattern.RandomAccess},
		"a header and 20 of them":    {func() []iotrace.Event { return append([]iotrace.Event{head}, anywhere(20)...) }, pattern.RandomAccess},
		"a strided sweep each":       {sweep, pattern.StridedAccess},
		"the same place, and others": {func() []iotrace.Event { return append(anywhere(3), head) }, pattern.RandomAccess},
	} {
		if f := Analyze(reopened(100, open, c.pass), Options{}).Files[0]; f.Spatial != c.want {
			t.Errorf("%s: %v (%v), want %v", name, f.Spatial, f.Detail, c.want)
		}
	}
}

// TestEmptyRequests: reads at the end of a file move nothing and have no pattern.
func TestEmptyRequests(t *testing.T) {
	var events []iotrace.Event
	for range 200 {
		events = append(events, at(iotrace.Read, 0, 7, 0))
	}
	f := Analyze(script(1, timed(1, events...)...), Options{}).Files[0]
	if f.Spatial != pattern.SequentialAccess || f.Detail != pattern.NoDetail || f.ReadSpatial != "" || f.Reads != 200 {
		t.Errorf("nothing but empty reads: %v (%v), reads %q, %d", f.Spatial, f.Detail, f.ReadSpatial, f.Reads)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		events = append(events, at(iotrace.Read, 0, rng.Int64N(1e6), 1))
	}
	if f := Analyze(script(1, timed(1, events...)...), Options{}).Files[0]; f.ReadSpatial != pattern.RandomAccess {
		t.Errorf("and 100 random ones: %v (%v)", f.ReadSpatial, f.ReadDetail)
	}
}
