package replay

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

func scaled(tb testing.TB, t *iotrace.Trace, n int) *iotrace.Trace {
	tb.Helper()
	kept, _ := chosen(t)
	out, err := scale(context.Background(), kept, n)
	if err != nil {
		tb.Fatal(err)
	}
	if err := iotracetest.Valid(out); err != nil {
		tb.Fatal(err)
	}
	return out
}

// places of reads and writes by rank, in order.
func offsets(t *iotrace.Trace) map[int][]string {
	out := make(map[int][]string)
	for _, e := range t.Events {
		if e.Op.Data() {
			r := t.Ranks[e.Rank].Rank
			out[r] = append(out[r], fmt.Sprintf("%s %s %d+%d", e.Op, t.Files[e.File], e.Offset, e.Bytes))
		}
	}
	return out
}

// TestScaleMiniGhost: MiniGhost of 4 ranks and 2 aggregators, made 8, 16 or 2, is
// MiniGhost of as many ranks, to the last offset: the pieces of the header of all
// ranks in turn, and behind it the variables, each in parts of the aggregators.
func TestScaleMiniGhost(t *testing.T) {
	small := iotracetest.Params{Class: "A", Ranks: 4, Aggregators: 2, Buffer: 1 << 20}
	for _, n := range []int{2, 8, 16} {
		large := small
		large.Ranks, large.Aggregators = n, n/2
		got := scaled(t, builtin(t, "minighost", small), n)
		if diff := cmp.Diff(offsets(builtin(t, "minighost", large)), offsets(got)); diff != "" {
			t.Errorf("%d ranks: %s", n, diff)
		}
	}
}

// TestScaleFiles: files that ranks have alone are there again under the new numbers.
func TestScaleFiles(t *testing.T) {
	got := scaled(t, builtin(t, "dmtcp", iotracetest.Params{Class: "A", Ranks: 4}), 6)
	var want []string
	for r := range 6 {
		want = append(want, fmt.Sprintf("ckpt_bt.A.4_rank%d.dmtcp", r))
	}
	files := slices.Sorted(slices.Values(got.Files))
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
	by := offsets(got)
	if diff := cmp.Diff(by[0], renumber(by[4], "rank4", "rank0")); diff != "" {
		t.Error(diff)
	}
	if got.Ranks[4].Node != "node0+1" || got.Ranks[3].Node != "node0" {
		t.Errorf("%+v", got.Ranks)
	}

	// Numbers as process ids have them, and a file without a number.
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 907}, {Rank: iotrace.None, Node: "coordinator"}, {Rank: 31}}, Files: []string{"/x/007/31.log", "/x/out", "/x/manifest"},
		Events: []iotrace.Event{{Op: iotrace.Write, Rank: 2, File: 0, Peer: iotrace.None, Bytes: 1}, {Op: iotrace.Write, Rank: 0, File: 1, Peer: iotrace.None, Bytes: 1},
			{Op: iotrace.Rename, Rank: 1, File: 2, Peer: iotrace.None, Offset: iotrace.None}}}
	got = scaled(t, tr, 5)
	if diff := cmp.Diff([]string{"/x/007/1783.log", "/x/007/31.log", "/x/007/3535.log", "/x/manifest", "/x/out", "/x/out.rank-2659"}, slices.Sorted(slices.Values(got.Files))); diff != "" {
		t.Error(diff)
	}
	if n := len(got.Events); n != 6 {
		t.Errorf("%d events: the coordinator is there once", n)
	}
	// One rank only.
	if got := scaled(t, tr, 1); len(got.Events) != 2 || len(got.Files) != 2 {
		t.Errorf("%+v", got)
	}
}

func renumber(lines []string, from, to string) []string {
	out := slices.Clone(lines)
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], from, to)
	}
	return out
}

// TestSpread: where the requests of new ranks to a shared file go.
func TestSpread(t *testing.T) {
	type request struct{ rank, off, bytes int64 }
	for name, c := range map[string]struct {
		traced, want []request
		n            int
	}{
		"parts of their own": {
			[]request{{0, 0, 5}, {0, 5, 5}, {1, 10, 5}, {1, 15, 5}},
			[]request{{0, 0, 5}, {0, 5, 5}, {1, 10, 5}, {1, 15, 5}, {2, 20, 5}, {2, 25, 5}}, 3},
		"in turn": {
			[]request{{0, 0, 5}, {1, 5, 5}, {0, 10, 5}, {1, 15, 5}},
			[]request{{0, 0, 5}, {1, 5, 5}, {2, 10, 5}, {0, 15, 5}, {1, 20, 5}, {2, 25, 5}}, 3},
		"with holes": {
			[]request{{0, 7, 5}, {1, 27, 5}},
			[]request{{0, 7, 5}, {1, 27, 5}, {2, 47, 5}, {3, 67, 5}}, 4},
		"from behind": {
			[]request{{0, 20, 10}, {1, 10, 10}, {2, 0, 10}},
			[]request{{0, 30, 10}, {1, 20, 10}, {2, 10, 10}, {3, 0, 10}}, 4},
		"the same place": {
			[]request{{0, 100, 10}, {1, 100, 10}},
			[]request{{0, 100, 10}, {1, 100, 10}, {2, 100, 10}}, 3},
		"fewer": {
			[]request{{0, 0, 4}, {1, 4, 4}, {2, 8, 4}, {0, 12, 4}, {1, 16, 4}, {2, 20, 4}},
			[]request{{0, 0, 4}, {1, 4, 4}, {0, 8, 4}, {1, 12, 4}}, 2},
		"a header of one, then parts": {
			[]request{{0, 0, 8}, {0, 8, 5}, {1, 13, 5}},
			// No rule for rank 0, since rank 1 does not do the same: the copy follows.
			[]request{{0, 0, 8}, {0, 8, 5}, {1, 13, 5}, {2, 18, 8}, {2, 26, 5}, {3, 31, 5}}, 4},
		"anywhere": {
			[]request{{0, 3, 5}, {1, 50, 5}, {2, 20, 5}},
			[]request{{0, 3, 5}, {1, 50, 5}, {2, 20, 5}, {3, 58, 5}}, 4},
		"two kinds of ranks": {
			[]request{{0, 0, 6}, {1, 8, 2}, {2, 16, 6}, {3, 24, 2}},
			[]request{{0, 0, 6}, {1, 8, 2}, {2, 16, 6}, {3, 24, 2}, {4, 32, 6}, {5, 40, 2}}, 6},
		"by rank, not by member": {
			[]request{{0, 0, 6}, {1, 10, 6}, {2, 20, 3}, {3, 30, 6}},
			[]request{{0, 0, 6}, {1, 10, 6}, {2, 20, 3}, {3, 30, 6}, {4, 40, 6}}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &iotrace.Trace{Files: []string{"f"}}
			for _, q := range c.traced {
				for int64(len(tr.Ranks)) <= q.rank {
					tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: len(tr.Ranks)})
				}
				tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(q.rank), File: 0, Peer: iotrace.None, Offset: q.off, Bytes: q.bytes})
			}
			var got []request
			for _, e := range scaled(t, tr, c.n).Events {
				got = append(got, request{int64(e.Rank), e.Offset, e.Bytes})
			}
			// By place: events are in the order of the trace, copies beside each other.
			order := func(r []request) []request {
				r = slices.Clone(r)
				slices.SortStableFunc(r, func(a, b request) int { return int(a.rank - b.rank) })
				return r
			}
			if diff := cmp.Diff(order(c.want), order(got), cmp.AllowUnexported(request{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestScaleOthers: what the coordinator, which is there once, does behind the parts of
// the ranks is behind them again, and copies without a rule keep off it.
func TestScaleOthers(t *testing.T) {
	event := func(op iotrace.Op, rank int32, off, n int64) iotrace.Event {
		return iotrace.Event{Op: op, Rank: rank, File: 0, Peer: iotrace.None, Offset: off, Bytes: n}
	}
	const coordinator = 2
	for name, c := range map[string]struct {
		events []iotrace.Event
		n      int
		want   map[int][]string
	}{
		"more": {[]iotrace.Event{event(iotrace.Truncate, coordinator, iotrace.None, 250), event(iotrace.Write, coordinator, 0, 10), event(iotrace.Write, 0, 10, 95), event(iotrace.Write, 1, 105, 95), event(iotrace.Write, coordinator, 200, 50)}, 4,
			map[int][]string{-1: {"truncate 440", "write 0+10", "write 390+50"}, 0: {"write 10+95"}, 1: {"write 105+95"}, 2: {"write 200+95"}, 3: {"write 295+95"}}},
		"fewer": {[]iotrace.Event{event(iotrace.Write, 0, 0, 100), event(iotrace.Write, 1, 100, 100), event(iotrace.Write, coordinator, 200, 50)}, 1,
			map[int][]string{-1: {"write 100+50"}, 0: {"write 0+100"}}},
		"no rule": {[]iotrace.Event{event(iotrace.Write, 0, 0, 100), event(iotrace.Write, 1, 100, 7), event(iotrace.Write, coordinator, 200, 50)}, 3,
			map[int][]string{-1: {"write 200+50"}, 0: {"write 0+100"}, 1: {"write 100+7"}, 2: {"write 250+100"}}},
		"pinned": {[]iotrace.Event{event(iotrace.Write, 0, 0, 100), event(iotrace.Write, 1, 100, 100), event(iotrace.Write, coordinator, 150, 100)}, 1,
			map[int][]string{-1: {"write 150+100"}, 0: {"write 0+100"}}},
	} {
		tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}, {Rank: iotrace.None, Node: "coordinator"}}, Files: []string{"job.img"}, Events: c.events}
		got := make(map[int][]string)
		out := scaled(t, tr, c.n)
		for _, e := range out.Events {
			s := fmt.Sprintf("%s %d+%d", e.Op, e.Offset, e.Bytes)
			if e.Op == iotrace.Truncate {
				s = fmt.Sprintf("%s %d", e.Op, e.Bytes)
			}
			got[out.Ranks[e.Rank].Rank] = append(got[out.Ranks[e.Rank].Rank], s)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestScaleNames: files that are apart stay so, whatever their copies would be called.
func TestScaleNames(t *testing.T) {
	for _, c := range []struct {
		files []string // of two ranks in turn
		n     int
	}{
		{[]string{"x-0", "x-1", "x-00", "x-01"}, 12},                                  // leading zeros
		{[]string{"a", "b", "a.rank-2", "b.rank-3"}, 4},                               // what a copy would be called
		{[]string{"x-0", "x-1", "x-00", "x-01", "x-10.rank-10", "x-000.rank-11"}, 12}, // and what it would be called then
		{[]string{"x0", "x1", "x2", "x3"}, 8},
	} {
		tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: c.files}
		for i := range c.files {
			for k := range int64(2) { // the second write is to the same file
				tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(i % 2), File: int32(i), Peer: iotrace.None, Offset: 10 * k, Bytes: 10, Start: k, End: k})
			}
		}
		tr.Sort()
		got := scaled(t, tr, c.n)
		if files := len(slices.Compact(slices.Sorted(slices.Values(got.Files)))); files != c.n*len(c.files)/2 || files != len(got.Files) {
			t.Errorf("%q made %q", c.files, got.Files)
		}
		for i, e := range got.Events {
			for _, f := range got.Events[:i] {
				if e.File == f.File && e.Rank != f.Rank {
					t.Errorf("ranks %d and %d share %s", e.Rank, f.Rank, got.Files[e.File])
				}
			}
		}
	}
}

// TestScaleProperties: whatever the pattern, each new rank does as much as the one
// that it copies, and ranks that wrote apart still do.
func TestScaleProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shared := rapid.Bool().Draw(rt, "shared")
		k := rapid.IntRange(2, 6).Draw(rt, "ranks")
		tr := iotracetest.Generate(iotracetest.Spec{Pattern: rapid.SampledFrom(iotracetest.Patterns()).Draw(rt, "pattern"), Shared: shared,
			Variable: rapid.Bool().Draw(rt, "variable"), Ranks: k, Ops: rapid.IntRange(1, 30).Draw(rt, "ops"), Size: 4096, Bursts: rapid.IntRange(1, 2).Draw(rt, "bursts"),
			Seed: rapid.Uint64().Draw(rt, "seed")})
		n := rapid.IntRange(1, 20).Draw(rt, "n")
		got := scaled(t, tr, n)
		type done struct {
			op    iotrace.Op
			bytes int64
		}
		sums := func(t *iotrace.Trace) map[int][]done {
			out := make(map[int][]done)
			for _, e := range t.Events {
				out[t.Ranks[e.Rank].Rank] = append(out[t.Ranks[e.Rank].Rank], done{e.Op, e.Bytes})
			}
			return out
		}
		before, after := sums(tr), sums(got)
		for r := range n {
			if diff := cmp.Diff(before[r%k], after[r], cmp.AllowUnexported(done{})); diff != "" {
				rt.Fatal(r, diff)
			}
		}
		if !overlap(tr) && overlap(got) {
			rt.Fatalf("%d ranks made %d write on each other", k, n)
		}
	})
}

// overlap reports whether two ranks write the same byte.
func overlap(t *iotrace.Trace) bool {
	writes := slices.DeleteFunc(slices.Clone(t.Events), func(e iotrace.Event) bool { return e.Op != iotrace.Write })
	slices.SortFunc(writes, func(a, b iotrace.Event) int {
		if a.File != b.File {
			return int(a.File - b.File)
		}
		return int(a.Offset - b.Offset)
	})
	for i := 1; i < len(writes); i++ {
		a, b := writes[i-1], writes[i]
		if a.File == b.File && a.Rank != b.Rank && b.Offset < a.Offset+a.Bytes {
			return true
		}
	}
	return false
}

// TestScaleRefused: too many of anything.
func TestScaleRefused(t *testing.T) {
	tr := iotracetest.PerRank(4, 5, 1)
	far := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"f"}, Events: []iotrace.Event{
		{Op: iotrace.Write, Rank: 0, Peer: iotrace.None, Offset: 0, Bytes: 1}, {Op: iotrace.Write, Rank: 1, Peer: iotrace.None, Offset: math.MaxInt64 / 2, Bytes: 1}}}
	nobody := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: iotrace.None}}, Files: []string{"f"}, Events: []iotrace.Event{{Op: iotrace.Write, Peer: iotrace.None, Bytes: 1}}}
	for name, c := range map[string]struct {
		t *iotrace.Trace
		n int
	}{"operations": {tr, 1 << 30}, "offset": {far, 4}, "no ranks": {nobody, 2}} {
		kept, _ := chosen(c.t)
		if _, err := scale(context.Background(), kept, c.n); err == nil {
			t.Errorf("%s: no error", name)
		} else if _, ok := err.(*OptionError); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
