package replay

import (
	"cmp"
	"slices"
	"sort"

	"ckpt/iotrace"
)

// A moment is the end of an operation or a part. The index of the operation orders
// moments at the same time.
type moment struct {
	at    int64
	index int32
	what  int32
}

func sortMoments(m []moment) {
	slices.SortFunc(m, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.index, b.index)) })
}

// before returns how many of the sorted ends came before the start of the operation
// with that index.
func before(ends []moment, start int64, index int32) int32 {
	return int32(sort.Search(len(ends), func(i int) bool {
		return ends[i].at > start || ends[i].at == start && ends[i].index >= index
	}))
}

// order sets the dependencies of operations on one file. All wait for its creation,
// truncation and end. Reads, truncations and ends wait for everything that had ended
// before. A renaming also waits for what had ended on the file that it replaces.
func (p *plan) order() {
	replacing := make(map[int32][]int32) // renamings, by the file that they replace
	for i := range p.events {
		if e := &p.events[i]; e.Op == iotrace.Rename && e.File != e.Peer && len(p.byFile[e.Peer]) > 0 {
			replacing[e.Peer] = append(replacing[e.Peer], int32(i))
		}
	}
	p.replaced = make(map[int32]int32)
	for f, ops := range p.byFile {
		others := replacing[int32(f)]
		if !p.shared(ops, others) {
			continue
		}
		p.files[f].gate = newGate(len(ops))
		ends := make([]moment, len(ops))
		for k, i := range ops {
			ends[k] = moment{p.events[i].End, i, i}
		}
		sortMoments(ends)
		// turn returns how many of the first k must finish before any other operation:
		// those up to the last one that created, truncated or ended the file.
		turn := make([]int32, len(ends)+1)
		for k, m := range ends {
			o := p.op(m.what)
			o.place = int32(k)
			turn[k+1] = turn[k]
			switch o.Op {
			case iotrace.Truncate, iotrace.Rename, iotrace.Unlink:
				turn[k+1] = int32(k + 1)
			case iotrace.Open:
				if m.what == ops[0] || o.empties {
					turn[k+1] = int32(k + 1)
				}
			}
		}
		for _, i := range ops {
			o := p.op(i)
			o.need = before(ends, o.Start, i)
			switch {
			case o.Op == iotrace.Read, o.Op == iotrace.Truncate, o.Op == iotrace.Rename, o.Op == iotrace.Unlink, o.empties:
			default:
				o.need = turn[o.need]
			}
		}
		for _, i := range others {
			p.replaced[i] = before(ends, p.events[i].Start, i)
		}
	}
}

// A turn is the place of an operation among those that need the name of a file.
type turn struct {
	gate        *gate
	place, need int32 // how many before it must finish first
}

// take lets the operations that rename, remove or replace a file take turns with those
// that need its name before and after, in the order of the trace also if they overlap.
// Else a faster rank would find no file, or a wrong one.
func (p *plan) take() {
	p.turns = make(map[int32][]turn)
	ends := make([]bool, len(p.files))
	users := make([][]int32, len(p.files))
	for i := range p.events {
		o := p.op(int32(i))
		switch o.Op {
		case iotrace.Rename:
			ends[o.File], ends[o.Peer] = true, true
		case iotrace.Unlink:
			ends[o.File] = true
		}
	}
	use := func(file, i int32) {
		if ends[file] {
			users[file] = append(users[file], i)
		}
	}
	for i := range p.events {
		o := p.op(int32(i))
		if o.Op == iotrace.Open || o.Op == iotrace.Stat || o.Op == iotrace.Rename || o.Op == iotrace.Unlink || o.opens {
			use(o.File, int32(i))
		}
		if o.Op == iotrace.Rename && o.Peer != o.File {
			use(o.Peer, int32(i))
		}
	}
	for _, list := range users {
		if !p.overlap(list) {
			continue
		}
		g, need := newGate(len(list)), int32(0)
		for place, i := range list {
			t := turn{g, int32(place), need}
			if op := p.events[i].Op; op == iotrace.Rename || op == iotrace.Unlink {
				t.need, need = int32(place), int32(place+1)
			}
			p.turns[i] = append(p.turns[i], t)
		}
	}
}

// overlap reports whether several ranks do the operations, or one begins before the one
// before it has ended. One rank takes its turns anyway, one after the other.
func (p *plan) overlap(list []int32) bool {
	for k, i := range list {
		if k > 0 && (p.events[i].Rank != p.events[list[0]].Rank || p.events[i].Start < p.events[list[k-1]].End) {
			return true
		}
	}
	return false
}

// shared reports whether several ranks do the operations.
func (p *plan) shared(ops, others []int32) bool {
	another := func(i int32) bool { return p.events[i].Rank != p.events[ops[0]].Rank }
	return slices.ContainsFunc(ops, another) || slices.ContainsFunc(others, another)
}
