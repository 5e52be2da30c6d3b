package replay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
)

// saving is a trace of rank 0, which saves a file of 1,000 bytes several times under
// another name first and then renames it, and of rank 1, which reads it each time.
func saving(times int) *iotrace.Trace {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"/d/x.tmp", "/d/x"}}
	const tmp, x = 0, 1
	now := int64(0)
	add := func(rank, file int32, op iotrace.Op, off, n int64) {
		tr.Events = append(tr.Events, iotrace.Event{Op: op, Rank: rank, File: file, Peer: iotrace.None, Offset: off, Bytes: n,
			Create: op == iotrace.Open && file == tmp, Start: now, End: now + 1})
		now += 2
	}
	for range times {
		add(0, tmp, iotrace.Open, iotrace.None, 0)
		add(0, tmp, iotrace.Write, 0, 600)
		add(0, tmp, iotrace.Rename, iotrace.None, 0)
		tr.Renames = append(tr.Renames, iotrace.Renaming{From: tmp, To: x, At: now - 1})
		add(0, tmp, iotrace.Write, iotrace.None, 400) // it is still open
		add(0, tmp, iotrace.Close, iotrace.None, 0)
		add(1, x, iotrace.Open, iotrace.None, 0)
		add(1, x, iotrace.Read, 0, 1000)
		add(1, x, iotrace.Close, iotrace.None, 0)
	}
	return tr
}

// TestRenamedOver: a file that takes the place of another has its bytes and its name, and
// nothing is left of the other.
func TestRenamedOver(t *testing.T) {
	m := newMemFS()
	m.free = 2 * pageSize // for the old one and the part of the new one that is written first
	_, res, err := record(t, saving(10), Options{fs: m, Dir: "/", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	if res.PreparedFiles != 0 || res.MissingBytes != 0 || res.Opens != 0 || res.Replayed.BytesRead != 10_000 {
		t.Errorf("%+v", res)
	}
	if diff := cmp.Diff([]string{"/x"}, m.names()); diff != "" {
		t.Error(diff)
	}
	m = newMemFS()
	m.free = 2*pageSize - 1
	if _, err := Run(t.Context(), saving(10), Options{fs: m, Dir: "/"}); err == nil {
		t.Error("the old file took no space")
	}
}

// TestRenamedAway: names whose file has gone to another name, without one that the
// trace shows coming.
func TestRenamedAway(t *testing.T) {
	type event struct {
		op       iotrace.Op
		file, to int32
	}
	const a, b, none = 0, 1, iotrace.None
	for name, c := range map[string]struct {
		events []event
		left   []string
	}{
		"to itself":                        {[]event{{iotrace.Open, a, none}, {iotrace.Rename, a, a}, {iotrace.Write, a, none}}, []string{"/a"}},
		"and another one was put there":    {[]event{{iotrace.Rename, a, b}, {iotrace.Open, a, none}, {iotrace.Write, a, none}}, []string{"/a", "/b"}},
		"and it is renamed again":          {[]event{{iotrace.Rename, a, b}, {iotrace.Rename, a, b}, {iotrace.Stat, b, none}}, []string{"/b"}},
		"and back":                         {[]event{{iotrace.Rename, a, b}, {iotrace.Rename, b, a}, {iotrace.Stat, a, none}}, []string{"/a"}},
		"onto one that was removed":        {[]event{{iotrace.Stat, b, none}, {iotrace.Unlink, b, none}, {iotrace.Rename, a, b}}, []string{"/b"}},
		"to a name that is not told":       {[]event{{iotrace.Rename, a, none}, {iotrace.Write, a, none}}, []string{"/a~renamed"}},
		"to the name of one that was read": {[]event{{iotrace.Open, b, none}, {iotrace.Rename, a, b}, {iotrace.Read, b, none}}, []string{"/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &iotrace.Trace{Ranks: []iotrace.Rank{{}}, Files: []string{"a", "b"}}
			for i, e := range c.events {
				x := iotrace.Event{Op: e.op, File: e.file, Peer: iotrace.None, Offset: iotrace.None, Bytes: 10, Start: int64(2 * i), End: int64(2*i + 1)}
				if e.to != none {
					tr.Renames = append(tr.Renames, iotrace.Renaming{From: e.file, To: e.to, At: x.End})
				}
				tr.Events = append(tr.Events, x)
			}
			for _, keep := range []bool{true, false} {
				m := newMemFS()
				if _, err := Run(t.Context(), tr, Options{fs: m, Dir: "/", Keep: keep}); err != nil {
					t.Fatal(err)
				}
				want := c.left
				if !keep {
					want = nil
				}
				if diff := cmp.Diff(want, m.names()); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestRenamedResized: the offsets of a file grow alike under both of its names.
func TestRenamedResized(t *testing.T) {
	for _, o := range []Options{{Bytes: 3_000_000}, {ScaleBytes: 3}, {ScaleBytes: 0.1}} {
		tr := saving(2)
		for i := range tr.Events {
			tr.Events[i].Bytes *= 1000
		}
		o.fs, o.Dir = newMemFS(), "/"
		_, res, err := record(t, tr, o)
		if err != nil {
			t.Fatal(err)
		}
		if res.MissingBytes != 0 || res.Replayed.BytesRead == res.Traced.BytesRead {
			t.Errorf("%+v: %+v", o, res)
		}
	}
}

// TestScaleRenamed: copies of a rank rename their own files, and nobody the shared file twice.
func TestScaleRenamed(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"/own.0.tmp", "/own.0", "/shared.tmp", "/shared"}}
	add := func(rank, file int32, op iotrace.Op) {
		now := int64(len(tr.Events))
		tr.Events = append(tr.Events, iotrace.Event{Op: op, Rank: rank, File: file, Peer: iotrace.None, Offset: iotrace.None, Create: op == iotrace.Open, Start: now, End: now})
		if op == iotrace.Rename {
			tr.Renames = append(tr.Renames, iotrace.Renaming{From: file, To: file + 1, At: now})
		}
	}
	for _, file := range []int32{0, 2} {
		add(0, file, iotrace.Open)
		if file == 2 {
			add(1, file, iotrace.Open)
		}
		add(0, file, iotrace.Rename)
	}
	chosen, _, err := choose(t.Context(), tr, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := scale(t.Context(), chosen, 6)
	if err != nil {
		t.Fatal(err)
	}
	var renames []string
	for _, e := range got.Events {
		if e.Op == iotrace.Rename {
			renames = append(renames, fmt.Sprint(e.Rank, got.Files[e.File], got.Files[e.Peer]))
		}
	}
	slices.Sort(renames)
	if diff := cmp.Diff([]string{"0/own.0.tmp/own.0", "0/shared.tmp/shared", "2/own.2.tmp/own.2", "4/own.4.tmp/own.4"}, renames); diff != "" {
		t.Error(diff)
	}
}

// TestRenamedTogether: ranks that give their own files one name at the same time leave one
// file, whichever rank is faster in the replay.
func TestRenamedTogether(t *testing.T) {
	const ranks = 8
	tr := &iotrace.Trace{Files: []string{"/x"}}
	for rank := range int32(ranks) {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: int(rank)})
		tr.Files = append(tr.Files, fmt.Sprintf("/x.%d.tmp", rank))
		at, own := int64(rank), rank+1
		for k, e := range []iotrace.Event{{Op: iotrace.Open, File: own, Create: true}, {Op: iotrace.Write, File: own, Bytes: 100}, {Op: iotrace.Close, File: own},
			{Op: iotrace.Rename, File: own}, {Op: iotrace.Open}, {Op: iotrace.Close}} {
			e.Rank, e.Peer, e.Offset, e.Start, e.End = rank, iotrace.None, iotrace.None, at+int64(k)*ranks, at+int64(k+1)*ranks
			if e.Op == iotrace.Rename {
				tr.Renames = append(tr.Renames, iotrace.Renaming{From: own, At: e.End})
			}
			tr.Events = append(tr.Events, e)
		}
	}
	slices.SortStableFunc(tr.Renames, func(a, b iotrace.Renaming) int { return int(a.At - b.At) })
	tr.Sort()
	for range 50 {
		m := newMemFS()
		got, res, err := record(t, tr, Options{fs: m, Dir: "/", Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"/x"}, m.names()); diff != "" {
			t.Fatal(diff)
		}
		if m.nodes["/x"].size != 100 || res.Opens != 0 || res.PreparedFiles != 0 || len(got.Renames) != ranks {
			t.Fatalf("%d bytes; %d renamings; %+v", m.nodes["/x"].size, len(got.Renames), res)
		}
	}
}

// TestRenamedDirectory: files below a directory that is renamed are found at their new
// names, and the exchange of two names is no operation, but changes what they mean.
func TestRenamedDirectory(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{}}, Files: []string{"/s/5.tmp", "/s/5", "/s/5.tmp/a", "/s/5/a", "/s/latest"}}
	add := func(op iotrace.Op, file int32, n int64) *iotrace.Event {
		at := int64(2 * len(tr.Events))
		tr.Events = append(tr.Events, iotrace.Event{Op: op, File: file, Peer: iotrace.None, Offset: iotrace.None, Bytes: n, Start: at, End: at + 1})
		return &tr.Events[len(tr.Events)-1]
	}
	renamed := func(from, to int32) {
		tr.Renames = append(tr.Renames, iotrace.Renaming{From: from, To: to, At: int64(2*len(tr.Events) - 1)})
	}
	add(iotrace.Open, 2, 0).Create = true
	add(iotrace.Write, 2, 300)
	add(iotrace.Rename, 0, 0)
	renamed(0, 1)
	renamed(2, 3)
	add(iotrace.Write, 2, 200) // it is still open
	add(iotrace.Close, 2, 0)
	add(iotrace.Open, 3, 0)
	add(iotrace.Read, 3, 500)
	add(iotrace.Close, 3, 0)
	add(iotrace.Open, 4, 0).Create = true
	add(iotrace.Write, 4, 7)
	add(iotrace.Close, 4, 0)
	add(iotrace.Rename, 3, 0) // by RENAME_EXCHANGE
	renamed(3, 4)
	renamed(4, 3)
	add(iotrace.Open, 4, 0)
	add(iotrace.Read, 4, 500)
	for _, consume := range []bool{false, true} {
		m := newMemFS()
		c := *tr
		c.Events = slices.Clone(tr.Events)
		got, res, err := record(t, &c, Options{fs: m, Dir: "/", Keep: true, Consume: consume})
		if err != nil {
			t.Fatal(err)
		}
		if res.MissingBytes != 0 || res.PreparedBytes != 0 || res.Opens != 0 || len(got.Events) != len(tr.Events)-1 {
			t.Errorf("%d events; %+v", len(got.Events), res)
		}
		if diff := cmp.Diff([]LeftOut{{"rename that exchanges two files", 1}}, res.LeftOut); diff != "" {
			t.Error(diff)
		}
		var renames []string
		for _, n := range got.Renames {
			renames = append(renames, got.Files[n.From]+" "+got.Files[n.To])
		}
		if diff := cmp.Diff([]string{"5.tmp 5", "5.tmp_a 5_a", "5_a latest", "latest 5_a"}, renames); diff != "" {
			t.Error(diff)
		}
		if below := got.Below(got.Targets()); len(below) != 0 { // names are flat
			t.Errorf("%v", below)
		}
		if diff := cmp.Diff([]string{"/5", "/5_a", "/latest"}, m.names()); diff != "" {
			t.Error(diff)
		}
		if a, l := m.nodes["/5_a"].size, m.nodes["/latest"].size; a != 7 || l != 500 {
			t.Errorf("%d and %d bytes", a, l)
		}
	}
}
