package global

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Held is a part and the rank that holds it.
type Held struct {
	Rank int
	Part *Part
}

// CheckTiles reports why parts do not make up an array, each cell once: nil if they do.
// The error names two ranks where two are at odds.
func CheckTiles(parts []Held) error {
	if err := CheckApart(parts); err != nil || len(parts) == 0 {
		return err
	}
	var held int64
	for _, h := range parts {
		held += h.Part.own()
	}
	whole := int64(1)
	for _, s := range parts[0].Part.Axes {
		var ok bool
		if whole, ok = product(whole, s.Cells); !ok {
			return errors.New("the array is too large")
		}
	}
	if held != whole {
		return fmt.Errorf("%d of %d cells are held by no rank", whole-held, whole)
	}
	return nil
}

// CheckApart reports why parts are not of the same array, or which two hold the same cell:
// nil if they and those of other ranks can make up an array.
func CheckApart(parts []Held) error {
	if len(parts) == 0 {
		return nil
	}
	for _, h := range parts[1:] {
		if err := parts[0].Part.Fits(h.Part); err != nil {
			return fmt.Errorf("ranks %d and %d describe different arrays: %w", parts[0].Rank, h.Rank, err)
		}
	}
	if a, b, cell := overlap(parts); cell != nil {
		return fmt.Errorf("ranks %d and %d both hold cell %v", min(a, b), max(a, b), cell)
	}
	return nil
}

// overlap returns two ranks that hold the same cell, and that cell; nil if there are none.
// It walks along the first axis and compares those parts that reach as far. Where all are
// dealt in turn alike, it is enough to compare their first blocks.
func overlap(parts []Held) (a, b int, cell []int64) {
	order := slices.DeleteFunc(slices.Clone(parts), func(h Held) bool { return h.Part.own() == 0 })
	slices.SortStableFunc(order, func(x, y Held) int { return cmp.Compare(x.Part.Axes[0].First, y.Part.Axes[0].First) })
	alike := !slices.ContainsFunc(order, func(h Held) bool {
		return h.Part.Axes[0].Block == 0 || h.Part.Axes[0].Stride != order[0].Part.Axes[0].Stride
	})
	reach := func(s Stretch) int64 {
		if alike {
			return s.First + s.Block - 1
		}
		return s.last()
	}
	var open []Held
	for _, h := range order {
		first := h.Part.Axes[0].First
		open = slices.DeleteFunc(open, func(o Held) bool { return reach(o.Part.Axes[0]) < first })
		for _, o := range open {
			if cell := o.Part.shared(h.Part); cell != nil {
				return o.Rank, h.Rank, cell
			}
		}
		open = append(open, h)
	}
	return 0, 0, nil
}

// last is the index of the last cell.
func (s Stretch) last() int64 {
	if s.Block == 0 {
		return s.First + s.Count - 1
	}
	return s.First + (s.Count-1)/s.Block*s.Stride + (s.Count-1)%s.Block
}

// shared returns a cell that both parts hold, nil if there is none.
func (p *Part) shared(q *Part) []int64 {
	var cell [MaxAxes]int64
	for i, s := range p.Axes {
		if cell[i] = s.meets(q.Axes[i]); cell[i] < 0 {
			return nil
		}
	}
	return slices.Clone(cell[:len(p.Axes)])
}

// meets returns the first cell that both stretches have, −1 if there is none. They have
// cells.
func (s Stretch) meets(t Stretch) int64 {
	first := max(s.First, t.First)
	switch {
	case s == t:
		return first
	case s.last() < t.First || t.last() < s.First:
		return -1
	case s.Block == 0 && t.Block == 0:
		return first
	case s.Block > 0 && t.Block > 0 && s.Stride == t.Stride: // ranks are many, and this is usual
		if first >= min(s.First+s.Block, t.First+t.Block) {
			return -1
		}
		return first
	}
	s.Halo, t.Halo = 0, 0
	both := meet(s.pattern(false), t.pattern(false), s.Cells)
	if len(both) == 0 {
		return -1
	}
	cell := s.at(both[0].dst)
	for _, p := range both {
		cell = min(cell, s.at(p.dst))
	}
	return cell
}

// at is the index of the cell at a position in memory without halo.
func (s Stretch) at(position int64) int64 {
	if s.Block == 0 {
		return s.First + position
	}
	return s.First + position/s.Block*s.Stride + position%s.Block
}
