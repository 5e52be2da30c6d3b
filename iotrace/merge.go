package iotrace

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Merge combines traces that were recorded at the same time, such as by the
// ranks of one job. Times count from the earliest origin. Ranks of the same number and
// node become one rank, and so do ranks of the same number if only one node is known
// for it. Files of the same path become one file. Job and Source are of the
// first trace that has them.
//
// Counters, stripings and renames stay apart, with the ranks and files of the result.
// Equal warnings become one with the sum of their counts. Equal properties become one.
// The run time ends with the last of the traces.
//
// The traces must be valid; clocks are not corrected.
func Merge(traces ...*Trace) (*Trace, error) {
	out := &Trace{}
	total, err := out.adoptNames(traces)
	if err != nil {
		return nil, err
	}
	out.Events = make([]Event, 0, total)
	m := newMerging(out, traces)
	striped := make(map[int32]*Trace)
	for _, t := range traces {
		in := &merged{events: t.Events, ranks: make([]int32, len(t.Ranks)), files: make([]int32, len(t.Files))}
		if !t.Origin.IsZero() {
			d := t.Origin.Sub(out.Origin)
			if d >= MaxTime {
				return nil, fmt.Errorf("merge: origin %v is too far from %v", t.Origin, out.Origin)
			}
			in.shift = int64(d)
		}
		for i, r := range t.Ranks {
			in.ranks[i] = m.rank(r)
		}
		for i, name := range t.Files {
			in.files[i] = m.tables.File(name)
		}
		if err := in.parts(out, t, striped); err != nil {
			return nil, fmt.Errorf("merge: %w", err)
		}
		if len(in.events) > 0 {
			in.order = len(m.Items)
			m.Items = append(m.Items, in)
		}
	}
	slices.SortStableFunc(out.Renames, func(a, b Renaming) int { return cmp.Compare(a.At, b.At) })
	heap.Init(m)
	for len(m.Items) > 0 {
		in := m.Items[0]
		e := in.next()
		if err := e.Check(len(out.Ranks), len(out.Files)); err != nil {
			return nil, fmt.Errorf("merge: %s: %w", e.Op, err)
		}
		out.Events = append(out.Events, e)
		if len(in.events) == 0 {
			heap.Pop(m)
		} else {
			heap.Fix(m, 0)
		}
	}
	return out, nil
}

// adoptNames fills in everything but tables and events, and returns the number of
// events.
func (t *Trace) adoptNames(traces []*Trace) (total int, err error) {
	dated := 0
	for _, in := range traces {
		total += len(in.Events)
		if t.Job == "" {
			t.Job = in.Job
		}
		if t.Source == "" {
			t.Source = in.Source
		}
		if !in.Origin.IsZero() {
			dated++
			if t.Origin.IsZero() || in.Origin.Before(t.Origin) {
				t.Origin = in.Origin
			}
		}
	}
	if dated != 0 && dated != len(traces) {
		return 0, errors.New("merge: only some of the traces have a known origin")
	}
	t.Origin = stripClock(t.Origin)
	return total, nil
}

// stripClock reduces a time to the part that a file can hold.
func stripClock(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Round(0).UTC()
}

// validOrigin refuses a time that the formats cannot hold.
func validOrigin(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	if y := t.UTC().Year(); y < 1970 || y > 9999 {
		return fmt.Errorf("origin in the year %d", y)
	}
	return nil
}

// A merged is a trace with its first events merged already.
type merged struct {
	events       []Event
	order        int
	shift        int64
	ranks, files []int32
}

// next returns the first event that is not merged yet.
func (in *merged) next() Event {
	e := in.events[0]
	in.events = in.events[1:]
	e.Start = in.at(e.Start)
	e.End = in.at(e.End)
	e.Rank, e.Peer, e.File = in.rank(e.Rank), in.rank(e.Peer), in.file(e.File)
	return e
}

// rank returns the index in the result of a rank of the input.
func (in *merged) rank(i int32) int32 {
	if i >= 0 && int(i) < len(in.ranks) {
		return in.ranks[i]
	}
	return i
}

func (in *merged) file(i int32) int32 {
	if i >= 0 && int(i) < len(in.files) {
		return in.files[i]
	}
	return i
}

// at shifts a time. A time out of range stays out of range.
func (in *merged) at(t int64) int64 {
	if t > MaxTime {
		return math.MaxInt64
	}
	return t + in.shift
}

// merging is a heap of inputs by the time of their first event.
type merging struct {
	Heaped[*merged]
	tables *Tables
	nodes  map[int]string // the node of a rank's number if only one is known
}

func newMerging(out *Trace, traces []*Trace) *merging {
	m := &merging{tables: NewTables(out), nodes: make(map[int]string)}
	several := make(map[int]bool)
	for _, t := range traces {
		for _, r := range t.Ranks {
			if r.Node == "" {
				continue
			}
			if n, ok := m.nodes[r.Rank]; ok && n != r.Node {
				several[r.Rank] = true
			}
			m.nodes[r.Rank] = r.Node
		}
	}
	for n := range several {
		delete(m.nodes, n)
	}
	return m
}

// rank returns the index of a rank. Another trace may know its node.
func (m *merging) rank(r Rank) int32 {
	if r.Node == "" {
		r.Node = m.nodes[r.Rank]
	}
	return m.tables.Rank(r)
}

func (m *merging) Less(i, j int) bool {
	a, b := m.Items[i], m.Items[j]
	// Equal times: in the order of the traces.
	if x, y := a.at(a.events[0].Start), b.at(b.events[0].Start); x != y {
		return x < y
	}
	return a.order < b.order
}

// Heaped are the items of a container/heap, which embeds them and says what is less.
type Heaped[T any] struct{ Items []T }

// Len returns the number of items.
func (h *Heaped[T]) Len() int { return len(h.Items) }

// Swap exchanges two items.
func (h *Heaped[T]) Swap(i, j int) { h.Items[i], h.Items[j] = h.Items[j], h.Items[i] }

// Push adds an item at the end.
func (h *Heaped[T]) Push(x any) { h.Items = append(h.Items, x.(T)) }

// Pop removes the last item.
func (h *Heaped[T]) Pop() any {
	last := h.Items[len(h.Items)-1]
	h.Items = h.Items[:len(h.Items)-1]
	return last
}

// parts adds all but events and tables to the result. The stripings of a file
// are of the first trace that has some.
func (in *merged) parts(out, t *Trace, striped map[int32]*Trace) error {
	if err := t.validParts(); err != nil {
		return err
	}
	if t.Runtime > 0 {
		end := in.at(int64(t.Runtime))
		if end > MaxTime {
			return fmt.Errorf("run time of %v is out of range", t.Runtime)
		}
		out.Runtime = max(out.Runtime, time.Duration(end))
	}
	for _, c := range t.Counters {
		c.Rank, c.File = in.rank(c.Rank), in.file(c.File)
		for _, at := range c.times() {
			if *at >= 0 {
				*at = min(in.at(*at), MaxTime)
			}
		}
		out.Counters = append(out.Counters, c)
	}
	for _, s := range t.Striping {
		s.File = in.file(s.File)
		if _, ok := striped[s.File]; !ok {
			striped[s.File] = t
		}
		if striped[s.File] == t {
			out.Striping = append(out.Striping, s)
		}
	}
	for _, r := range t.Renames {
		out.Renames = append(out.Renames, Renaming{From: in.file(r.From), To: in.file(r.To), At: min(in.at(r.At), MaxTime)})
	}
	for _, w := range t.Warnings {
		w.Files = slices.Clone(w.Files)
		for i := range w.Files {
			w.Files[i].File = in.file(w.Files[i].File)
		}
		out.Warnings = addWarning(out.Warnings, w)
	}
	for _, p := range t.Properties {
		if !slices.Contains(out.Properties, p) {
			out.Properties = append(out.Properties, p)
		}
	}
	return nil
}

func addWarning(all []Warning, w Warning) []Warning {
	i := slices.IndexFunc(all, func(o Warning) bool { return o.Code == w.Code && o.Text == w.Text })
	if i < 0 {
		return append(all, w)
	}
	sum := &all[i]
	sum.Count += w.Count
	sum.Bytes += w.Bytes
	if len(w.Files) == 0 {
		return all
	}
	at := make(map[int32]int)
	for k, f := range sum.Files {
		at[f.File] = k
	}
	for _, f := range w.Files {
		if k, ok := at[f.File]; ok {
			sum.Files[k].Count += f.Count
			sum.Files[k].Bytes += f.Bytes
			continue
		}
		at[f.File] = len(sum.Files)
		sum.Files = append(sum.Files, f)
	}
	return all
}

// Tables build the tables of a trace. They give each rank and each file one index.
type Tables struct {
	t     *Trace
	ranks map[Rank]int32
	files map[string]int32
}

// NewTables returns the tables of a trace that has no ranks and files yet.
func NewTables(t *Trace) *Tables {
	return &Tables{t: t, ranks: make(map[Rank]int32), files: make(map[string]int32)}
}

// Rank returns the index of a rank.
func (x *Tables) Rank(r Rank) int32 {
	i, ok := x.ranks[r]
	if !ok {
		i = int32(len(x.t.Ranks))
		x.ranks[r] = i
		x.t.Ranks = append(x.t.Ranks, r)
	}
	return i
}

// Rename changes the rank with index i, unless the table has the new rank already.
func (x *Tables) Rename(i int32, r Rank) {
	if _, taken := x.ranks[r]; taken {
		return
	}
	delete(x.ranks, x.t.Ranks[i])
	x.t.Ranks[i] = r
	x.ranks[r] = i
}

// File returns the index of a path, which must not be empty.
func (x *Tables) File(path string) int32 {
	i, ok := x.files[path]
	if !ok {
		i = int32(len(x.t.Files))
		x.files[path] = i
		x.t.Files = append(x.t.Files, path)
	}
	return i
}

// FileBytes is File without making a string of a path that is known already.
func (x *Tables) FileBytes(path []byte) int32 {
	if i, ok := x.files[string(path)]; ok {
		return i
	}
	return x.File(string(path))
}
