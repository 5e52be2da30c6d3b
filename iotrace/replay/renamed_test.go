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
		add(0, x, iotrace.Write, iotrace.None, 400) // it is still open
		add(0, x, iotrace.Close, iotrace.None, 0)
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
	m.free = 1600 // for the old one and the part of the new one that is written first
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
	m.free = 1599
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
		"and another one was put there":    {[]event{{iotrace.Rename, a, b}, {iotrace.Open, a, none}, {iotrace.Write, a, none}}, []string{"/a~again2", "/b"}},
		"and it is renamed again":          {[]event{{iotrace.Rename, a, b}, {iotrace.Rename, a, b}, {iotrace.Stat, b, none}}, []string{"/b"}},
		"and back":                         {[]event{{iotrace.Rename, a, b}, {iotrace.Rename, b, a}, {iotrace.Stat, a, none}}, []string{"/a~again2"}},
		"onto one that was removed":        {[]event{{iotrace.Stat, b, none}, {iotrace.Unlink, b, none}, {iotrace.Rename, a, b}}, []string{"/b~again2"}},
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
