package replay

import (
	"cmp"
	"math"
	"slices"

	"ckpt/iotrace"
)

// An extent is a part of a file.
type extent struct{ off, end int64 }

// fill finds the bytes that the trace reads before it writes them. Files with such
// bytes are prepared, even if the trace creates them.
func (p *plan) fill() {
	reads := make([]bool, len(p.files))
	for i := range p.ops {
		if o := &p.ops[i]; o.Op == iotrace.Read && o.Bytes > 0 {
			reads[o.file] = true
		}
	}
	lists := make(map[int32][]access)
	for i := range p.ops {
		o := &p.ops[i]
		if !o.Op.Data() || o.Bytes == 0 || !reads[o.file] {
			continue
		}
		at := o.End // written bytes exist from the end of the write
		if o.Op == iotrace.Read {
			at = o.Start
		}
		lists[o.file] = append(lists[o.file], access{extent{o.Offset, o.Offset + o.Bytes}, at, o.Op == iotrace.Write})
	}
	for file, list := range lists {
		f := &p.files[file]
		f.fill = unwritten(list)
		f.prepared = f.prepared || len(f.fill) > 0
	}
}

type access struct {
	extent
	at    int64
	write bool
}

// unwritten returns the extents that are read before they are written, in order.
func unwritten(list []access) []extent {
	var edges []int64
	for _, a := range list {
		edges = append(edges, a.off, a.end)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	written, read := newPainting(edges), newPainting(edges)
	slices.SortStableFunc(list, func(a, b access) int { return cmp.Compare(a.at, b.at) })
	for _, a := range list {
		if a.write {
			written.paint(a)
		} else {
			read.paint(a)
		}
	}
	var out []extent
	for i := 0; i+1 < len(edges); i++ {
		if read.first[i] == math.MaxInt64 || read.first[i] >= written.first[i] {
			continue
		}
		if n := len(out); n > 0 && out[n-1].end == edges[i] {
			out[n-1].end = edges[i+1]
			continue
		}
		out = append(out, extent{edges[i], edges[i+1]})
	}
	return out
}

// A painting records when each stretch between two edges was first touched, if it is
// painted in order of time. Each stretch is painted once: next skips painted stretches
// (union-find).
type painting struct {
	edges []int64
	first []int64
	next  []int32
}

func newPainting(edges []int64) *painting {
	p := &painting{edges, make([]int64, len(edges)), make([]int32, len(edges)+1)}
	for i := range p.first {
		p.first[i] = math.MaxInt64
	}
	for i := range p.next {
		p.next[i] = int32(i)
	}
	return p
}

func (p *painting) paint(a access) {
	i, _ := slices.BinarySearch(p.edges, a.off)
	for i := p.blank(int32(i)); int(i) < len(p.edges) && p.edges[i] < a.end; i = p.blank(i) {
		p.first[i] = a.at
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
