package analyze

import (
	"slices"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

// TestWhoWritesPieces: CK06 is about ranks that write, and about writes.
func TestWhoWritesPieces(t *testing.T) {
	const ranks = 16
	read := append(pieces(iotrace.Write, 0, 1, 1, 0), pieces(iotrace.Read, 0, ranks, 1, 2)...)
	if i := found(Analyze(script(ranks, read...), Options{}), "CK06"); i != nil {
		t.Errorf("one writes, all read: %+v", i)
	}
	// All write large blocks, and read small pieces of them.
	var blocks []iotrace.Event
	for r := range int64(ranks) {
		blocks = append(blocks, iotrace.Event{Op: iotrace.Write, Rank: int32(r), Offset: r * 64 << 20, Bytes: 64 << 20, End: ms})
	}
	if i := found(Analyze(script(ranks, append(blocks, pieces(iotrace.Read, 0, ranks, 20, 2)...)...), Options{}), "CK06"); i != nil {
		t.Errorf("blocks that are read in pieces: %+v", i)
	}
	// All write pieces, in no time; what takes time is reading them.
	quick := pieces(iotrace.Write, 0, ranks, 1, 0)
	for i := range quick {
		quick[i].End = quick[i].Start
	}
	if i := found(Analyze(script(ranks, append(quick, pieces(iotrace.Read, 0, ranks, 20, 2)...)...), Options{}), "CK06"); i != nil {
		t.Errorf("pieces in no time: %+v", i)
	}
	// Eight of sixteen ranks write pieces, more of the second file; all read them.
	some := append(pieces(iotrace.Write, 0, 8, 2, 0), pieces(iotrace.Write, 1, 8, 20, 2)...)
	some = append(some, pieces(iotrace.Read, 1, ranks, 1, 20)...)
	i := found(Analyze(script(ranks, some...), Options{}), "CK06")
	if i == nil || i.File != "g" || evidence(i, "writers") != 8 || evidence(i, "small_write_share") != 1 {
		t.Errorf("half of the ranks write: %+v", i)
	}
	// The coordinator is no rank that writes.
	tr := script(8, pieces(iotrace.Write, 0, 4, 10, 0)...)
	tr.Ranks[3].Rank = iotrace.None
	if i := found(Analyze(tr, Options{}), "CK06"); i != nil {
		t.Errorf("three ranks and the coordinator: %+v", i)
	}
}

// TestSharedLog: a log to which all ranks append a line is one stripe that all write,
// and nothing to change, as long as writing it takes no time.
func TestSharedLog(t *testing.T) {
	for took, want := range map[int64]bool{1: false, 200: true} {
		var events []iotrace.Event
		for r := range int64(4) {
			events = append(events, iotrace.Event{Op: iotrace.Write, Rank: int32(r), File: 1, Offset: 80 * r, Bytes: 80, Start: r * 200 * ms, End: (r*200 + took) * ms},
				iotrace.Event{Op: iotrace.Write, Rank: int32(r), Offset: r << 30, Bytes: 1 << 30, Start: 1000 * ms, End: 1800 * ms})
		}
		if i := found(Analyze(script(4, events...), Options{}), "CK03"); (i != nil) != want {
			t.Errorf("lines that take %d ms: %+v", took, i)
		}
	}
}

// TestTurnsWithoutTimes: a trace without durations does not show which ranks are
// active when.
func TestTurnsWithoutTimes(t *testing.T) {
	var events []iotrace.Event
	for k := range int64(50) {
		for r := range int32(8) {
			events = append(events, iotrace.Event{Op: iotrace.Write, Rank: r, Offset: k << 20, Bytes: 1 << 20, Start: k, End: k})
		}
	}
	r := Analyze(script(8, events...), Options{})
	if i := found(r, "CK08"); i != nil || r.Concurrency != (Concurrency{Mean: 1, Max: 1}) {
		t.Errorf("%+v, %+v", r.Concurrency, i)
	}
}

// TestMisalignedPlaced: requests of which nobody knows where they begin do not
// begin within a stripe.
func TestMisalignedPlaced(t *testing.T) {
	for placed, want := range map[int64]bool{60: false, 200: true} {
		var events []iotrace.Event
		for k := range placed {
			events = append(events, iotrace.Event{Op: iotrace.Write, Offset: 7 + k*3_000_000, Bytes: 1_000_000, Start: k * ms, End: k*ms + 900_000})
		}
		for k := range int64(2_000) {
			at := (placed + k) * ms
			events = append(events, iotrace.Event{Op: iotrace.Write, Offset: iotrace.None, Bytes: 1 << 20, Start: at, End: at + 1})
		}
		if i := found(Analyze(script(1, events...), Options{}), "CK02"); (i != nil) != want {
			t.Errorf("%d in a known place: %+v", placed, i)
		}
	}
}

// TestLayoutByName: the names of the images tell the layout of a job of ckpt, however
// many ranks write them.
func TestLayoutByName(t *testing.T) {
	gather := iotrace.Event{Op: iotrace.Gather, File: iotrace.None, Offset: iotrace.None}
	for _, c := range []struct {
		file, source string
		has          finding.Remedy // the layout that nothing advises
		aggregated   bool           // CK01 advises aggregators with files of their own
	}{
		{"0001/job.img", "ckpt", finding.LayoutShared, true},
		{"0001/aggregator-0.img", "ckpt", finding.LayoutAggregated, false},
		{"0001/rank-0.img", "ckpt", finding.LayoutPerRank, false},
		{"0001/job.img", "strace", finding.LayoutAggregated, false}, // somebody else's
	} {
		events := []iotrace.Event{gather}
		events = append(events, pieces(iotrace.Write, 0, 1, 200, 0)...)
		for k := range int64(1500) {
			events = append(events, iotrace.Event{Op: iotrace.Open, Offset: iotrace.None, Start: (200 + k) * ms, End: (201 + k) * ms})
		}
		tr := script(4, events...)
		tr.Files, tr.Source = []string{c.file, "0001/manifest.json.tmp"}, c.source
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, File: 1, Bytes: 100, Start: 2000 * ms, End: 2001 * ms})
		r := Analyze(tr, Options{})
		small := found(r, "CK01")
		if small == nil || found(r, "CK21") == nil {
			t.Fatalf("%s: %v", c.file, codes(r))
		}
		if got := slices.Contains(small.Remedies, finding.LayoutAggregated); got != c.aggregated {
			t.Errorf("%s of %s: %v, %s", c.file, c.source, small.Remedies, small.Advice)
		}
		if slices.Contains(small.Remedies, finding.Aggregators) {
			t.Errorf("%s of %s: one writer can be no fewer: %q", c.file, c.source, small.Remedies)
		}
		for _, i := range r.Insights {
			if slices.Contains(i.Remedies, c.has) {
				t.Errorf("%s of %s: %s: %q", c.file, c.source, i.Code, i.Remedies)
			}
		}
	}
}
