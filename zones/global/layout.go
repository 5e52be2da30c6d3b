package global

import (
	"errors"
	"fmt"
)

// A Layout is an array on a number of ranks.
type Layout struct {
	array Array
	np    int
	grid  []int
	axes  []axis
}

// On distributes the array over np ranks.
func (a *Array) On(np int) (*Layout, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if np < 1 {
		return nil, fmt.Errorf("%d ranks", np)
	}
	l := &Layout{array: *a, np: np, grid: a.Grid, axes: make([]axis, len(a.Shape))}
	if l.grid == nil {
		l.grid = Grid(np, len(a.Shape))
	}
	places := 1
	for i, n := range l.grid {
		if places *= n; places > np {
			break
		}
		l.axes[i] = a.axis(i, n)
	}
	if places != np {
		return nil, fmt.Errorf("a grid of %v does not have %d ranks", l.grid, np)
	}
	for i, x := range l.axes {
		if err := x.check(); err != nil {
			return nil, fmt.Errorf("axis %d: %w", i, err)
		}
	}
	return l, nil
}

// Ranks returns the number of ranks.
func (l *Layout) Ranks() int { return l.np }

// Array returns the array that is distributed.
func (l *Layout) Array() *Array { return &l.array }

// Grid returns the ranks along each axis.
func (l *Layout) Grid() []int { return l.grid }

// Place returns the place of a rank on the grid.
func (l *Layout) Place(rank int) []int {
	at := make([]int, len(l.grid))
	for k := len(at) - 1; k >= 0; k-- {
		i := l.slow(k)
		at[i] = rank % l.grid[i]
		rank /= l.grid[i]
	}
	return at
}

// RankAt returns the rank at a place.
func (l *Layout) RankAt(at []int) int {
	rank := 0
	for k := range at {
		i := l.slow(k)
		rank = rank*l.grid[i] + at[i]
	}
	return rank
}

// slow is the k-th axis of the grid, from the one along which ranks run slowest.
func (l *Layout) slow(k int) int {
	if l.array.Order == nil {
		return k
	}
	return l.array.Order[k]
}

// A Local is the part of an array that one rank holds.
type Local struct {
	// Shape is the number of own elements along each axis.
	Shape []int64
	// Memory is the same with the halo.
	Memory []int64
	// Low is the first own element along each axis.
	Low []int64
}

// Local returns what a rank holds.
func (l *Layout) Local(rank int) Local {
	n := len(l.axes)
	out := Local{make([]int64, n), make([]int64, n), make([]int64, n)}
	for i, c := range l.Place(rank) {
		x := l.axes[i]
		out.Shape[i] = x.count(int64(c))
		out.Memory[i] = x.side(int64(c))
		out.Low[i] = x.global(int64(c), x.halo+x.lower(int64(c)))
	}
	return out
}

// Elements returns the number of elements in the memory of a rank, with its halo.
func (l *Layout) Elements(rank int) int64 {
	n := int64(1)
	for k := len(l.axes) - 1; k >= 0; k-- {
		x := l.axes[l.slow(k)]
		n *= x.side(int64(rank) % x.places)
		rank /= int(x.places)
	}
	return n
}

// Most returns the number of elements in the memory of the rank that has the most.
func (l *Layout) Most() int64 {
	n := int64(1)
	for _, x := range l.axes {
		n *= x.longest()
	}
	return n
}

// All returns the number of elements in the memories of all ranks, with their halos.
func (l *Layout) All() int64 {
	n := int64(1)
	for _, x := range l.axes {
		n *= x.sum()
	}
	return n
}

// Owner returns the rank that owns an element.
func (l *Layout) Owner(index []int64) int {
	at := make([]int, len(l.axes))
	for i, x := range l.axes {
		at[i] = int(x.owner(index[i]))
	}
	return l.RankAt(at)
}

// Offset returns the position of an element in the memory of its owner, counted in
// elements. Global is its inverse.
func (l *Layout) Offset(index []int64) int64 {
	var at int64
	for i, x := range l.axes {
		c := x.owner(index[i])
		at = at*x.side(c) + x.local(c, index[i])
	}
	return at
}

// Global returns the index of the element at a position in the memory of a rank. In a
// halo at the edge of the array it is outside of the array.
func (l *Layout) Global(rank int, offset int64) []int64 {
	index := make([]int64, len(l.axes))
	at := l.Place(rank)
	for i := len(l.axes) - 1; i >= 0; i-- {
		x, c := l.axes[i], int64(at[i])
		size := x.side(c)
		index[i] = x.global(c, offset%size)
		offset /= size
	}
	return index
}

// Indices returns the global index of each own element of a rank along an axis, in the
// order of its memory.
func (l *Layout) Indices(rank, i int) []int64 {
	x, c := l.axes[i], int64(l.Place(rank)[i])
	out := make([]int64, x.count(c))
	for k := range out {
		out[k] = x.global(c, x.halo+x.lower(c)+int64(k))
	}
	return out
}

// A Range is the elements Lo, Lo+By, … up to Hi of an axis: Lo..Hi by By in Chapel.
// A By of 0 is 1.
type Range struct{ Lo, Hi, By int64 }

func (r Range) by() int64 { return max(1, r.By) }

// Len returns the number of elements.
func (r Range) Len() int64 {
	if r.Hi < r.Lo {
		return 0
	}
	return (r.Hi-r.Lo)/r.by() + 1
}

// At returns the k-th element, from 0.
func (r Range) At(k int64) int64 { return r.Lo + k*r.by() }

// Pos returns which one element i is, from 0. It is the inverse of At.
func (r Range) Pos(i int64) int64 { return (i - r.Lo) / r.by() }

// Within returns the elements of r from lo to hi.
func (r Range) Within(lo, hi int64) Range {
	by := r.by()
	if lo > r.Lo {
		r.Lo += ceilDiv(lo-r.Lo, by) * by
	}
	if hi < r.Hi {
		r.Hi = hi
	}
	if n := r.Len(); n > 0 {
		r.Hi = r.At(n - 1)
	}
	return r
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// All returns the ranges of a whole array.
func (a *Array) All() []Range {
	out := make([]Range, len(a.Shape))
	for i, n := range a.Shape {
		out[i] = Range{0, n - 1, 1}
	}
	return out
}

// checkSections checks an assignment of section s of src to section d of dst.
func checkSections(dst *Layout, d []Range, src *Layout, s []Range) error {
	if len(d) != len(dst.axes) || len(s) != len(src.axes) || len(d) != len(s) {
		return fmt.Errorf("sections of %d and %d axes for arrays of %d and %d", len(d), len(s), len(dst.axes), len(src.axes))
	}
	if dst.array.Elem != src.array.Elem {
		return fmt.Errorf("elements of %d and %d bytes", dst.array.Elem, src.array.Elem)
	}
	for i := range d {
		if d[i].Len() != s[i].Len() {
			return fmt.Errorf("axis %d: %d elements are assigned to %d", i, s[i].Len(), d[i].Len())
		}
		if err := errors.Join(d[i].check(dst.axes[i]), s[i].check(src.axes[i])); err != nil {
			return fmt.Errorf("axis %d: %w", i, err)
		}
	}
	return nil
}

func (r Range) check(x axis) error {
	if r.By < 0 || r.Len() > 0 && (r.Lo < 0 || r.Hi >= x.n) {
		return fmt.Errorf("range %d..%d by %d of %d elements", r.Lo, r.Hi, r.by(), x.n)
	}
	return nil
}
