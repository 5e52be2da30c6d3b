package global

// Grid returns the sides of the grid of np ranks with so many axes that is nearest to
// a square or a cube, the longest first: the one of least surface. In two axes a prime
// number of ranks is one row, 1 x np, as Chapel has it.
func Grid(np, axes int) []int {
	if axes == 1 || np < 1 {
		return []int{np}
	}
	best := make([]int, axes)
	search := gridSearch{best: best, sides: make([]int, axes)}
	search.fill(np, axes, 1)
	if axes == 2 && best[1] == 1 {
		best[0], best[1] = best[1], best[0]
	}
	return best
}

type gridSearch struct {
	sides, best []int
	cost        float64
	found       bool
}

// fill chooses the sides from the shortest, the last, to the longest.
func (s *gridSearch) fill(np, axes, least int) {
	if axes == 1 {
		s.sides[0] = np
		s.judge()
		return
	}
	for side := least; power(side, axes) <= float64(np); side++ {
		if np%side == 0 {
			s.sides[axes-1] = side
			s.fill(np/side, axes-1, side)
		}
	}
}

func power(x, n int) float64 {
	p := 1.0
	for range n {
		p *= float64(x)
	}
	return p
}

// judge keeps the sides if their surface is less than that of the best: the volume is
// the same, so the sum of 1 / side tells.
func (s *gridSearch) judge() {
	var cost float64
	for skip := range s.sides {
		face := 1.0
		for i, side := range s.sides {
			if i != skip {
				face *= float64(side)
			}
		}
		cost += face
	}
	if !s.found || cost < s.cost {
		s.found, s.cost = true, cost
		copy(s.best, s.sides)
	}
}
