package global

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
