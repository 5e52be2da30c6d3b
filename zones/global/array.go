package global

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
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
}

func (d Dim) String() string {
	if d.Block > 0 {
		return fmt.Sprintf("%s(%d)", d.Kind, d.Block)
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
	// Grid is the number of ranks along each axis; nil: that of [Grid].
	Grid []int `json:"grid,omitempty"`
	// Halo is the number of elements beyond its block, on either side of each axis,
	// that a rank keeps; nil: none.
	Halo []int64 `json:"halo,omitempty"`
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
	}
	size := a.Elem
	for i := range n {
		if err := a.checkAxis(i); err != nil {
			return fmt.Errorf("axis %d: %w", i, err)
		}
		var ok bool
		if size, ok = product(size, a.Shape[i]+2*a.halo(i)); !ok {
			return errors.New("the array is too large")
		}
	}
	return nil
}

func (a *Array) checkAxis(i int) error {
	d := a.dim(i)
	switch {
	case a.Shape[i] < 1 || a.Shape[i] > math.MaxInt64/4:
		return fmt.Errorf("%d elements", a.Shape[i])
	case !slices.Contains(Kinds(), d.Kind):
		return fmt.Errorf("distribution %q is unknown (want block, cyclic or block-cyclic)", d.Kind)
	case d.Block < 0 || d.Block > math.MaxInt32 || d.Kind == BlockCyclic && d.Block == 0:
		return fmt.Errorf("%s needs a length of blocks from 1 to 2^31-1, got %d", d.Kind, d.Block)
	case d.Kind == Cyclic && d.Block > 1:
		return fmt.Errorf("cyclic has no blocks; say block-cyclic")
	case a.Grid != nil && a.Grid[i] < 1:
		return fmt.Errorf("a grid of %d ranks", a.Grid[i])
	case a.halo(i) < 0 || a.halo(i) > a.Shape[i]:
		return fmt.Errorf("a halo of %d elements around %d", a.halo(i), a.Shape[i])
	case a.halo(i) > 0 && d.Kind != Block:
		return fmt.Errorf("%s has no halo; only block has", d.Kind)
	}
	return nil
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

// SameData reports whether both have the same elements, however distributed.
func (a *Array) SameData(b *Array) bool {
	return a.Elem == b.Elem && slices.Equal(a.Shape, b.Shape)
}

// Equal reports whether both are distributed in the same way, too.
func (a *Array) Equal(b *Array) bool {
	if a == nil || b == nil {
		return a == b
	}
	if !a.SameData(b) || !slices.Equal(a.Grid, b.Grid) {
		return false
	}
	for i := range a.Shape {
		if a.dim(i) != b.dim(i) || a.halo(i) != b.halo(i) {
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
