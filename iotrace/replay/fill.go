package replay

import (
	"cmp"
	"slices"

	"ckpt/iotrace"
)

// An extent is a part of a file.
type extent struct{ off, end int64 }

// fill finds the bytes that the trace reads before it writes them. Files with such
// bytes are prepared, even if the trace creates them. It takes one file after the
// other, since the lists of one may be longer than the rest of the plan.
func (p *plan) fill() {
	for file, ops := range p.byFile {
		if !slices.ContainsFunc(ops, func(i int32) bool { return p.events[i].Op == iotrace.Read && p.events[i].Bytes > 0 }) {
			continue
		}
		f := &p.files[file]
		f.fill = p.unwritten(ops)
		f.prepared = f.prepared || len(f.fill) > 0
	}
}

// unwritten returns the extents that are read before they are written, in order.
// Written bytes exist from the end of the write.
func (p *plan) unwritten(ops []int32) []extent {
	data := make([]int32, 0, len(ops))
	for _, i := range ops {
		if e := &p.events[i]; e.Op.Data() && e.Bytes > 0 {
			data = append(data, i)
		}
	}
	edges := make([]int64, 0, 2*len(data))
	for _, i := range data {
		e := &p.events[i]
		edges = append(edges, e.Offset, e.Offset+e.Bytes)
	}
	slices.Sort(edges)
	touched := newPainting(slices.Clip(slices.Compact(edges)))
	at := func(i int32) int64 {
		if e := &p.events[i]; e.Op == iotrace.Write {
			return e.End
		}
		return p.events[i].Start
	}
	order := func(i int32) int { // of those at the same time, writes are first
		if p.events[i].Op == iotrace.Write {
			return 0
		}
		return 1
	}
	slices.SortFunc(data, func(i, j int32) int { return cmp.Or(cmp.Compare(at(i), at(j)), order(i)-order(j), cmp.Compare(i, j)) })
	for _, i := range data {
		e := &p.events[i]
		touched.paint(extent{e.Offset, e.Offset + e.Bytes}, e.Op == iotrace.Read)
	}
	return touched.read()
}

// A painting records how each stretch between two edges was touched first, if it is
// painted in order of time. Each stretch is painted once: next skips painted stretches
// (union-find).
type painting struct {
	edges []int64
	reads []uint64 // a bit of each stretch: a read touched it first
	next  []int32
}

func newPainting(edges []int64) *painting {
	p := &painting{edges, make([]uint64, len(edges)/64+1), make([]int32, len(edges)+1)}
	for i := range p.next {
		p.next[i] = int32(i)
	}
	return p
}

func (p *painting) paint(x extent, read bool) {
	i, _ := slices.BinarySearch(p.edges, x.off)
	for i := p.blank(int32(i)); int(i) < len(p.edges) && p.edges[i] < x.end; i = p.blank(i) {
		if read {
			p.reads[i/64] |= 1 << (i % 64)
		}
		p.next[i] = i + 1
	}
}

// blank returns the first unpainted stretch from i on.
func (p *painting) blank(i int32) int32 {
	for p.next[i] != i {
		p.next[i] = p.next[p.next[i]]
		i = p.next[i]
	}
	return i
}

// read returns the stretches that a read touched first, those that touch as one.
func (p *painting) read() (out []extent) {
	for i := 0; i+1 < len(p.edges); i++ {
		if p.reads[i/64]&(1<<(i%64)) == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].end == p.edges[i] {
			out[n-1].end = p.edges[i+1]
			continue
		}
		out = append(out, extent{p.edges[i], p.edges[i+1]})
	}
	return out
}
