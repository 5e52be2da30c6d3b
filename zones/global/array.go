// Package global describes arrays that all ranks of a job hold together, and finds the
// transfers that move such an array from one number of ranks, or one distribution, to
// another.
//
//	a := &global.Array{Shape: []int64{512, 512}, Elem: 8}
//	was, err := a.On(16)
//	now, err := a.On(9)
//	for _, t := range global.Transfers(now, was, rank) {
//		t.Copy(mem, memoryOf(t.Rank))
//	}
//
// An array lies in memory with its last axis contiguous, as in C; a Fortran program
// names its axes from the last to the first. The ranks form a grid of as many axes, and
// the last axis of the grid runs fastest too, as in MPI_Cart_create. Each axis is cut by
// itself:
//
//   - block: each rank has consecutive elements. Without a length the first ranks have
//     one element more than the others, if the number of ranks does not divide the
//     axis; a [Rest] names another rule. With a length b every rank has b, and the last
//     what is left.
//   - cyclic: element i belongs to place i mod n of the n places along the axis.
//   - block-cyclic: blocks of the given length are dealt out in the same way.
//
// A rank keeps its elements in ascending order, without gaps. Around a block it may
// keep a halo: copies of its neighbours' elements, or, at the edge of the array, values
// of a boundary, which are part of the array in all that follows.
//
// Sections, strided parts of an array, are assigned as in Chapel, with one bulk strided
// transfer in place of a message for each element (R. Larrosa Jiménez, thesis, Univ.
// Málaga 2015, section 2.2). See [Range] for its map m, and [Transfer] for the arguments
// of a transfer.
//
// # Promises
//
//   - Every byte of the new rank that the old ranks have is in exactly one transfer.
//   - The transfers of a rank are as many as the old ranks that it shares elements
//     with, times a number that depends on grids and blocks but not on the size of the
//     array.
//
// The package has no goroutines, files or clocks, and imports nothing of this module.
package global

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"
)

// MaxAxes is the largest number of axes of an array.
const MaxAxes = 8

// A Kind says how an axis is distributed.
type Kind string

// The kinds of distributions.
const (
	Block       Kind = "block"
	Cyclic      Kind = "cyclic"
	BlockCyclic Kind = "block-cyclic"
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Block, Cyclic, BlockCyclic} }

// A Dim is the distribution of one axis.
type Dim struct {
	Kind Kind `json:"distribution"`
	// Block is the length of a block, which block-cyclic needs. Without it the blocks
	// of block are as equal as can be.
	Block int64 `json:"block,omitempty"`
	// Rest says which ranks have more where the blocks of block are not equal; empty is
	// [RestFirst].
	Rest Rest `json:"remainder,omitempty"`
}

func (d Dim) String() string {
	switch {
	case d.Block > 0:
		return fmt.Sprintf("%s(%d)", d.Kind, d.Block)
	case d.Rest != "" && d.Rest != RestFirst:
		return fmt.Sprintf("%s(%s)", d.Kind, d.Rest)
	}
	return string(d.Kind)
}

// An Array is an array that all ranks hold together.
type Array struct {
	// Shape is the number of elements along each axis.
	Shape []int64 `json:"shape"`
	// Elem is the bytes of an element.
	Elem int64 `json:"elem_bytes"`
	// Dims says for each axis how it is distributed; nil: all by block.
	Dims []Dim `json:"axes,omitempty"`
	// Grid is the number of ranks along each axis; nil: as [Grid] says.
	Grid []int `json:"grid,omitempty"`
	// Halo is the number of elements beyond its block, on either side of each axis,
	// that a rank keeps; nil: no halo.
	Halo []int64 `json:"halo,omitempty"`
	// Margins are further cells in memory, axis by axis; nil: none.
	Margins []Margin `json:"margins,omitempty"`
	// Order lists the axes of the grid from the one along which ranks run slowest; nil: the
	// last axis runs fastest.
	Order []int `json:"order,omitempty"`
	// Empty allows ranks without elements.
	Empty bool `json:"empty,omitempty"`
}

// A Margin is what memory has along an axis beside the cells of a rank and their halo.
type Margin struct {
	// Lower and Upper are more of the halo on one side. With Clipped a rank at an edge of the
	// array has none of them there.
	Lower   int64 `json:"lower,omitempty" yaml:"lower"`
	Upper   int64 `json:"upper,omitempty" yaml:"upper"`
	Clipped bool  `json:"clipped,omitempty" yaml:"clipped"`
	// Pad is cells after all these, which hold nothing. With Equal each rank has room for what
	// the rank with the most has, and then Pad.
	Pad   int64 `json:"pad,omitempty" yaml:"pad"`
	Equal bool  `json:"equal_room,omitempty" yaml:"equal_room"`
}

// ErrTooManyRanks is in errors about more ranks than an array has elements for.
var ErrTooManyRanks = errors.New("some ranks would hold no element")

// Check reports what is wrong with the description, whatever the number of ranks.
func (a *Array) Check() error {
	n := len(a.Shape)
	switch {
	case n == 0 || n > MaxAxes:
		return fmt.Errorf("%d axes (want 1 to %d)", n, MaxAxes)
	case a.Elem < 1:
		return fmt.Errorf("elements of %d bytes", a.Elem)
	case a.Dims != nil && len(a.Dims) != n:
		return fmt.Errorf("distributions for %d axes of %d", len(a.Dims), n)
	case a.Grid != nil && len(a.Grid) != n:
		return fmt.Errorf("a grid of %d axes for an array of %d", len(a.Grid), n)
	case a.Halo != nil && len(a.Halo) != n:
		return fmt.Errorf("a halo for %d axes of %d", len(a.Halo), n)
	case a.Margins != nil && len(a.Margins) != n:
		return fmt.Errorf("lower, upper and pad for %d axes of %d", len(a.Margins), n)
	case a.Order != nil && !permutes(a.Order, n):
		return fmt.Errorf("order %v does not name each of %d axes once", a.Order, n)
	}
	size := a.Elem
	for i := range n {
		if err := a.checkAxis(i); err != nil {
			return fmt.Errorf("axis %d: %w", i, err)
		}
		var ok bool
		m := a.margin(i)
		if size, ok = product(size, a.Shape[i]+2*a.halo(i)+m.Lower+m.Upper+m.Pad); !ok {
			return errors.New("the array is too large")
		}
	}
	return nil
}

func (a *Array) checkAxis(i int) error {
	d, m := a.dim(i), a.margin(i)
	switch {
	case a.Shape[i] < 1 || a.Shape[i] > math.MaxInt64/4:
		return fmt.Errorf("%d elements", a.Shape[i])
	case !slices.Contains(Kinds(), d.Kind):
		return fmt.Errorf("distribution %q is unknown (want block, cyclic or block-cyclic)", d.Kind)
	case d.Block < 0 || d.Block > math.MaxInt32 || d.Kind == BlockCyclic && d.Block == 0:
		return fmt.Errorf("%s needs a length of blocks from 1 to 2^31-1, got %d", d.Kind, d.Block)
	case !d.Rest.Valid():
		return fmt.Errorf("remainder %q is unknown (want %s)", d.Rest, restNames())
	case d.Rest != "" && (d.Kind != Block || d.Block > 0):
		return fmt.Errorf("%s has no remainder; only block without a length has", d)
	case d.Kind == Cyclic && d.Block > 1:
		return fmt.Errorf("cyclic has no blocks; say block-cyclic")
	case a.Grid != nil && a.Grid[i] < 1:
		return fmt.Errorf("a grid of %d ranks", a.Grid[i])
	case a.halo(i) < 0 || a.halo(i) > a.Shape[i]:
		return fmt.Errorf("a halo of %d elements around %d", a.halo(i), a.Shape[i])
	case min(m.Lower, m.Upper, m.Pad) < 0 || max(m.Lower, m.Upper, m.Pad) > maxPart:
		return fmt.Errorf("lower %d, upper %d and pad %d", m.Lower, m.Upper, m.Pad)
	case (a.halo(i) > 0 || m.Lower+m.Upper > 0) && d.Kind != Block:
		return fmt.Errorf("%s has no halo; only block has", d.Kind)
	}
	return nil
}

func permutes(order []int, n int) bool {
	seen := slices.Sorted(slices.Values(order))
	for i, axis := range seen {
		if axis != i {
			return false
		}
	}
	return len(order) == n
}

// product multiplies, and reports false when the result is beyond 2^61.
func product(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && lo < 1<<61
}

func (a *Array) dim(i int) Dim {
	if a.Dims == nil {
		return Dim{Kind: Block}
	}
	return a.Dims[i]
}

func (a *Array) halo(i int) int64 {
	if a.Halo == nil {
		return 0
	}
	return a.Halo[i]
}

func (a *Array) margin(i int) (m Margin) {
	if a.Margins != nil {
		m = a.Margins[i]
	}
	return m
}

// SameData reports whether both have the same elements, however distributed.
func (a *Array) SameData(b *Array) bool {
	return a.Elem == b.Elem && slices.Equal(a.Shape, b.Shape)
}

// Equal reports whether both are distributed in the same way, too.
func (a *Array) Equal(b *Array) bool {
	if a == nil || b == nil {
		return a == b
	}
	if !a.SameData(b) || !slices.Equal(a.Grid, b.Grid) || !slices.Equal(a.Order, b.Order) {
		return false
	}
	for i := range a.Shape {
		if a.dim(i) != b.dim(i) || a.halo(i) != b.halo(i) || a.margin(i) != b.margin(i) {
			return false
		}
	}
	return true
}

// String is as in "512x512 of 8 bytes, block x cyclic".
func (a *Array) String() string {
	shape, dims := make([]string, len(a.Shape)), make([]string, len(a.Shape))
	for i, n := range a.Shape {
		shape[i], dims[i] = fmt.Sprint(n), a.dim(i).String()
	}
	if slices.Equal(dims, slices.Repeat(dims[:1], len(dims))) {
		dims = dims[:1]
	}
	return fmt.Sprintf("%s of %d bytes, %s", strings.Join(shape, "x"), a.Elem, strings.Join(dims, " x "))
}

// axis is one axis of an array on its ranks: n elements over so many places.
type axis struct {
	n, places int64
	kind      Kind
	block     int64 // 0: as equal as can be (block), 1 (cyclic)
	rest      Rest
	halo      int64
	margin    Margin
	room      int64 // of each place, 0: what it has
	empty     bool  // places may have no elements
}

// axis is one axis of the array over so many places.
func (a *Array) axis(i, places int) axis {
	d := a.dim(i)
	x := axis{n: a.Shape[i], places: int64(places), kind: d.Kind, block: d.Block, rest: d.Rest, halo: a.halo(i), margin: a.margin(i), empty: a.Empty}
	if x.margin.Equal {
		x.room = x.longest()
	}
	return x
}

// lower and upper are what a place has of the margin before and after its own elements.
func (x axis) lower(c int64) int64 {
	if x.margin.Clipped && x.start(c) == 0 {
		return 0
	}
	return x.margin.Lower
}

func (x axis) upper(c int64) int64 {
	if x.margin.Clipped && x.start(c+1) == x.n {
		return 0
	}
	return x.margin.Upper
}

// side is the length of the memory of a place along the axis.
func (x axis) side(c int64) int64 {
	if x.room > 0 {
		return x.room
	}
	return x.count(c) + 2*x.halo + x.lower(c) + x.upper(c) + x.margin.Pad
}

// longest is the longest of these, sum all of them together.
func (x axis) longest() (most int64) {
	if x.margin == (Margin{}) {
		return x.most() + 2*x.halo
	}
	for c := range x.places {
		most = max(most, x.side(c))
	}
	return most
}

func (x axis) sum() (sum int64) {
	if x.margin == (Margin{}) {
		return x.n + 2*x.halo*x.places
	}
	for c := range x.places {
		sum += x.side(c)
	}
	return sum
}

func (x axis) check() error {
	if x.kind == Block && x.block > 0 && x.block*x.places < x.n {
		return fmt.Errorf("%d blocks of %d do not hold %d elements", x.places, x.block, x.n)
	}
	if !x.empty && x.least() < 1 {
		return fmt.Errorf("%d elements on %d ranks: %w", x.n, x.places, ErrTooManyRanks)
	}
	return nil
}

// length is the size of a block that is dealt out.
func (x axis) length() int64 { return max(1, x.block) }

// start is the first element of a place, for block.
func (x axis) start(c int64) int64 {
	if x.block > 0 {
		return min(x.n, c*x.block)
	}
	return x.rest.start(x.n, x.places, c)
}

// count is the number of elements of a place, without halo.
func (x axis) count(c int64) int64 {
	if x.kind == Block {
		return x.start(c+1) - x.start(c)
	}
	b := x.length()
	turn := b * x.places
	return x.n/turn*b + min(b, max(0, x.n%turn-c*b))
}

// owner is the place of an element. Elements beyond the edge are of the place at it.
func (x axis) owner(i int64) int64 {
	if x.kind != Block {
		return i / x.length() % x.places
	}
	i = min(max(i, 0), x.n-1)
	if x.block > 0 {
		return i / x.block
	}
	// The first place that begins after the element is one too far.
	return int64(sort.Search(int(x.places), func(c int) bool { return x.start(int64(c)+1) > i }))
}

// least and most are the fewest and the most elements of any place.
func (x axis) least() int64 { return slices.Min(x.counts()) }
func (x axis) most() int64  { return slices.Max(x.counts()) }

// counts returns the elements of the places among which are those with the fewest and the
// most: rules of blocks differ at the ends, or by one.
func (x axis) counts() []int64 {
	list := []int64{x.count(0), x.count(x.places - 1)}
	if x.kind == Block && x.block == 0 {
		list = append(list, x.rest.between(x.n, x.places)...)
	}
	return list
}

// local is the position of an element in the memory of a place, halo included.
func (x axis) local(c, i int64) int64 {
	if x.kind == Block {
		return i - x.start(c) + x.halo + x.lower(c)
	}
	b := x.length()
	return i/(b*x.places)*b + i%b
}

// global is the element at a position.
func (x axis) global(c, at int64) int64 {
	if x.kind == Block {
		return at + x.start(c) - x.halo - x.lower(c)
	}
	b := x.length()
	return (at/b*x.places+c)*b + at%b
}

// Grid returns the sides of the grid of np ranks with so many axes that is nearest to
// a square or a cube, the longest first: the one of least surface. In two axes a prime
// number of ranks is one row, 1 x np, as Chapel has it.
func Grid(np, axes int) []int {
	if axes == 1 || np < 1 {
		return []int{np}
	}
	var best []int
	least := math.Inf(1)
	sides := make([]int, axes)
	// The sides are chosen from the shortest, the last, to the longest.
	var choose func(np, axes, from int)
	choose = func(np, axes, from int) {
		if axes == 1 {
			sides[0] = np
			if s := surface(sides); s < least {
				best, least = slices.Clone(sides), s
			}
			return
		}
		for side := from; math.Pow(float64(side), float64(axes)) <= float64(np); side++ {
			if np%side == 0 {
				sides[axes-1] = side
				choose(np/side, axes-1, side)
			}
		}
	}
	choose(np, axes, 1)
	if axes == 2 && best[1] == 1 {
		best[0], best[1] = best[1], best[0]
	}
	return best
}

// surface adds up the faces of a box.
func surface(sides []int) (sum float64) {
	for skip := range sides {
		face := 1.0
		for i, side := range sides {
			if i != skip {
				face *= float64(side)
			}
		}
		sum += face
	}
	return sum
}
