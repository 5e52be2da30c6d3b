package fileview

import (
	"errors"
	"fmt"
	"math"
)

// A Slice takes Count cells of an axis: First, First+Step, and so on.
type Slice struct{ First, Count, Step int64 }

// maxTuples bounds the memory of a view.
const maxTuples = 1 << 20

// NewSlices returns the view of a part of an array that begins at byte initial of the file.
// The last axis runs fastest, and a cell has so many bytes. Cells that touch become one block,
// and the outermost axis that remains becomes the repetition.
func NewSlices(initial, cell int64, shape []int64, slices []Slice) (*View, error) {
	switch {
	case initial < 0:
		return nil, fmt.Errorf("view: initial offset %d is negative", initial)
	case cell < 1:
		return nil, fmt.Errorf("view: cells of %d bytes: must be at least 1", cell)
	case len(shape) == 0 || len(shape) != len(slices):
		return nil, fmt.Errorf("view: %d axes and %d slices: give one slice for each axis", len(shape), len(slices))
	}
	stride, first, block := cell, initial, cell
	var levels []level
	for k := len(shape) - 1; k >= 0; k-- {
		s := slices[k]
		if s.First < 0 || s.Count < 1 || s.Step < 1 || s.First >= shape[k] || s.Count-1 > (shape[k]-1-s.First)/s.Step {
			return nil, fmt.Errorf("view: axis %d: %d cells from %d by %d: the axis has %d", k, s.Count, s.First, s.Step, shape[k])
		}
		if shape[k] > (math.MaxInt64-initial)/stride {
			return nil, errors.New("view: the array ends beyond the largest offset of a file")
		}
		first += s.First * stride
		levels, block = join(levels, block, level{s.Count, s.Step * stride})
		stride *= shape[k]
	}
	return nest(first, block, levels)
}

// A level repeats what is inside it, Count times at a distance of Stride bytes.
type level struct{ count, stride int64 }

// join adds an outer level to those inside it, or lengthens the block or the outermost of them
// where that gives the same bytes.
func join(levels []level, block int64, l level) ([]level, int64) {
	if l.count == 1 {
		return levels, block
	}
	if len(levels) == 0 {
		if l.stride == block {
			return levels, block * l.count
		}
		return append(levels, l), block
	}
	if top := &levels[len(levels)-1]; top.count*top.stride == l.stride {
		top.count *= l.count
		return levels, block
	}
	return append(levels, l), block
}

// nest makes the view of blocks that levels repeat, the innermost first.
func nest(first, block int64, levels []level) (*View, error) {
	tuples := []Tuple{{Size: block}}
	extent, repeat := block, int64(1)
	for i, l := range levels {
		tuples[len(tuples)-1].Hole = l.stride - extent
		if i == len(levels)-1 {
			repeat = l.count
			break
		}
		if l.count > maxTuples/int64(len(tuples)) {
			return nil, fmt.Errorf("view: more than %d blocks before the outermost axis repeats: read that axis cell by cell", maxTuples)
		}
		inner := tuples
		for range l.count - 1 {
			tuples = append(tuples, inner...)
		}
		extent += (l.count - 1) * l.stride
		tuples[len(tuples)-1].Hole = 0
	}
	return NewView(first, tuples, repeat)
}
