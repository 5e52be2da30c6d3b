package global

import (
	"fmt"
	"slices"
	"strings"
)

// A Side is a rule for the number of ranks along one axis of a grid.
type Side struct {
	// Of is empty for one rank, "p" for all of them, and otherwise "dims" or "openmpidims":
	// side Index, the longest is 0, of the grid that MPI_Dims_create gives Axes axes.
	Of          string
	Axes, Index int
}

// The grids of MPI_Dims_create in two libraries.
const (
	sideDims    = "dims"
	sideOpenMPI = "openmpidims"
)

// On returns the number of ranks along the axis.
func (s Side) On(np int) int {
	switch s.Of {
	case "p":
		return np
	case sideDims:
		return Dims(np, s.Axes)[s.Index]
	case sideOpenMPI:
		return OpenMPIDims(np, s.Axes)[s.Index]
	}
	return 1
}

// String is an expression of the number of ranks p, as workload specs have it.
func (s Side) String() string {
	switch s.Of {
	case "":
		return "1"
	case "p":
		return "p"
	}
	return fmt.Sprintf("%s(p, %d, %d)", s.Of, s.Axes, s.Index)
}

// A Cut says which rank has which cells of an array, for any number of ranks.
type Cut struct {
	Shape []int64 // cells along each axis; with Each, of each rank along it
	Each  []bool  // the axis grows with the ranks along it
	Elem  int64
	Halo  []int64
	Dims  []Dim
	Sides []Side
	Order []int // as in Array
}

// Array describes the array on np ranks.
func (c *Cut) Array(np int) *Array {
	a := &Array{Shape: slices.Clone(c.Shape), Elem: c.Elem, Dims: c.Dims, Halo: c.Halo, Order: c.Order, Empty: true}
	for i, s := range c.Sides {
		side := s.On(np)
		a.Grid = append(a.Grid, side)
		if c.Each[i] {
			a.Shape[i] *= int64(side)
		}
	}
	return a
}

// cutAxes are the axes along which more than one rank can be.
func (c *Cut) cutAxes() (list []int) {
	for i, s := range c.Sides {
		if s.Of != "" {
			list = append(list, i)
		}
	}
	return list
}

// Words describes the cut for a reader.
func (c *Cut) Words() string {
	axes := c.cutAxes()
	text := ""
	switch first := c.Sides[axes[0]]; {
	case first.Of == "p":
		text = fmt.Sprintf("cut along axis %d", axes[0])
	default:
		var sides []string
		for _, i := range axes {
			sides = append(sides, fmt.Sprint(c.Sides[i].Index+1))
		}
		text = fmt.Sprintf("cut along axes %s, on the grid of MPI_Dims_create in %d axes", spaced(axes), len(axes))
		if !slices.IsSorted(sides) {
			text += " with its sides in the order " + strings.Join(sides, ", ")
		}
	}
	if c.Order != nil {
		text += ", ranks run fastest along axis " + fmt.Sprint(c.Order[len(c.Order)-1])
	}
	var how []string
	for _, i := range axes {
		words := c.Dims[i].words()
		if c.Each[i] {
			words = fmt.Sprintf("each rank has %d cells along axis %d", c.Shape[i], i)
		}
		if !slices.Contains(how, words) {
			how = append(how, words)
		}
	}
	return text + "; " + strings.Join(how, ", ")
}

func spaced(axes []int) string { return strings.Trim(fmt.Sprint(axes), "[]") }

func (d Dim) words() string {
	switch d.Kind {
	case Cyclic:
		return "single cells are dealt out in turn"
	case BlockCyclic:
		return fmt.Sprintf("blocks of %d cells are dealt out in turn", d.Block)
	}
	return "where blocks are uneven, " + d.Rest.Words()
}

// Tells returns the smallest number of ranks, up to most, on which the parts of every other cut
// differ from this one's; 0 if there is none.
func (c *Cut) Tells(others []Cut, most int) int {
	for np := 2; np <= most; np++ {
		mine, err := c.Array(np).On(np)
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(others, func(o Cut) bool {
			l, err := o.Array(np).On(np)
			return err == nil && sameParts(mine, l)
		}) {
			return np
		}
	}
	return 0
}

func sameParts(a, b *Layout) bool {
	for rank := range a.np {
		if !a.Part(rank).Equal(b.Part(rank)) {
			return false
		}
	}
	return true
}
