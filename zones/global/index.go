package global

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// An Index describes the list of cells that a rank holds, by their numbers in the whole array. The
// list itself is a region of its own.
type Index struct {
	// Held is the length of the list. Its first Own cells are the rank's, the others are copies of
	// cells of other ranks.
	Own  int64 `json:"own"`
	Held int64 `json:"held"`
	// Low and High are the smallest and the largest of the own cells.
	Low  int64 `json:"low"`
	High int64 `json:"high"`
	// Set is the sum of a hash of each own cell, Print of a hash of each cell and its place.
	Set   uint64 `json:"set,string"`
	Print uint64 `json:"print,string"`
}

// Listed is the name of the region that has the list for a region.
func Listed(region string) string { return region + ".ids" }

// IndexOf describes a list.
func IndexOf(cells []int64, own int64) *Index {
	x := &Index{Own: own, Held: int64(len(cells))}
	for i, cell := range cells {
		if int64(i) < own {
			x.Set += mix(uint64(cell))
			x.High = max(x.High, cell)
			if i == 0 || cell < x.Low {
				x.Low = cell
			}
		}
		x.Print += mix(uint64(cell) ^ mix(uint64(i)))
	}
	return x
}

// mix is the hash of a number: the last step of splitmix64 (Steele, Lea, Flood 2014).
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

func (x *Index) check(p *Part) error {
	if len(p.Axes) != 1 || x.Own < 0 || x.Held < x.Own || x.Held > maxPart {
		return fmt.Errorf("a list of %d cells, %d of them own, along %d axes", x.Held, x.Own, len(p.Axes))
	}
	if size, ok := product(max(1, p.Elem), x.Held); !ok || size > maxPart {
		return fmt.Errorf("a list of %d cells of %d bytes, more than memory has", x.Held, p.Elem)
	}
	if x.Own > 0 && (x.Low < 0 || x.High < x.Low || x.High >= p.Axes[0].Cells) {
		return fmt.Errorf("cells %d to %d of %d", x.Low, x.High, p.Axes[0].Cells)
	}
	return nil
}

// wholeSets has the sums of the hashes of all cells, by their number.
var wholeSets sync.Map

func wholeSet(cells int64) (sum uint64) {
	if found, ok := wholeSets.Load(cells); ok {
		return found.(uint64)
	}
	for cell := range uint64(cells) {
		sum += mix(cell)
	}
	wholeSets.Store(cells, sum)
	return sum
}

// checkIndexed reports why lists do not have each cell of an array once. Sums of hashes tell, so
// that no list is read: a wrong one passes with a chance of 2 to the power of -64.
func checkIndexed(parts []Held) error {
	cells, own, set := parts[0].Part.Axes[0].Cells, int64(0), uint64(0)
	for _, h := range parts {
		own += h.Part.Index.Own
		set += h.Part.Index.Set
	}
	if own != cells {
		return fmt.Errorf("the ranks hold %d cells of %d, not each once", own, cells)
	}
	if set != wholeSet(cells) {
		return fmt.Errorf("the ranks hold %d cells, some of them twice and others not at all", own)
	}
	return nil
}

// A Wanted is the cells that a rank asks for, and the places where they are to go.
type Wanted struct {
	list []wantedCell // sorted by cell
	left int
}

type wantedCell struct {
	cell, place int64
	found       bool
}

// Want prepares a search for cells.
func Want(cells []int64) *Wanted {
	w := &Wanted{list: make([]wantedCell, len(cells)), left: len(cells)}
	for i, cell := range cells {
		w.list[i] = wantedCell{cell: cell, place: int64(i)}
	}
	slices.SortFunc(w.list, func(a, b wantedCell) int { return cmp.Or(cmp.Compare(a.cell, b.cell), cmp.Compare(a.place, b.place)) })
	return w
}

// Between reports whether a wanted cell lies in a range.
func (w *Wanted) Between(low, high int64) bool {
	i := w.at(low)
	return i < len(w.list) && w.list[i].cell <= high
}

func (w *Wanted) at(cell int64) int {
	i, _ := slices.BinarySearchFunc(w.list, cell, func(c wantedCell, cell int64) int { return cmp.Compare(c.cell, cell) })
	return i
}

// A Move takes N cells from a place of one memory to a place of another.
type Move struct{ From, To, N int64 }

// From returns what goes where from a memory that has cells in this order.
func (w *Wanted) From(cells []int64) (moves []Move) {
	for from, cell := range cells {
		for i := w.at(cell); i < len(w.list) && w.list[i].cell == cell; i++ {
			c := &w.list[i]
			if !c.found {
				c.found = true
				w.left--
			}
			if n := len(moves); n > 0 && moves[n-1].From+moves[n-1].N == int64(from) && moves[n-1].To+moves[n-1].N == c.place {
				moves[n-1].N++
				continue
			}
			moves = append(moves, Move{int64(from), c.place, 1})
		}
	}
	return moves
}

// Missing returns a cell that was in no memory, and how many there are.
func (w *Wanted) Missing() (cell int64, n int) {
	if i := slices.IndexFunc(w.list, func(c wantedCell) bool { return !c.found }); i >= 0 {
		return w.list[i].cell, w.left
	}
	return 0, 0
}

// Cells reads a list from memory.
func Cells(mem []byte) []int64 {
	list := make([]int64, len(mem)/8)
	for i := range list {
		list[i] = int64(binary.LittleEndian.Uint64(mem[8*i:]))
	}
	return list
}

// A Transfer moves strided blocks of bytes from the memory of one rank to
// another, with the arguments of GASNet's bulk strided operations: Count[0] contiguous
// bytes, Count[1] times at the first strides, all that Count[2] times at the second, and
// so on. Offsets and strides are in bytes.
type Transfer struct {
	Rank                   int // whose memory is the source
	Count                  []int64
	SrcStrides, DstStrides []int64
	SrcOffset, DstOffset   int64
}

// Bytes returns how many bytes are moved.
func (t Transfer) Bytes() int64 {
	n := int64(1)
	for _, c := range t.Count {
		n *= c
	}
	return n
}

// Source returns the range of the source that has all blocks.
func (t Transfer) Source() (offset, length int64) {
	length = t.Count[0]
	for i, s := range t.SrcStrides {
		length += (t.Count[i+1] - 1) * s
	}
	return t.SrcOffset, length
}

// Blocks calls f with each contiguous block, in the order of the source.
func (t Transfer) Blocks(f func(dst, src, n int64)) {
	t.level(len(t.Count)-1, t.DstOffset, t.SrcOffset, f)
}

func (t Transfer) level(i int, dst, src int64, f func(dst, src, n int64)) {
	if i == 0 {
		f(dst, src, t.Count[0])
		return
	}
	for range t.Count[i] {
		t.level(i-1, dst, src, f)
		dst += t.DstStrides[i-1]
		src += t.SrcStrides[i-1]
	}
}

// Spans calls f with stretches of the source that cover all blocks, and no gap as long as most.
func (t Transfer) Spans(most int64, f func(src, n int64)) {
	inner, length := 0, t.Count[0]
	for ; inner < len(t.SrcStrides) && t.SrcStrides[inner] >= length && t.SrcStrides[inner]-length < most; inner++ {
		length += (t.Count[inner+1] - 1) * t.SrcStrides[inner]
	}
	var walk func(level int, src int64)
	walk = func(level int, src int64) {
		if level == inner {
			f(src, length)
			return
		}
		for range t.Count[level] {
			walk(level-1, src)
			src += t.SrcStrides[level-1]
		}
	}
	walk(len(t.Count)-1, t.SrcOffset)
}

// Copy carries out the transfer between two memories.
func (t Transfer) Copy(dst, src []byte) {
	t.Blocks(func(d, s, n int64) { copy(dst[d:d+n], src[s:s+n]) })
}

// add makes count times as much of the transfer, at these strides. A block that continues
// on both sides stays one block, and a level with the same stride one level.
func (t *Transfer) add(count, src, dst int64) {
	last := len(t.Count) - 1
	switch {
	case count == 1:
	case last == 0 && src == t.Count[0] && dst == t.Count[0]:
		t.Count[0] *= count
	case last > 0 && src == t.Count[last]*t.SrcStrides[last-1] && dst == t.Count[last]*t.DstStrides[last-1]:
		t.Count[last] *= count
	default:
		t.Count = append(t.Count, count)
		t.SrcStrides, t.DstStrides = append(t.SrcStrides, src), append(t.DstStrides, dst)
	}
}

// Assign returns what a rank of dst gets when section s of src is assigned to section d of
// dst: A[d] = B[s]. Halos do not change.
func Assign(dst *Layout, d []Range, src *Layout, s []Range, rank int) ([]Transfer, error) {
	if err := checkSections(dst, d, src, s); err != nil {
		return nil, err
	}
	at := dst.Place(rank)
	// For each axis and each place along it, what that place has for the rank.
	pieces := make([][][]piece, len(d))
	for i := range d {
		gets := dst.axes[i].stretch(int64(at[i])).holds(d[i], false)
		pieces[i] = make([][]piece, src.grid[i])
		for c := range pieces[i] {
			pieces[i][c] = meet(gets, src.axes[i].stretch(int64(c)).holds(s[i], false), d[i].Len())
		}
	}
	a := assignment{dst: dst.Local(rank).Memory, src: src, pieces: pieces, elem: dst.array.Elem, place: make([]int, len(d))}
	a.axis(0)
	return a.list, nil
}

// An assignment combines the pieces of all axes.
type assignment struct {
	dst    []int64 // memory of the rank that gets
	src    *Layout
	elem   int64
	pieces [][][]piece
	place  []int // of the rank that gives
	list   []Transfer
}

// axis walks over the places that have something.
func (a *assignment) axis(i int) {
	if i == len(a.pieces) {
		a.combine(make([]piece, i), i-1)
		return
	}
	for c, list := range a.pieces[i] {
		if len(list) > 0 {
			a.place[i] = c
			a.axis(i + 1)
		}
	}
}

// combine walks over the pieces of the axes up to i.
func (a *assignment) combine(chosen []piece, i int) {
	if i >= 0 {
		for _, p := range a.pieces[i][a.place[i]] {
			chosen[i] = p
			a.combine(chosen, i-1)
		}
		return
	}
	rank := a.src.RankAt(a.place)
	a.list = append(a.list, transfer(rank, chosen, a.dst, a.src.Local(rank).Memory, a.elem))
}

// transfer moves one piece per axis.
func transfer(rank int, pieces []piece, dst, src []int64, elem int64) Transfer {
	t := Transfer{Rank: rank, Count: []int64{elem}}
	dstRow, srcRow := elem, elem
	for i := len(pieces) - 1; i >= 0; i-- {
		p := pieces[i]
		t.SrcOffset += p.src * srcRow
		t.DstOffset += p.dst * dstRow
		t.add(p.n, p.srcStep*srcRow, p.dstStep*dstRow)
		t.add(p.count, p.srcShift*srcRow, p.dstShift*dstRow)
		dstRow, srcRow = dstRow*dst[i], srcRow*src[i]
	}
	return t
}
