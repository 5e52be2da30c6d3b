package replay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckpt/iotrace"
)

// A world is a file system in which programs run, one call after the other. Their trace
// names an open file as it was opened, as recorders do.
type world struct {
	t         *iotrace.Trace
	names     map[int32]*inode
	opened    map[int32]*inode  // the last file that was opened by each name
	open      map[holder]*inode // by the name at the open; one for each rank and name
	inherited map[holder]bool   // without an open in the trace, and not used yet
	beyond    int64             // how many of those have been used
}

type inode struct {
	size   int64
	before bool // it was there before the trace
}

func (w *world) event(op iotrace.Op, rank, file int32, off, n int64, create bool) {
	at := int64(2 * len(w.t.Events))
	w.t.Events = append(w.t.Events, iotrace.Event{Op: op, Rank: rank, File: file, Peer: iotrace.None, Offset: off, Bytes: n, Create: create, Start: at, End: at + 1})
}

// step does one call of a random program, if it can be done.
func (w *world) step(t *rapid.T) {
	rank, name := int32(rapid.IntRange(0, 2).Draw(t, "rank")), int32(rapid.IntRange(0, 3).Draw(t, "name"))
	key := holder{rank, name}
	there, f := w.names[name], w.open[key]
	switch op := rapid.SampledFrom([]string{"open", "open", "truncate", "write", "write", "write", "read", "read", "close", "cut", "cut by name", "rename", "rename", "unlink", "stat", "inherit"}).Draw(t, "op"); op {
	case "open", "truncate":
		if f != nil {
			return
		}
		made := there == nil
		if made {
			there = &inode{}
			w.names[name] = there
		}
		if op == "truncate" {
			there.size = 0
		}
		w.open[key], w.opened[name] = there, there
		w.event(iotrace.Open, rank, name, iotrace.None, 0, made || op == "truncate")
	case "write", "read", "cut", "close":
		// A replay takes the descriptor of a parent to be of the file that was opened last by
		// the name, and a cut to be by name.
		if f == nil || w.inherited[key] && (w.opened[name] != f || op == "cut" && there != f) {
			return
		}
		if op == "read" && f.size == 0 {
			return
		}
		if w.inherited[key] {
			w.beyond++
			w.inherited[key] = op == "cut" // which may be by name
		}
		switch op {
		case "write":
			off := rapid.Int64Range(0, f.size).Draw(t, "off")
			n := rapid.Int64Range(1, 5000).Draw(t, "n")
			f.size = max(f.size, off+n)
			w.event(iotrace.Write, rank, name, off, n, false)
		case "read":
			off := rapid.Int64Range(0, f.size-1).Draw(t, "off")
			w.event(iotrace.Read, rank, name, off, rapid.Int64Range(1, f.size-off).Draw(t, "n"), false)
		case "cut":
			f.size = rapid.Int64Range(0, f.size).Draw(t, "to")
			w.event(iotrace.Truncate, rank, name, iotrace.None, f.size, false)
		case "close":
			delete(w.open, key)
			w.event(iotrace.Close, rank, name, iotrace.None, 0, false)
		}
	case "cut by name":
		if there != nil && f == nil {
			there.size = rapid.Int64Range(0, there.size).Draw(t, "to")
			w.beyond++
			w.event(iotrace.Truncate, rank, name, iotrace.None, there.size, false)
		}
	case "rename":
		to := int32(rapid.IntRange(0, 3).Draw(t, "to"))
		if there == nil {
			return
		}
		w.event(iotrace.Rename, rank, name, iotrace.None, 0, false)
		w.t.Renames = append(w.t.Renames, iotrace.Renaming{From: name, To: to, At: w.t.Events[len(w.t.Events)-1].End})
		delete(w.names, name)
		w.names[to] = there
	case "unlink":
		if there != nil {
			w.event(iotrace.Unlink, rank, name, iotrace.None, 0, false)
			delete(w.names, name)
		}
	case "stat":
		if there != nil {
			w.event(iotrace.Stat, rank, name, iotrace.None, 0, false)
		}
	case "inherit":
		from := w.open[holder{(rank + 1) % 3, name}]
		// A rank that opened its own file of that name before is another case.
		if from != nil && f == nil && there == from && !slices.ContainsFunc(w.t.Events, func(e iotrace.Event) bool { return e.Rank == rank && e.File == name }) {
			w.open[key], w.inherited[key] = from, true
		}
	}
}

// TestModel: after the replay of a random program with renamings and removals, the same
// names have files of the same lengths as after the program, every read found its bytes,
// and the replay's own trace has the same calls and renamings.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}, {Rank: 2}}, Files: []string{"a", "b", "c", "d"}},
			names: make(map[int32]*inode), opened: make(map[int32]*inode), open: make(map[holder]*inode),
			inherited: make(map[holder]bool)}
		for name := range int32(rapid.IntRange(0, 2).Draw(rt, "before")) {
			w.names[name] = &inode{size: rapid.Int64Range(0, 5000).Draw(rt, "size"), before: true}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			w.step(rt)
		}
		if len(w.t.Events) == 0 {
			return
		}
		m := newMemFS()
		got, res, err := record(t, w.t, Options{fs: m, Dir: "/", Keep: true})
		if err != nil {
			rt.Fatal(err)
		}
		seen := make(map[int32]bool) // names that the trace shows
		for _, e := range w.t.Events {
			seen[e.File] = true
		}
		for _, r := range w.t.Renames {
			seen[r.To] = true
		}
		want, have := make(map[string]int64), make(map[string]int64)
		for name, f := range w.names {
			switch {
			case !seen[name]:
			case f.before: // as far as it is read
				want["/"+w.t.Files[name]] = -1
			default:
				want["/"+w.t.Files[name]] = f.size
			}
		}
		for _, name := range m.names() {
			have[name] = m.nodes[name].size
			if want[name] == -1 {
				have[name] = -1
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			rt.Errorf("files: %s", diff)
		}
		if res.MissingBytes != 0 || m.open != 0 {
			rt.Errorf("%d bytes missed, %d files open", res.MissingBytes, m.open)
		}
		if res.Opens != w.beyond {
			rt.Errorf("%d more opens, want %d", res.Opens, w.beyond)
		}
		if diff := cmp.Diff(calls(w.t), calls(got)); diff != "" {
			rt.Errorf("calls: %s", diff)
		}
		if len(got.Renames) != len(w.t.Renames) {
			rt.Errorf("%d renamings, want %d", len(got.Renames), len(w.t.Renames))
		}
		if rt.Failed() {
			for i, e := range w.t.Events {
				rt.Logf("%d: %+v", i, e)
			}
			rt.Logf("%+v", w.t.Renames)
		}
	})
}

// calls returns what each rank did, in its order. That a file is emptied which is empty
// already cannot be seen.
func calls(t *iotrace.Trace) map[int32][]string {
	out, targets := make(map[int32][]string), t.Targets()
	for i, e := range t.Events {
		s := fmt.Sprint(e.Op, " ", t.Files[e.File], " ", e.Bytes, " ", e.Offset)
		if to, ok := targets[i]; ok {
			s += " to " + t.Files[to.File]
		}
		out[e.Rank] = append(out[e.Rank], s)
	}
	return out
}
