package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckpt/iotrace"
)

// TestNames: paths become names that stay in their directory.
func TestNames(t *testing.T) {
	for _, c := range []struct{ paths, want []string }{
		{[]string{"/s/jobs/a/0001/rank-0.img", "/s/jobs/a/0001/rank-1.img"}, []string{"rank-0.img", "rank-1.img"}},
		{[]string{"0001/rank-0.img", "0002/rank-0.img"}, []string{"0001_rank-0.img", "0002_rank-0.img"}},
		{[]string{"../../etc/passwd", "/etc/shadow"}, []string{"passwd", "shadow"}},
		{[]string{"/a/b c", "/a/b_c", "/a/b/c"}, []string{"b_c", "b_c~2", "b_c~3"}},
		{[]string{"/", "..", ".hidden", "-rf"}, []string{"_", "_~2", "_.hidden", "_-rf"}},
		{[]string{"<STDOUT>"}, []string{"_STDOUT_"}},
		{nil, []string{}},
	} {
		if diff := cmp.Diff(c.want, flatten(c.paths)); diff != "" {
			t.Errorf("%v: %s", c.paths, diff)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom([]string{"/", "..", ".", "a", "a~2", "~renamed", "\x00", strings.Repeat("x", 300)}), rapid.String())
		paths := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(part, 1, 5), func(p []string) string { return strings.Join(p, "") }), 0, 8).Draw(rt, "paths")
		seen := make(map[string]bool)
		for _, name := range flatten(paths) {
			if name == "" || name[0] == '.' || name[0] == '-' || len(name) > 230 || strings.ContainsAny(name, "/\x00") || seen[name] {
				rt.Fatalf("%q of %q", name, paths)
			}
			seen[name] = true
		}
	})
}

// An access is a read or write at a moment.
type access struct {
	extent
	at    int64
	write bool
}

// unwritten returns what a plan of these requests has to fill.
func unwritten(list []access) []extent {
	p, ops := new(plan), make([]int32, len(list))
	for i, a := range list {
		e := iotrace.Event{Op: iotrace.Read, Offset: a.off, Bytes: a.end - a.off, Start: a.at, End: a.at}
		if a.write {
			e.Op = iotrace.Write
		}
		p.events, ops[i] = append(p.events, e), int32(i)
	}
	return p.unwritten(ops)
}

// TestFill: what is read before it is written is there, and nothing else.
func TestFill(t *testing.T) {
	r := func(at, off, end int64) access { return access{extent{off, end}, at, false} }
	w := func(at, off, end int64) access { return access{extent{off, end}, at, true} }
	for i, c := range []struct {
		list []access
		want []extent
	}{
		{[]access{r(0, 0, 10), r(1, 5, 20)}, []extent{{0, 20}}},
		{[]access{w(0, 0, 10), r(1, 0, 10)}, nil},
		{[]access{r(0, 0, 10), w(1, 0, 10)}, []extent{{0, 10}}},
		{[]access{w(0, 0, 10), r(1, 5, 15), w(2, 0, 100)}, []extent{{10, 15}}},
		{[]access{w(0, 5, 10), w(1, 0, 20), r(2, 0, 30)}, []extent{{20, 30}}},
		{[]access{r(0, 0, 4), r(0, 8, 12), w(9, 0, 12)}, []extent{{0, 4}, {8, 12}}},
	} {
		if got := unwritten(c.list); !slices.Equal(got, c.want) {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
	// Against the same, byte by byte.
	rapid.Check(t, func(rt *rapid.T) {
		var list []access
		var first [2][64]int64
		for k := range int64(rapid.IntRange(0, 12).Draw(rt, "n")) {
			off := rapid.Int64Range(0, 60).Draw(rt, "off")
			a := access{extent{off, rapid.Int64Range(off+1, 64).Draw(rt, "end")}, k + 1, rapid.Bool().Draw(rt, "write")}
			list = append(list, a)
			kind := 0
			if a.write {
				kind = 1
			}
			for i := a.off; i < a.end; i++ {
				if first[kind][i] == 0 {
					first[kind][i] = a.at
				}
			}
		}
		got := unwritten(list)
		for i := range int64(64) {
			want := first[0][i] != 0 && (first[1][i] == 0 || first[0][i] < first[1][i])
			if is := slices.ContainsFunc(got, func(x extent) bool { return x.off <= i && i < x.end }); is != want {
				rt.Fatalf("byte %d: %t, want %t; %v", i, is, want, got)
			}
		}
	})
}

// TestFilesThatGo: files that are renamed, removed and made again, while others have
// them open.
func TestFilesThatGo(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"/d/tmp", "/d/old"}}
	now := int64(0)
	add := func(rank, file int32, op iotrace.Op, off, n int64, create bool) {
		tr.Events = append(tr.Events, iotrace.Event{Op: op, Rank: rank, File: file, Peer: iotrace.None, Offset: off, Bytes: n, Start: now, End: now + 1, Create: create})
		now++
	}
	for range 3 { // as programs save a file
		add(0, 0, iotrace.Open, iotrace.None, 0, true)
		add(0, 0, iotrace.Write, iotrace.None, 10, false)
		add(0, 0, iotrace.Rename, iotrace.None, 0, false)
		add(0, 0, iotrace.Write, iotrace.None, 5, false) // to the one that was renamed
		add(0, 0, iotrace.Close, iotrace.None, 0, false)
	}
	add(1, 1, iotrace.Open, iotrace.None, 0, false) // was there before
	add(1, 1, iotrace.Unlink, iotrace.None, 0, false)
	add(1, 1, iotrace.Read, 0, 100, false)
	add(0, 1, iotrace.Open, iotrace.None, 0, true) // another one
	add(0, 1, iotrace.Write, 0, 3, false)
	add(1, 1, iotrace.Read, 100, 100, false) // of the one that is gone
	m := newMemFS()
	m.log = []string{}
	got, res, err := record(t, tr, Options{fs: m, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.names()) != 0 || m.open != 0 || res.MissingBytes != 0 || res.PreparedBytes != 200 || res.PreparedFiles != 1 {
		t.Errorf("%v is left; %+v", m, res)
	}
	// Its own trace has the names as the trace has them.
	want := []string{"0 open tmp true", "0 write tmp 0", "0 rename tmp", "0 write tmp 10", "0 close tmp",
		"0 open tmp true", "0 write tmp 0", "0 rename tmp", "0 write tmp 10", "0 close tmp",
		"0 open tmp true", "0 write tmp 0", "0 rename tmp", "0 write tmp 10", "0 close tmp",
		"1 open old false", "1 unlink old", "1 read old 0", "0 open old true", "0 write old 0", "1 read old 100"}
	var have []string
	for _, e := range got.Events {
		s := fmt.Sprintf("%d %s %s", e.Rank, e.Op, got.Files[e.File])
		switch {
		case e.Op == iotrace.Open:
			s += fmt.Sprint(" ", e.Create)
		case e.Op.Data():
			s += fmt.Sprint(" ", e.Offset)
		}
		have = append(have, s)
	}
	slices.Sort(want)
	slices.Sort(have)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

// TestRenamed: a file that is written under one name and takes another, as that of a
// commit does. The event has the name that goes away: nothing has to be there before.
func TestRenamed(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: iotrace.None, Node: "coordinator"}}, Files: []string{"0001/manifest.tmp", "0002/manifest.tmp"}}
	for file := range int32(2) {
		for k, op := range []iotrace.Op{iotrace.Open, iotrace.Write, iotrace.Sync, iotrace.Close, iotrace.Rename} {
			e := iotrace.Event{Op: op, File: file, Peer: iotrace.None, Checkpoint: file + 1, Offset: iotrace.None, Create: op == iotrace.Open, Start: int64(10*int(file) + k), End: int64(10*int(file) + k + 1)}
			if op == iotrace.Write {
				e.Offset, e.Bytes = 0, 100
			}
			tr.Events = append(tr.Events, e)
		}
	}
	m := newMemFS()
	_, res, err := record(t, tr, Options{fs: m, Dir: "/", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	if res.PreparedFiles != 0 || res.Opens != 0 || res.Replayed.Operations != 10 {
		t.Errorf("%+v", res)
	}
	if diff := cmp.Diff([]string{"/0001_manifest.tmp~renamed", "/0002_manifest.tmp~renamed"}, m.names()); diff != "" {
		t.Error(diff)
	}
}

// TestEmptied: an open that empties a file which another rank has written does so in the
// replay, after that rank, which may go on writing.
func TestEmptied(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"log"}}
	now := int64(0)
	add := func(rank int32, op iotrace.Op, n int64) {
		tr.Events = append(tr.Events, iotrace.Event{Op: op, Rank: rank, Peer: iotrace.None, Offset: iotrace.None, Bytes: n, Start: now, End: now + 1,
			Create: op == iotrace.Open && rank == 0})
		now++
	}
	for range 2 {
		add(1, iotrace.Open, 0)
		if now > 5 {
			add(1, iotrace.Close, 0)
		} else {
			add(1, iotrace.Write, 100)
		}
		add(0, iotrace.Open, 0)
		add(0, iotrace.Write, 600)
		if now < 5 {
			add(1, iotrace.Write, 300)
			add(1, iotrace.Close, 0)
		}
		add(0, iotrace.Close, 0)
	}
	m := newMemFS()
	m.free, m.log = pageSize, []string{}
	got, _, err := record(t, tr, Options{fs: m, Dir: "/", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	var opens, writes []string
	for _, e := range got.Events {
		switch {
		case e.Op == iotrace.Open:
			opens = append(opens, fmt.Sprint(e.Rank, e.Create))
		case e.Op == iotrace.Write:
			writes = append(writes, fmt.Sprint(e.Offset, "+", e.Bytes))
		}
	}
	slices.Sort(writes)
	if diff := cmp.Diff([]string{"0+100", "0+600", "0+600", "600+300"}, writes); diff != "" {
		t.Error(diff)
	}
	slices.Sort(opens)
	if diff := cmp.Diff([]string{"0 true", "0 true", "1 false", "1 true"}, opens); diff != "" {
		t.Error(diff)
	}
	truncated := 0
	for _, l := range m.log {
		if strings.HasPrefix(l, "truncate") {
			truncated++
		}
	}
	if truncated != 2 {
		t.Errorf("truncated %d times: %q", truncated, m.log)
	}
}

// TestNoise: bytes that differ, that the seed decides, and that lie at pages.
func TestNoise(t *testing.T) {
	a, b, c := newNoise(1, 100), newNoise(1, 100), newNoise(2, 100)
	if !slices.Equal(a.pool, b.pool) || slices.Equal(a.pool, c.pool) {
		t.Error("the seed does not decide")
	}
	big := newNoise(1, 1<<40)
	if len(big.pool) != maxPool {
		t.Errorf("%d bytes", len(big.pool))
	}
	for _, n := range []int64{0, 1, page, maxPool, 3*maxPool + 17} {
		for which := range uint64(20) {
			if got := length(big.bytes(n, which)); got != n {
				t.Fatalf("%d bytes, want %d", got, n)
			}
		}
	}
}
