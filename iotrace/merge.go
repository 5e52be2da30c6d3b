package iotrace

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"time"
)

// Merge combines traces that were recorded at the same time, such as those of the
// ranks of one job. Times count from the earliest origin. Ranks of the same number and
// node become one rank, and so do ranks of the same number if only one node is known
// for it. Files of the same path become one file. Job and Source are those of the
// first trace that has them.
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
	for _, t := range traces {
		in := &input{events: t.Events, ranks: make([]int32, len(t.Ranks)), files: make([]int32, len(t.Files))}
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
		if len(in.events) > 0 {
			in.order = len(m.inputs)
			m.inputs = append(m.inputs, in)
		}
	}
	heap.Init(m)
	for len(m.inputs) > 0 {
		in := m.inputs[0]
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

// An input is a trace with its first events merged already.
type input struct {
	events       []Event
	order        int
	shift        int64
	ranks, files []int32
}

// next returns the first event that is not merged yet.
func (in *input) next() Event {
	e := in.events[0]
	in.events = in.events[1:]
	e.Start = in.at(e.Start)
	e.End = in.at(e.End)
	for _, p := range []*int32{&e.Rank, &e.Peer} {
		if *p >= 0 && int(*p) < len(in.ranks) {
			*p = in.ranks[*p]
		}
	}
	if e.File >= 0 && int(e.File) < len(in.files) {
		e.File = in.files[e.File]
	}
	return e
}

// at shifts a time. A time out of range stays out of range.
func (in *input) at(t int64) int64 {
	if t > MaxTime {
		return math.MaxInt64
	}
	return t + in.shift
}

// merging is a heap of inputs by the time of their first event.
type merging struct {
	inputs []*input
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

func (m *merging) Len() int      { return len(m.inputs) }
func (m *merging) Swap(i, j int) { m.inputs[i], m.inputs[j] = m.inputs[j], m.inputs[i] }
func (m *merging) Push(x any)    { m.inputs = append(m.inputs, x.(*input)) }

func (m *merging) Less(i, j int) bool {
	a, b := m.inputs[i], m.inputs[j]
	// Equal times: in the order of the traces.
	if x, y := a.at(a.events[0].Start), b.at(b.events[0].Start); x != y {
		return x < y
	}
	return a.order < b.order
}

func (m *merging) Pop() any {
	last := m.inputs[len(m.inputs)-1]
	m.inputs = m.inputs[:len(m.inputs)-1]
	return last
}
