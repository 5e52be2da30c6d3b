package replay

import (
	"cmp"
	"hash/maphash"
	"slices"

	"ckpt/iotrace"
)

// places says where in shared files the reads and writes of copies go.
//
// Ranks that do the same to a file, operation by operation with the same sizes, are
// a group. Where the m offsets of an operation are a + b·i for member i, or for rank
// i, the new members go on with it: the operation then fills M·b instead of m·b. What
// lies behind moves on by the difference, so that the pieces of a header that all
// ranks write in turn, piece k of rank r of R at (k·R + r)·size, are interleaved
// again. Operations whose bases are less than b apart, as the requests of a rank to
// a part of its own, fill that room together: a block.
//
// Where there is no rule, copy g of a rank does the same g times the length of the
// file further on.
type places struct {
	events []iotrace.Event
	k      int
	row    []int32 // of an event; -1: none
	rows   []row
	// Of events without a row, by file; nil of files that one rank uses.
	files []*spreadFile
}

// A row is an operation that the members of a group do, each at its own offset.
type row struct {
	base  int64 // where the lowest of them is, moved on
	step  int64 // from one to the next, not negative
	down  bool  // the last rank is the lowest
	count int   // there will be so many
	// position of a member is (q/k)·size + its place among the first; by is the
	// place, size the members. By rank, they are its position and k.
	size  int
	place []int32 // by position of the rank, -1 of others; nil by rank
}

// A spreadFile is a shared file: its blocks, and how long it will be without what
// follows no rule.
type spreadFile struct {
	ends   []blockEnd // in order
	length int64
}

// A blockEnd is where a block ended, and how much what is behind it moves on.
type blockEnd struct{ at, moved int64 }

// shift returns how far what is at off moves on.
func (f *spreadFile) shift(off int64) int64 {
	n, _ := slices.BinarySearchFunc(f.ends, off, func(e blockEnd, off int64) int {
		if e.at <= off {
			return -1
		}
		return 1
	})
	if n == 0 {
		return 0
	}
	return f.ends[n-1].moved
}

// spread finds the rules. Position is that of a rank among the k workers, which
// become n.
func spread(t *iotrace.Trace, own []int32, position []int, workers []int32, n int) (*places, error) {
	p := &places{events: t.Events, k: len(workers), row: make([]int32, len(t.Events)), files: make([]*spreadFile, len(t.Files))}
	lists := make(map[int32]map[int][]int32) // events of a file, by position
	for i := range t.Events {
		p.row[i] = -1
		e := &t.Events[i]
		if !e.Op.Data() && e.Op != iotrace.Seek || e.Offset == iotrace.None || position[e.Rank] < 0 || own[e.File] != noOwner {
			continue
		}
		if lists[e.File] == nil {
			lists[e.File] = make(map[int][]int32)
		}
		lists[e.File][position[e.Rank]] = append(lists[e.File][position[e.Rank]], int32(i))
	}
	for file, byRank := range lists {
		if err := p.file(file, byRank, n); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// file finds the rules of one file.
func (p *places) file(file int32, byRank map[int][]int32, n int) error {
	f := new(spreadFile)
	p.files[file] = f
	var found []span // of rows, with their widths
	for _, members := range p.groups(byRank) {
		found = append(found, p.rules(members, byRank, n)...)
	}
	f.blocks(found)
	for _, s := range found {
		r := &p.rows[s.row]
		r.base += f.shift(s.block)
	}
	// What the traced ranks will leave, and the copies that follow a rule.
	for pos, events := range byRank {
		for _, i := range events {
			e := &p.events[i]
			last := pos
			if p.row[i] >= 0 {
				last = pos + (n-1-pos)/p.k*p.k
			}
			for _, q := range []int{pos, last} {
				if q >= n || pos >= n {
					continue
				}
				off, err := p.place(int(i), q)
				if err != nil {
					return err
				}
				f.length = max(f.length, off+e.Bytes)
			}
		}
	}
	return nil
}

// groups returns the positions of the ranks that do the same, at least two.
func (p *places) groups(byRank map[int][]int32) [][]int {
	seed := maphash.MakeSeed()
	groups := make(map[uint64][][]int)
	for _, pos := range sortedKeys(byRank) {
		var h maphash.Hash
		h.SetSeed(seed)
		for _, i := range byRank[pos] {
			e := &p.events[i]
			maphash.WriteComparable(&h, e.Op)
			maphash.WriteComparable(&h, e.Bytes)
		}
		found := false
		key := h.Sum64()
		for g, members := range groups[key] {
			if p.alike(byRank[members[0]], byRank[pos]) {
				groups[key][g] = append(members, pos)
				found = true
				break
			}
		}
		if !found {
			groups[key] = append(groups[key], []int{pos})
		}
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

// A span is the place of a row before it is moved on.
type span struct {
	row   int32
	low   int64
	step  int64
	from  int // how many members there were, and will be
	to    int
	block int64 // where its block begins
}

// rules finds the rows of a group, and where they are.
func (p *places) rules(members []int, byRank map[int][]int32, n int) []span {
	m := len(members)
	place := make([]int32, p.k)
	for i := range place {
		place[i] = -1
	}
	for i, pos := range members {
		place[pos] = int32(i)
	}
	grown := n / p.k * m // members that there will be
	for _, pos := range members {
		if pos < n%p.k {
			grown++
		}
	}
	var out []span
	for j := range byRank[members[0]] {
		at := func(i int) int64 { return p.events[byRank[members[i]][j]].Offset }
		r := row{size: m, place: place, count: grown}
		step, ok := linear(m, at, func(i int) int64 { return int64(i) })
		low, from := at(0), m
		if !ok {
			if step, ok = linear(m, at, func(i int) int64 { return int64(members[i]) }); !ok {
				continue
			}
			r.size, r.place, r.count = p.k, nil, n
			low, from = at(0)-step*int64(members[0]), p.k
		}
		if step < 0 {
			low += step * int64(from-1)
			step, r.down = -step, true
		}
		r.base, r.step = low, step
		id := int32(len(p.rows))
		p.rows = append(p.rows, r)
		for i := range members {
			p.row[byRank[members[i]][j]] = id
		}
		out = append(out, span{id, low, step, from, r.count, low})
	}
	return out
}

// linear returns b if the offsets are at(0) + b·(x(i) - x(0)).
func linear(m int, at, x func(i int) int64) (b int64, ok bool) {
	d := x(1) - x(0)
	if (at(1)-at(0))%d != 0 {
		return 0, false
	}
	b = (at(1) - at(0)) / d
	for i := 2; i < m; i++ {
		// The products do not overflow for offsets that are there.
		if (at(i)-at(0))/(x(i)-x(0)) != b || (at(i)-at(0))%(x(i)-x(0)) != 0 {
			return 0, false
		}
	}
	return b, true
}

// blocks joins rows whose bases are less than a step apart, and says what moves on
// behind each.
func (f *spreadFile) blocks(spans []span) {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.low, b.low))
	})
	for i := range spans {
		s := &spans[i]
		if s.step == 0 {
			continue // all do it in the same place
		}
		if i > 0 {
			if b := spans[i-1]; b.step == s.step && b.from == s.from && b.to == s.to && s.low < b.block+b.step {
				s.block = b.block
				continue
			}
		}
		f.ends = append(f.ends, blockEnd{s.low + s.step*int64(s.from), s.step * int64(s.to-s.from)})
	}
	slices.SortFunc(f.ends, func(a, b blockEnd) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(f.ends); i++ {
		f.ends[i].moved += f.ends[i-1].moved
	}
}

// offset returns where rank q does event i.
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

// size returns the length that a file is cut to.
func (p *places) size(e *iotrace.Event) int64 {
	if e.File == iotrace.None || p.files[e.File] == nil {
		return e.Bytes
	}
	return max(0, e.Bytes+p.files[e.File].shift(e.Bytes))
}

// place is offset, without what is added for copies that follow no rule.
func (p *places) place(i, q int) (int64, error) {
	e := &p.events[i]
	if p.row[i] < 0 {
		return moved(e.Offset, 1, p.files[e.File].shift(e.Offset), e.Bytes)
	}
	r := &p.rows[p.row[i]]
	x := q
	if r.place != nil {
		x = q/p.k*r.size + int(r.place[q%p.k])
	}
	if r.down {
		x = r.count - 1 - x
	}
	return moved(r.base, x, r.step, e.Bytes)
}

func sortedKeys[V any](m map[int]V) []int {
	out := make([]int, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
