package global

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Stretch is what one rank says that it holds along one axis of an array.
type Stretch struct {
	// Cells is the number of cells of the whole array along the axis.
	Cells int64 `json:"cells"`
	// First is the index of the first cell of the rank, Count the number of its cells.
	First int64 `json:"first"`
	Count int64 `json:"count"`
	// Halo is the number of cells that the rank keeps beyond its own, on either side. Lower and
	// Upper are more of them on one side only.
	Halo  int64 `json:"halo,omitempty"`
	Lower int64 `json:"lower,omitempty"`
	Upper int64 `json:"upper,omitempty"`
	// Pad is cells of memory after all these, which hold nothing of the array.
	Pad int64 `json:"pad,omitempty"`
	// Block is 0 if the cells follow each other. Otherwise they come in blocks of so
	// many, whose first cells are Stride apart, up to the end of the axis.
	Block  int64 `json:"block,omitempty"`
	Stride int64 `json:"stride,omitempty"`
}

// A Part is what one rank says that it holds of an array of all ranks. It needs no grid
// and no rule: blocks may be uneven.
type Part struct {
	Elem int64     `json:"elem_bytes"`
	Axes []Stretch `json:"axes"`
	// Array names the array where it is not the region that does, since the rank holds
	// several blocks of it, each in a region.
	Array string `json:"array,omitempty"`
	// Index is set where a list says which cells the rank holds. There is one axis then.
	Index *Index `json:"index,omitempty"`
	// A block among others in the memory of a rank begins at an offset, in bytes, and has room
	// for so many cells along each axis; nil: for its own and their halo.
	room   []int64
	offset int64
}

// Within returns the part as a block of a memory with room for more cells. Its first own cell is
// at an offset, in bytes. It has no halo.
func (p *Part) Within(room []int64, offset int64) *Part {
	return &Part{Elem: p.Elem, Axes: p.Axes, room: room, offset: offset}
}

// CheckRoom reports why a block does not fit a memory of so many bytes.
func (p *Part) CheckRoom(bytes int64) error {
	end, row := p.offset, p.Elem
	for i := len(p.Axes) - 1; i >= 0; i-- {
		s := p.Axes[i]
		if s.Count > p.room[i] {
			return fmt.Errorf("axis %d: %d cells in a room for %d", i, s.Count, p.room[i])
		}
		end += max(0, s.Count-1) * row
		row *= p.room[i]
	}
	if end+p.Elem > bytes {
		return fmt.Errorf("a block ends at byte %d of %d", end+p.Elem, bytes)
	}
	return nil
}

// maxPart bounds the cells of an axis, so that sums of a few of them do not overflow.
const maxPart = 1 << 47

// Check reports what is wrong with a part by itself.
func (p *Part) Check() error {
	if n := len(p.Axes); n == 0 || n > MaxAxes {
		return fmt.Errorf("%d axes (want 1 to %d)", n, MaxAxes)
	}
	if p.Elem < 0 || p.Elem > maxPart {
		return fmt.Errorf("elements of %d bytes", p.Elem)
	}
	size := max(1, p.Elem)
	for i, s := range p.Axes {
		if err := s.check(); err != nil {
			return fmt.Errorf("axis %d: %w", i, err)
		}
		var ok bool
		if size, ok = product(size, s.side()); !ok || size > maxPart {
			return errors.New("the part is larger than memory")
		}
	}
	if p.Index != nil {
		return p.Index.check(p)
	}
	return nil
}

func (s Stretch) check() error {
	wrong := s.Cells < 1 || s.Cells > maxPart || s.First < 0 || s.Count < 0 || s.First > s.Cells || s.Count > s.Cells-s.First ||
		s.Halo < 0 || s.Halo > s.Cells || s.Lower < 0 || s.Lower > s.Cells || s.Upper < 0 || s.Upper > s.Cells || s.Pad < 0 || s.Pad > maxPart || s.Block < 0 || s.Block > maxPart || s.Stride < 0 || s.Stride > maxPart
	switch {
	case wrong || s.Block == 0 && s.Stride != 0:
	case s.Block > 0 && s.low()+s.high() > 0:
		return errors.New("cells in blocks have no halo")
	case s.Block > 0 && s.Count > 0 && s.First+s.Block > s.Stride:
		return fmt.Errorf("the first block of %d cells, from %d, does not end before %d, where its next one may begin", s.Block, s.First, s.Stride)
	case s.Block > 0 && s.Count != s.dealt():
		return fmt.Errorf("%d cells from %d in blocks of %d every %d: they would be %d of %d", s.Count, s.First, s.Block, s.Stride, s.dealt(), s.Cells)
	default:
		return nil
	}
	return fmt.Errorf("%d cells from %d, halo %d, block %d, stride %d are no part of %d", s.Count, s.First, s.Halo, s.Block, s.Stride, s.Cells)
}

// dealt is how many cells the blocks have up to the end of the axis.
func (s Stretch) dealt() int64 {
	if s.First >= s.Cells || s.Stride == 0 {
		return 0
	}
	rest := s.Cells - s.First
	return rest/s.Stride*s.Block + min(rest%s.Stride, s.Block)
}

func (s Stretch) side() int64 { return s.low() + s.Count + s.high() + s.Pad }

// low and high are the cells of the halo before and after the rank's own.
func (s Stretch) low() int64  { return s.Halo + s.Lower }
func (s Stretch) high() int64 { return s.Halo + s.Upper }

// Cells returns the number of cells in memory, halo included.
func (p *Part) Cells() int64 {
	if p.Index != nil {
		return p.Index.Held
	}
	n := int64(1)
	for _, s := range p.Axes {
		n *= s.side()
	}
	return n
}

// Own returns the number of cells without the halo.
func (p *Part) Own() int64 {
	if p.Index != nil {
		return p.Index.Own
	}
	n := int64(1)
	for _, s := range p.Axes {
		n *= s.Count
	}
	return n
}

func (p *Part) memory() []int64 {
	if p.room != nil {
		return p.room
	}
	out := make([]int64, len(p.Axes))
	for i, s := range p.Axes {
		out[i] = s.side()
	}
	return out
}

// Equal reports whether both are the same part.
func (p *Part) Equal(q *Part) bool {
	if p == nil || q == nil {
		return p == q
	}
	if (p.Index == nil) != (q.Index == nil) || p.Index != nil && *p.Index != *q.Index {
		return false
	}
	return p.Elem == q.Elem && p.Array == q.Array && slices.Equal(p.Axes, q.Axes)
}

// Ruled reports whether the part is all that the rank has of the array, and no list, so that a
// rule may give it to the rank.
func (p *Part) Ruled() bool { return p.Array == "" && p.Index == nil }

// Name is the name of the array of which a region has a part.
func (p *Part) Name(region string) string { return cmp.Or(p.Array, region) }

// Fits reports why parts cannot be of one array, nil if they can. A part without memory
// does not know how large a cell is.
func (p *Part) Fits(q *Part) error {
	if len(p.Axes) != len(q.Axes) {
		return fmt.Errorf("%d and %d axes", len(p.Axes), len(q.Axes))
	}
	for i, s := range p.Axes {
		t := q.Axes[i]
		if s.Cells != t.Cells {
			return fmt.Errorf("%d and %d cells along axis %d", s.Cells, t.Cells, i)
		}
		if s.Halo != t.Halo {
			return fmt.Errorf("halos of %d and %d cells along axis %d", s.Halo, t.Halo, i)
		}
	}
	if (p.Index == nil) != (q.Index == nil) {
		return errors.New("one is given by a list of its cells, the other is not")
	}
	if p.Elem != q.Elem && p.Elem > 0 && q.Elem > 0 {
		return fmt.Errorf("cells of %d and %d bytes", p.Elem, q.Elem)
	}
	return nil
}

// around is the axis with so many elements beyond its edges.
func (s Stretch) around(low, high int64) Range { return Range{-low, s.Cells + high - 1, 1} }

// within returns the part of a pattern that lies at positions [lo, hi) of the memory.
func (p pattern) within(lo, hi, length int64) pattern {
	if p.period == 0 {
		runs := make([]run, 0, len(p.runs))
		for _, r := range p.runs {
			if r = r.cut(r.k+lo-r.at, r.k+hi-r.at); r.n > 0 {
				runs = append(runs, r)
			}
		}
		return pattern{runs: runs}
	}
	// Only one run repeats, and its memory has no gaps.
	from, to := lo/p.shift*p.period, min(length, (hi+p.shift-1)/p.shift*p.period)
	return pattern{runs: p.between(from, to)}.within(lo, hi, length)
}

// A Slab is a range of positions along each axis of the memory of a part, which follow
// each other in memory.
type Slab struct {
	Lo, Hi []int64
	// Offset and Bytes are where in memory they are.
	Offset, Bytes int64
}

// Slabs cuts the memory of a part into slabs of at most so many bytes, in order. A cell is
// never cut. A block among others is one slab, whose offsets count from the start of the memory.
func (p *Part) Slabs(most int64) []Slab {
	sides := p.memory()
	if slices.Contains(sides, 0) || p.Elem == 0 {
		return nil
	}
	if p.room != nil {
		return []Slab{{Lo: make([]int64, len(sides)), Hi: sides, Bytes: p.Own() * p.Elem}}
	}
	// Axes after the cut one are whole, those before it are cut into single cells.
	cut, row := len(sides)-1, p.Elem
	for ; cut > 0 && row*sides[cut] <= most; cut-- {
		row *= sides[cut]
	}
	step := max(1, most/row)
	var list []Slab
	at := make([]int64, cut+1)
	for offset := int64(0); at[0] < sides[0]; {
		s := Slab{Lo: make([]int64, len(sides)), Hi: slices.Clone(sides), Offset: offset}
		for i := range cut {
			s.Lo[i], s.Hi[i] = at[i], at[i]+1
		}
		s.Lo[cut], s.Hi[cut] = at[cut], min(at[cut]+step, sides[cut])
		s.Bytes = (s.Hi[cut] - s.Lo[cut]) * row
		list = append(list, s)
		offset += s.Bytes
		at[cut] = s.Hi[cut]
		for i := cut; i > 0 && at[i] == sides[i]; i-- {
			at[i] = 0
			at[i-1]++
		}
	}
	return list
}

// Holds returns how many bytes of a slab are cells of the array, or of its halo.
func (p *Part) Holds(slab Slab) int64 {
	n := p.Elem
	for i, s := range p.Axes {
		n *= max(0, min(slab.Hi[i], s.side()-s.Pad)-slab.Lo[i])
	}
	return n
}

// Padded reports whether the memory has bytes that are no cells of the array.
func (p *Part) Padded() bool {
	return slices.ContainsFunc(p.Axes, func(s Stretch) bool { return s.Pad > 0 })
}

// From returns what a slab of the part gets from another part of the same array, which a
// rank holds. Offsets of the destination count from the start of the slab.
func (p *Part) From(rank int, src *Part, slab Slab) []Transfer {
	pieces := make([][]piece, len(p.Axes))
	for i, s := range p.Axes {
		r := s.around(min(s.low(), src.Axes[i].low()), min(s.high(), src.Axes[i].high()))
		gets := s.holds(r, true)
		if slab.Lo[i] > 0 || slab.Hi[i] < s.side() {
			gets = gets.within(slab.Lo[i], slab.Hi[i], r.Len())
		}
		if pieces[i] = meet(gets, src.Axes[i].holds(r, false), r.Len()); len(pieces[i]) == 0 {
			return nil
		}
	}
	return src.combine(rank, p.Elem, pieces, p.memory(), p.offset-slab.Offset)
}

// Part returns what a rank holds.
func (l *Layout) Part(rank int) *Part {
	p := &Part{Elem: l.array.Elem, Axes: make([]Stretch, len(l.axes))}
	for i, c := range l.Place(rank) {
		p.Axes[i] = l.axes[i].stretch(int64(c))
	}
	return p
}

// stretch is what a place holds.
func (x axis) stretch(c int64) Stretch {
	s := Stretch{Cells: x.n, Count: x.count(c), Halo: x.halo, Lower: x.lower(c), Upper: x.upper(c)}
	s.Pad = x.side(c) - s.side()
	if x.kind == Block {
		s.First = x.start(c)
	} else {
		s.First, s.Block, s.Stride = c*x.length(), x.length(), x.length()*x.places
	}
	return s
}

// Each calls f with each own cell, in the order of memory: its index in the whole array, and where
// it is in memory, in cells.
func (p *Part) Each(f func(cell, at int64)) {
	sides, first := p.memory(), int64(0)
	if p.offset > 0 {
		first = p.offset / p.Elem
	}
	var walk func(axis int, cell, at int64)
	walk = func(axis int, cell, at int64) {
		s := p.Axes[axis]
		cell, at = cell*s.Cells, at*sides[axis]+s.low()
		for k := range s.Count {
			if axis+1 < len(p.Axes) {
				walk(axis+1, cell+s.at(k), at+k)
			} else {
				f(cell+s.at(k), first+at+k)
			}
		}
	}
	walk(0, 0, 0)
}

// HasHalo reports whether the rank keeps cells of others.
func (p *Part) HasHalo() bool {
	return p.Index != nil && p.Index.Held > p.Index.Own || slices.ContainsFunc(p.Axes, func(s Stretch) bool { return s.low()+s.high() > 0 })
}
