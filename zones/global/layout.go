package global

import "fmt"

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
		l.axes[i] = axis{n: a.Shape[i], places: int64(n), kind: a.dim(i).Kind, block: a.dim(i).Block, halo: a.halo(i)}
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
	for i := len(at) - 1; i >= 0; i-- {
		at[i] = rank % l.grid[i]
		rank /= l.grid[i]
	}
	return at
}

// RankAt returns the rank at a place.
func (l *Layout) RankAt(at []int) int {
	rank := 0
	for i, c := range at {
		rank = rank*l.grid[i] + c
	}
	return rank
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
		out.Memory[i] = out.Shape[i] + 2*x.halo
		out.Low[i] = x.global(int64(c), x.halo)
	}
	return out
}

// Elements returns the number of elements in the memory of a rank, with its halo.
func (l *Layout) Elements(rank int) int64 {
	n := int64(1)
	for i := len(l.axes) - 1; i >= 0; i-- {
		x := l.axes[i]
		n *= x.count(int64(rank)%x.places) + 2*x.halo
		rank /= int(x.places)
	}
	return n
}

// All returns the number of elements in the memories of all ranks, with their halos.
func (l *Layout) All() int64 {
	n := int64(1)
	for _, x := range l.axes {
		n *= x.n + 2*x.halo*x.places
	}
	return n
}

// Owner returns the rank that owns an element.
func (l *Layout) Owner(index []int64) int {
	rank := 0
	for i, x := range l.axes {
		rank = rank*l.grid[i] + int(x.owner(index[i]))
	}
	return rank
}

// Offset returns the position of an element in the memory of its owner, counted in
// elements. Global is its inverse.
func (l *Layout) Offset(index []int64) int64 {
	var at int64
	for i, x := range l.axes {
		c := x.owner(index[i])
		at = at*(x.count(c)+2*x.halo) + x.local(c, index[i])
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
		size := x.count(c) + 2*x.halo
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
		out[k] = x.global(c, x.halo+int64(k))
	}
	return out
}
