package replay

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"ckpt/iotrace"
)

// places computes the offsets of copies in shared files.
//
// Ranks that do the same to a file, with equal sizes operation by operation, are a
// group. If the offsets of an operation are a + b·i for member i, or for rank i, the
// new members continue the series; block.go computes what moves then.
//
// Without such a rule, copy g of a rank works g times the length of the file further
// on.
// file further on.
type places struct {
	events []iotrace.Event
	k, n   int     // number of ranks, before and after
	row    []int32 // of each event, or -1
	rows   []row
	files  []*spreadFile // nil for files of one rank
}

// A row is an operation of all members of a group, each at its own offset.
type row struct {
	low   int64 // lowest offset
	step  int64 // from one to the next, not negative
	bytes int64
	down  bool    // the last rank is the lowest
	from  int     // number of members before
	to    int     // and after
	place []int32 // of a rank among the members; nil if equal to its position
	block *block  // nil if all members use the same offset
}

// A spreadFile is a shared file with its blocks and its future length, without
// requests that follow no rule.
type spreadFile struct {
	moves  []move // in order
	length int64
}

// spread finds the rules. position is the index of a rank among the k workers, which
// become n.
func spread(t *iotrace.Trace, own []int32, position []int, k, n int) (*places, error) {
	p := &places{events: t.Events, k: k, n: n, row: make([]int32, len(t.Events)), files: make([]*spreadFile, len(t.Files))}
	lists := make(map[int32]map[int][]int32) // events of a file, by position
	others := make(map[int32][]int32)        // by ranks without a position
	for i := range t.Events {
		p.row[i] = -1
		e := &t.Events[i]
		if !e.Op.Data() && e.Op != iotrace.Seek || e.Offset == iotrace.None || own[e.File] != noOwner {
			continue
		}
		if position[e.Rank] < 0 {
			others[e.File] = append(others[e.File], int32(i))
			continue
		}
		if lists[e.File] == nil {
			lists[e.File] = make(map[int][]int32)
		}
		lists[e.File][position[e.Rank]] = append(lists[e.File][position[e.Rank]], int32(i))
	}
	for file, byRank := range lists {
		if err := p.file(file, byRank, others[file]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// file finds the rules of one file. Files without rules appear once.
func (p *places) file(file int32, byRank map[int][]int32, others []int32) error {
	f := new(spreadFile)
	p.files[file] = f
	first := len(p.rows)
	for _, members := range p.groups(byRank) {
		p.rules(members, byRank)
	}
	blocks := join(p.rows[first:])
	var loose []span // of requests without a rule
	for _, events := range byRank {
		for _, i := range events {
			if r := p.row[i]; r >= 0 && p.rows[r].block != nil && p.rows[r].block.crosses {
				p.row[i] = -1
			}
			if p.row[i] < 0 {
				loose = append(loose, span{p.events[i].Offset, p.events[i].Offset + p.events[i].Bytes})
			}
		}
	}
	for _, i := range others {
		loose = append(loose, span{p.events[i].Offset, p.events[i].Offset + p.events[i].Bytes})
	}
	if p.n < p.k {
		pin(blocks, loose)
	}
	f.moves = movesOf(blocks)
	for _, i := range others {
		off, err := p.place(int(i), 0)
		if err != nil {
			return err
		}
		f.length = max(f.length, off+p.events[i].Bytes)
	}
	return p.measure(f, byRank)
}

// measure computes the future length of the file: the part of the traced ranks and of
// the copies that follow a rule.
func (p *places) measure(f *spreadFile, byRank map[int][]int32) error {
	for pos, events := range byRank {
		if pos >= p.n {
			continue
		}
		for _, i := range events {
			last := pos
			if p.row[i] >= 0 {
				last += (p.n - 1 - pos) / p.k * p.k
			}
			for _, q := range []int{pos, last} {
				off, err := p.place(int(i), q)
				if err != nil {
					return err
				}
				f.length = max(f.length, off+p.events[i].Bytes)
			}
		}
	}
	return nil
}

// groups returns the positions of ranks that do the same, at least two.
func (p *places) groups(byRank map[int][]int32) [][]int {
	seed := maphash.MakeSeed()
	groups := make(map[uint64][][]int)
	for _, pos := range slices.Sorted(maps.Keys(byRank)) {
		var h maphash.Hash
		h.SetSeed(seed)
		for _, i := range byRank[pos] {
			maphash.WriteComparable(&h, p.events[i].Op)
			maphash.WriteComparable(&h, p.events[i].Bytes)
		}
		key := h.Sum64()
		g := slices.IndexFunc(groups[key], func(members []int) bool { return p.alike(byRank[members[0]], byRank[pos]) })
		if g < 0 {
			g = len(groups[key])
			groups[key] = append(groups[key], nil)
		}
		groups[key][g] = append(groups[key][g], pos)
	}
	var out [][]int
	for _, list := range groups {
		for _, members := range list {
			if len(members) > 1 {
				out = append(out, members)
			}
		}
	}
	slices.SortFunc(out, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return out
}

func (p *places) alike(a, b []int32) bool {
	return slices.EqualFunc(a, b, func(i, j int32) bool {
		return p.events[i].Op == p.events[j].Op && p.events[i].Bytes == p.events[j].Bytes
	})
}

// rules finds the rows of a group.
func (p *places) rules(members []int, byRank map[int][]int32) {
	m := len(members)
	place := make([]int32, p.k)
	for i, pos := range members {
		place[pos] = int32(i)
	}
	grown := p.n / p.k * m // future number of members
	for _, pos := range members {
		if pos < p.n%p.k {
			grown++
		}
	}
	for j, i := range byRank[members[0]] {
		at := func(i int) int64 { return p.events[byRank[members[i]][j]].Offset }
		r := row{low: at(0), bytes: p.events[i].Bytes, from: m, to: grown, place: place}
		var ok bool
		if r.step, ok = linear(m, at, func(i int) int64 { return int64(i) }); !ok {
			if r.step, ok = linear(m, at, func(i int) int64 { return int64(members[i]) }); !ok {
				continue
			}
			r.low, r.from, r.to, r.place = at(0)-r.step*int64(members[0]), p.k, p.n, nil
		}
		if width := int64(max(r.from, r.to)); max(r.step, -r.step) > maxWidth/width {
			continue // no file is that long
		}
		if r.step < 0 {
			r.low += r.step * int64(r.from-1)
			r.step, r.down = -r.step, true
		}
		for i := range members {
			p.row[byRank[members[i]][j]] = int32(len(p.rows))
		}
		p.rows = append(p.rows, r)
	}
}

// linear returns b if the offsets are at(0) + b·(x(i) - x(0)).
func linear(m int, at, x func(i int) int64) (b int64, ok bool) {
	b = (at(1) - at(0)) / (x(1) - x(0))
	for i := 1; i < m; i++ {
		// Quotients do not overflow; products might.
		if d := x(i) - x(0); (at(i)-at(0))/d != b || (at(i)-at(0))%d != 0 {
			return 0, false
		}
	}
	return b, true
}

// offset returns the offset of event i for rank q.
func (p *places) offset(i, q int) (int64, error) {
	e := &p.events[i]
	if e.Offset == iotrace.None || e.File == iotrace.None || p.files[e.File] == nil {
		return e.Offset, nil
	}
	off, err := p.place(i, q)
	if err != nil || p.row[i] >= 0 {
		return off, err
	}
	return moved(off, q/p.k, p.files[e.File].length, e.Bytes)
}

// size returns the new length for a truncation.
func (p *places) size(e *iotrace.Event) int64 {
	if e.File == iotrace.None || p.files[e.File] == nil {
		return e.Bytes
	}
	return max(0, e.Bytes+shift(p.files[e.File].moves, e.Bytes))
}

// place is offset without the addition for copies that follow no rule.
func (p *places) place(i, q int) (int64, error) {
	e := &p.events[i]
	moves := p.files[e.File].moves
	if p.row[i] < 0 {
		return moved(e.Offset, 1, shift(moves, e.Offset), e.Bytes)
	}
	r := &p.rows[p.row[i]]
	at := r.low
	if r.block != nil {
		at = r.block.low
	}
	by := shift(moves, at)
	if by > 0 && r.low > math.MaxInt64-by {
		return moved(r.low, 1, by, e.Bytes) // an error
	}
	x := q
	if r.place != nil {
		x = q/p.k*(r.from) + int(r.place[q%p.k])
	}
	if r.down {
		x = r.to - 1 - x
	}
	return moved(r.low+by, x, r.step, e.Bytes)
}

// A block is a part of a shared file that several ranks fill with rows that have the
// same step from rank to rank and whose lowest requests begin less than a step apart.
// The pieces of a header that all ranks write in turn are a block each. If each rank
// has a part of the file, the requests are one block.
//
// For more ranks a block becomes wider by a step for each, and everything behind it
// moves: piece k of rank r of R is then at (k·R + r)·size for any R.
// moves on: piece k of rank r of R is then at (k·R + r)·size for any R.
type block struct {
	low, step int64
	from, to  int
	end       int64 // of all of its requests
	// crosses: the block overlaps another. Then both show no rule; any two points
	// lie on a line.
	crosses bool
	// stays: nothing behind the block moves, because it would meet requests without a
	// rule.
	stays bool
}

type span struct{ low, end int64 }

// maxWidth bounds blocks, so that sums of two do not overflow.
const maxWidth = 1<<62 - 1

// join groups rows into blocks, and sets the block of each row.
func join(rows []row) []*block {
	order := make([]*row, 0, len(rows))
	for i := range rows {
		if rows[i].step > 0 {
			order = append(order, &rows[i])
		}
	}
	slices.SortFunc(order, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.low, b.low))
	})
	var blocks []*block
	for i, r := range order {
		if i > 0 {
			if b := order[i-1].block; b.step == r.step && b.from == r.from && b.to == r.to && r.low < b.low+b.step {
				r.block = b
			}
		}
		if r.block == nil {
			r.block = &block{low: r.low, step: r.step, from: r.from, to: r.to, end: min(r.low, maxWidth) + r.step*int64(r.from)}
			blocks = append(blocks, r.block)
		}
		r.block.end = max(r.block.end, r.low+r.step*int64(r.from-1)+r.bytes)
	}
	slices.SortFunc(blocks, func(a, b *block) int { return cmp.Compare(a.low, b.low) })
	var widest *block // the earlier block that ends last
	for _, b := range blocks {
		if widest != nil && b.low < widest.end {
			b.crosses, widest.crosses = true, true
		}
		if widest == nil || b.end > widest.end {
			widest = b
		}
	}
	return blocks
}

// pin keeps the blocks in place that contain requests without a rule.
func pin(blocks []*block, loose []span) {
	slices.SortFunc(loose, func(a, b span) int { return cmp.Compare(a.low, b.low) })
	k := 0
	var end int64 // of the requests that begin before the end of the block
	for _, b := range blocks {
		if b.crosses {
			continue
		}
		for k < len(loose) && loose[k].low < b.end {
			end = max(end, loose[k].end)
			k++
		}
		b.stays = end > b.low
	}
}

// A move shifts everything from offset at on.
type move struct{ at, by int64 }

func movesOf(blocks []*block) []move {
	var out []move
	var sum int64
	for _, b := range blocks { // blocks that do not cross are disjoint
		if !b.crosses && !b.stays {
			sum = min(sum+b.step*int64(b.to-b.from), maxWidth)
			out = append(out, move{b.end, sum})
		}
	}
	return out
}

// shift returns the distance by which offset off moves.
func shift(moves []move, off int64) int64 {
	n, _ := slices.BinarySearchFunc(moves, off, func(m move, off int64) int {
		if m.at <= off {
			return -1
		}
		return 1
	})
	if n == 0 {
		return 0
	}
	return moves[n-1].by
}
