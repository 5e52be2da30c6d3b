package analyze

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

// ownFiles is n ranks, two on a node, that write to files of their own; each says how
// often, how much each time, how long each write takes, and when it begins.
type writer struct{ count, size, took, from int64 }

func ownFiles(all ...writer) *iotrace.Trace {
	tr := &iotrace.Trace{Source: "strace"}
	for r, w := range all {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: r, Node: fmt.Sprint("n", r/2)})
		tr.Files = append(tr.Files, fmt.Sprint("out.", r))
		for k := range w.count {
			at := w.from + k*w.took
			tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(r), File: int32(r),
				Offset: k * w.size, Bytes: w.size, Start: at * ms, End: (at + w.took) * ms})
		}
	}
	slices.SortStableFunc(tr.Events, func(a, b iotrace.Event) int { return int(a.Start - b.Start) })
	return tr
}

// TestStragglers tells apart why a rank is late, and advises accordingly.
func TestSlowRanks(t *testing.T) {
	const mib = 1 << 20
	like := writer{8, 4 * mib, 20, 0}
	with := func(changed ...writer) []writer {
		all := slices.Repeat([]writer{like}, 16)
		copy(all[16-len(changed):], changed)
		return all
	}
	slow := writer{8, 4 * mib, 100, 0}
	striped := func(tr *iotrace.Trace) *iotrace.Trace {
		for i := range tr.Files {
			ost := int64(i % 5)
			if i == 7 || i == 12 {
				ost = 77
			}
			tr.Striping = append(tr.Striping, iotrace.Striping{File: int32(i), Size: mib, Count: 1, OSTs: []int64{ost}, End: iotrace.None})
		}
		return tr
	}
	apart := with()
	apart[7], apart[12] = slow, slow
	for name, c := range map[string]struct {
		trace *iotrace.Trace
		title string
		says  string // in the advice
		gain  float64
	}{
		"its node":      {ownFiles(with(slow, slow)...), "the ranks of node n7 take longer", "node n7", 0.64},
		"its target":    {striped(ownFiles(apart...)), "OST 77", "OST 77", 0.64},
		"unknown":       {ownFiles(apart...), "ranks that take longer than others: rank 7 first", "as many bytes", 0.64},
		"more bytes":    {ownFiles(with(writer{16, 4 * mib, 20, 0})...), "rank 15 moves more bytes", "equal parts", 0.16},
		"more requests": {ownFiles(with(writer{512, 64 << 10, 1, 0})...), "rank 15 moves its bytes in more requests", "larger requests", 0.352},
		"later":         {ownFiles(with(writer{8, 4 * mib, 20, 120})...), "rank 15 begins later than others", "before", 0.12},
	} {
		r := Analyze(c.trace, Options{})
		f := found(r, "CK05")
		if f == nil {
			t.Errorf("%s: %v", name, codes(r))
			continue
		}
		if !strings.Contains(f.Title, c.title) || !strings.Contains(f.Advice, c.says) || *f.Gain < c.gain-0.001 || *f.Gain > c.gain+0.001 {
			t.Errorf("%s: %q, %q, %g s, want %q, %q, %g s", name, f.Title, f.Advice, *f.Gain, c.title, c.says, c.gain)
		}
		for _, h := range f.Hints {
			if strings.Contains(h.Text, "cb_") {
				t.Errorf("%s: no aggregator mends files of their own: %s", name, h.Text)
			}
		}
		if len(f.Hints) == 0 && (name == "its node" || name == "its target" || name == "unknown") {
			t.Errorf("%s: no remedy", name)
		}
	}
	for name, tr := range map[string]*iotrace.Trace{
		"alike":   ownFiles(with()...),
		"in turn": ownFiles(writer{8, 4 * mib, 20, 0}, writer{8, 4 * mib, 20, 160}, writer{8, 4 * mib, 20, 320}, writer{8, 4 * mib, 20, 480}),
		// It is late, but done before the others.
		"late and fast": ownFiles(with(writer{8, 4 * mib, 4, 120})...),
		// Half of the ranks begin later: two groups of ranks.
		"two groups": ownFiles(with(slices.Repeat([]writer{{8, 4 * mib, 20, 140}}, 8)...)...),
	} {
		if r := Analyze(tr, Options{}); found(r, "CK05") != nil {
			t.Errorf("%s: %+v", name, found(r, "CK05"))
		}
	}
	// A shared file of an MPI program: aggregators even out the bytes.
	uneven := ownFiles(with(writer{64, 4 * mib, 20, 0})...)
	for i := range uneven.Events {
		e := &uneven.Events[i]
		e.File, e.Offset = 0, e.Offset+int64(e.Rank)*256*mib
	}
	f := found(Analyze(uneven, Options{}), "CK05")
	if f == nil || !slices.ContainsFunc(f.Hints, func(h finding.Hint) bool { return strings.Contains(h.Text, "cb_nodes") }) {
		t.Errorf("uneven bytes in a shared file: %+v", f)
	}
}

// TestCountedAggregators: of the ranks that open a file, a few move the bytes of all.
// They are no imbalance.
func TestCountedAggregators(t *testing.T) {
	calls := writes(iotrace.MPIIO, 0, iotrace.None, 6400, 800<<10)
	calls.CollectiveWrites = calls.Writes
	posix := writes(iotrace.POSIX, 0, iotrace.None, 5000, 1<<20)
	mean := float64(posix.BytesWritten) / 64
	posix.Fastest, posix.Slowest = iotrace.RankWork{Rank: 1}, iotrace.RankWork{Rank: 0, Bytes: posix.BytesWritten / 8, Time: posix.WriteTime / 8}
	posix.VarianceBytes = mean * mean * 7 // eight of 64 move all
	tr := countersOf(64, calls, posix)
	if f := found(Analyze(tr, Options{}), "CK05"); f != nil {
		t.Errorf("%+v", f)
	}
	if got := Analyze(tr, Options{}).Files[0].touchers; got != 64 {
		t.Errorf("%d ranks do something with the file", got)
	}
}

// TestTogether: ranks of one node that share a file are on no slow node or target. Small
// writes are told by CK06 alone.
func TestTogether(t *testing.T) {
	trace := func(size, slow int64) *iotrace.Trace {
		tr := script(4)
		for r := range tr.Ranks {
			took := int64(1)
			if tr.Ranks[r].Node = ""; r == 2 {
				took = slow
			}
			for k := range int64(100) {
				tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(r), Offset: (4*k + int64(r)) * size, Bytes: size,
					Start: k * slow * ms, End: (k*slow + took) * ms})
			}
		}
		slices.SortStableFunc(tr.Events, func(a, b iotrace.Event) int { return int(a.Start - b.Start) })
		return tr
	}
	for _, c := range []struct {
		source, name string
		size         int64
		found        bool
	}{
		{"strace", "one node, one file", 4 << 20, false},
		{"eBPF", "one node, small writes", 1000, false},
		{"darshan", "nodes unknown, small writes", 1000, false},
		{"darshan", "nodes unknown", 4 << 20, true},
	} {
		tr := trace(c.size, 3)
		tr.Source = c.source
		r := Analyze(tr, Options{})
		if r.Balance.StragglersTotal != 1 {
			t.Fatalf("%s: %+v", c.name, r.Balance)
		}
		if f := found(r, "CK05"); (f != nil) != c.found {
			t.Errorf("%s: %v: %+v", c.name, codes(r), f)
		}
	}
}
