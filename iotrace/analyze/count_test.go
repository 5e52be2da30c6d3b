package analyze

import (
	"slices"
	"testing"

	"ckpt/iotrace"
)

// TestWithoutFile: operations on a file that is not known count as operations, and
// as nothing else.
func TestWithoutFile(t *testing.T) {
	known := pieces(iotrace.Write, 0, 4, 200, 2000)
	unknown := pieces(iotrace.Write, iotrace.None, 4, 200, 0)
	unknown = append(unknown, pieces(iotrace.Read, 7, 1, 1, 300)...)
	unknown = append(unknown, iotrace.Event{Op: iotrace.Close, File: iotrace.None, Offset: iotrace.None, Start: 400 * ms, End: 600 * ms})
	r, want := Analyze(script(4, slices.Concat(unknown, known)...), Options{}), Analyze(script(4, known...), Options{})
	if w := r.operation(iotrace.Write); w.Count != 1600 || r.operation(iotrace.Read).Count != 1 || r.operation(iotrace.Close).Count != 1 {
		t.Errorf("operations %+v", r.Operations)
	}
	if r.Wall <= want.Wall || r.Events != int64(len(known)+len(unknown)) {
		t.Errorf("%d events in %v s", r.Events, r.Wall)
	}
	if r.Writes != 800 || r.BurstsTotal != 1 || r.Bursts[0] != want.Bursts[0] || r.Busy != want.Busy || r.Concurrency != want.Concurrency ||
		r.Bandwidth.Start != want.Bandwidth.Start || !slices.Equal(r.Bandwidth.Write, want.Bandwidth.Write) || r.Balance.MaxTime != want.Balance.MaxTime {
		t.Errorf("got %+v\nwant %+v", r, want)
	}
	if i := found(r, "CK06"); i == nil || evidence(i, "small_write_share") != 1 {
		t.Errorf("%+v", i)
	}
}

// TestCoordinatorAtWork: it is no rank of a burst, nor one at work.
func TestCoordinatorAtWork(t *testing.T) {
	write := func(rank, file int32, start, end int64) iotrace.Event {
		return iotrace.Event{Op: iotrace.Write, Rank: rank, File: file, Bytes: 4096, Start: start * ms, End: end * ms}
	}
	of := func(events ...iotrace.Event) *Report {
		tr := script(2, events...)
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: iotrace.None, Node: "coordinator"})
		tr.Files = []string{"rank-0.img", "rank-1.img", "manifest"}
		return Analyze(tr, Options{})
	}
	r := of(write(0, 0, 0, 10), write(1, 1, 0, 10), write(2, 2, 5, 10), write(2, 2, 10, 40))
	if r.Bursts[0].Ranks != 2 || r.Bursts[0].Count != 4 || r.Concurrency != (Concurrency{Mean: 2, Max: 2}) || r.Busy != 0.04 || r.ActiveRanks != 2 {
		t.Errorf("bursts %+v, %+v, busy %v, %d ranks", r.Bursts, r.Concurrency, r.Busy, r.ActiveRanks)
	}
	// As File.Ranks, a burst that it alone takes part in has none, be it one of
	// several or not.
	manifest := func(r *Report) *File {
		t.Helper()
		i := slices.IndexFunc(r.Files, func(f File) bool { return f.Name == "manifest" })
		if i < 0 {
			t.Fatal("no manifest")
		}
		return &r.Files[i]
	}
	if f := manifest(of(write(0, 0, 0, 10), write(2, 2, 5, 10))); f.Ranks != 0 || f.Bursts[0].Ranks != 0 {
		t.Errorf("one burst: %+v", f.Activity)
	}
	two := manifest(of(write(0, 0, 0, 10), write(2, 2, 5, 10), write(0, 2, 1000, 1010), write(2, 2, 1000, 1010)))
	if len(two.Bursts) != 2 || two.Bursts[0].Ranks != 0 || two.Bursts[1].Ranks != 1 {
		t.Errorf("two bursts: %+v", two.Bursts)
	}
	if r := of(write(2, 2, 5, 10)); r.Concurrency != (Concurrency{}) || r.Busy != 0.005 || r.Bursts[0].Ranks != 0 {
		t.Errorf("it alone: %+v", r)
	}
}

// TestOperationBytes: only what moves bytes has any.
func TestOperationBytes(t *testing.T) {
	var events []iotrace.Event
	for op := iotrace.Open; op.Valid(); op++ {
		events = append(events, iotrace.Event{Op: op, Offset: iotrace.None, Bytes: 100 << 30})
	}
	moving := []string{"read", "write", "gather", "encode"}
	for _, o := range Analyze(script(1, events...), Options{}).Operations {
		if slices.Contains(moving, o.Op) != (o.Bytes > 0) {
			t.Errorf("%+v", o)
		}
	}
}

// TestZoneOperations: time and bytes of the zones of memory are those of their events, and
// traces of other recorders have none.
func TestZoneOperations(t *testing.T) {
	const data = 2
	event := func(op iotrace.Op, zone iotrace.Zone, bytes int64) iotrace.Event {
		return iotrace.Event{Op: op, Zone: zone, Offset: iotrace.None, Bytes: bytes, End: 2e6}
	}
	got := Analyze(script(1, event(iotrace.Encode, data, 100), event(iotrace.Write, data, 60), event(iotrace.Write, data, 40), event(iotrace.Barrier, 0, 0)), Options{}).Zones
	want := []ZoneOperation{{"data", Operation{"write", 2, 100, 0.004}}, {"data", Operation{"encode", 1, 100, 0.002}}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if none := Analyze(script(1, event(iotrace.Write, 0, 5)), Options{}).Zones; len(none) > 0 {
		t.Errorf("%+v without a zone", none)
	}
}
