package global

import (
	"cmp"
	"math"
	"slices"
)

// A Sized is the bytes that each rank of a run holds of an array, where nothing says which cells.
type Sized struct {
	Bytes   []int64
	OpenMPI bool // as in Run
}

// sizedRuns is on how many numbers of ranks sizes have to be known: fewer fit cuts by chance.
const sizedRuns = 3

// SizedCuts returns the cuts in blocks with which each rank of every run holds as many bytes as it
// did, the likeliest first.
//
// All ranks together hold a product: the values of a cell, times the cells along an axis and the
// halos of all places along it, for each axis. So the factors of one run are tried on the others.
func SizedCuts(runs []Sized, elem int64) []Cut {
	s := sizer{elem: elem}
	if !s.read(runs) {
		return nil
	}
	for s.axes = 1; s.axes <= 3; s.axes++ {
		s.grids()
		for _, s.width = range sizedHalos {
			for _, s.clipped = range []bool{false, true} {
				if s.tried = 0; s.width > 0 || s.axes == 1 && !s.clipped {
					s.try(s.totals[0], make([]int64, 0, s.axes+1))
				}
			}
		}
	}
	slices.SortStableFunc(s.found, func(a, b Cut) int { return cmp.Compare(a.strangeness(), b.strangeness()) })
	return s.found
}

// strangeness grows with how unlike the arrays of programs a cut is: these have few values in a
// cell, sides of similar or equal lengths, and halos at the edges, too.
func (c *Cut) strangeness() float64 {
	sides := slices.Sorted(slices.Values(c.Shape))
	oblong := math.Log(float64(sides[len(sides)-1]) / float64(sides[0]))
	s := oblong*oblong + 0.5*math.Log(float64(c.Elem)) - float64(len(sides))
	for i, n := range sides[1:] {
		if n == sides[i] {
			s -= math.Log(float64(n))
		}
	}
	if c.Margins != nil {
		s += 0.3
	}
	return s
}

// Together chooses a cut for each array of a program. Arrays on the same cells, or on their edges,
// are likelier than on others. It is nil where there is none.
func Together(arrays [][]Cut) (chosen []*Cut) {
	for i, cuts := range arrays {
		var best *Cut
		least := math.Inf(1)
		for k := range cuts {
			c := &cuts[k]
			strange := c.strangeness()
			for j, others := range arrays {
				if j != i && slices.ContainsFunc(others, c.beside) {
					strange -= alike
				}
			}
			if strange < least {
				best, least = c, strange
			}
		}
		chosen = append(chosen, best)
	}
	return chosen
}

// alike is how much less strange a cut is beside one of another array on the same cells, and edge by
// how many cells these may differ.
const (
	alike = 3
	edge  = 2
)

func (c *Cut) beside(o Cut) bool {
	if len(c.Shape) != len(o.Shape) {
		return false
	}
	for i, n := range c.Shape {
		if d := n - o.Shape[i]; d > edge || d < -edge {
			return false
		}
	}
	return true
}

// sizedHalos are how many cells a rank may keep of its neighbours along an axis, on both sides
// together.
var sizedHalos = []int64{0, 2, 4, 6, 8, 1}

// mostTried bounds the products that are tried of one kind, mostSized the elements of an array.
const (
	mostTried = 1 << 18
	mostSized = 1 << 40
)

// A sizer tries cuts of one number of axes and one kind of halo at a time.
type sizer struct {
	elem     int64
	runs     []Sized
	totals   []int64 // elements of all ranks
	divisors []int64 // of the first
	axes     int
	width    int64
	clipped  bool
	sides    [][]int // of the grid of each run
	tried    int
	found    []Cut
}

// read takes the elements of one run for each number of ranks, the one with the fewest divisors
// first.
func (s *sizer) read(runs []Sized) bool {
	counts := map[int]bool{}
	for _, run := range runs {
		sum := int64(0)
		for _, n := range run.Bytes {
			if n <= 0 || n%s.elem != 0 || n/s.elem > mostSized {
				return false
			}
			sum += n / s.elem
		}
		if sum > mostSized {
			return false
		}
		if counts[len(run.Bytes)] {
			continue
		}
		counts[len(run.Bytes)] = true
		d := divisors(sum)
		at := len(s.runs)
		if at == 0 || len(d) < len(s.divisors) {
			s.divisors, at = d, 0
		}
		s.runs, s.totals = slices.Insert(s.runs, at, run), slices.Insert(s.totals, at, sum)
	}
	return len(counts) >= sizedRuns
}

func divisors(n int64) (list []int64) {
	for d := int64(1); d*d <= n; d++ {
		if n%d == 0 {
			list = append(list, d)
			if d*d < n {
				list = append(list, n/d)
			}
		}
	}
	slices.Sort(list)
	return list
}

func (s *sizer) grids() {
	s.sides = nil
	for _, run := range s.runs {
		np := len(run.Bytes)
		switch {
		case s.axes == 1:
			s.sides = append(s.sides, []int{np})
		case run.OpenMPI:
			s.sides = append(s.sides, OpenMPIDims(np, s.axes))
		default:
			s.sides = append(s.sides, Dims(np, s.axes))
		}
	}
}

// halos is how many cells of halos are along an axis of a run.
func (s *sizer) halos(run, axis int) int64 {
	places := int64(s.sides[run][axis])
	if s.clipped {
		places--
	}
	return s.width * places
}

// try divides what is left of the first product among the axes; the rest is values of a cell.
func (s *sizer) try(left int64, cells []int64) {
	axis := len(cells)
	switch {
	case axis == s.axes:
		s.check(left, cells)
		return
	case axis == s.axes-1 && s.last(left, cells):
		return
	}
	for _, d := range s.divisors {
		if s.tried++; d > left || s.tried > mostTried {
			return
		}
		if n := d - s.halos(0, axis); left%d == 0 && s.holds(axis, n) {
			s.try(left/d, append(cells, n))
		}
	}
}

// last works out the last axis from a run with other halos along it, if there is one.
func (s *sizer) last(left int64, cells []int64) bool {
	axis := len(cells)
	for i, total := range s.totals {
		more := s.halos(i, axis) - s.halos(0, axis)
		if more == 0 {
			continue
		}
		for k, n := range cells {
			if n += s.halos(i, k); total%n != 0 {
				return true
			}
			total /= n
		}
		values := (total - left) / more
		if values > 0 && left%values == 0 {
			if n := left/values - s.halos(0, axis); s.holds(axis, n) {
				s.check(values, append(cells, n))
			}
		}
		return true
	}
	return false
}

// holds reports whether each place along an axis has a cell.
func (s *sizer) holds(axis int, n int64) bool {
	return !slices.ContainsFunc(s.sides, func(sides []int) bool { return n < int64(sides[axis]) })
}

// check keeps the cut if the products of all runs are right, and then the ranks.
func (s *sizer) check(values int64, cells []int64) {
	for i, total := range s.totals {
		product := values
		for axis, n := range cells {
			if product > total {
				return
			}
			product *= n + s.halos(i, axis)
		}
		if product != total {
			return
		}
	}
	for _, rest := range Rests() {
		if c := s.cut(values, cells, rest); s.gives(&c) {
			s.found = append(s.found, c)
			return
		}
	}
}

func (s *sizer) cut(values int64, cells []int64, rest Rest) Cut {
	c := Cut{Shape: slices.Clone(cells), Elem: values * s.elem, Halo: make([]int64, s.axes), Each: make([]bool, s.axes)}
	of := sideDims
	if s.runs[0].OpenMPI {
		of = sideOpenMPI
	}
	for i := range s.axes {
		c.Dims = append(c.Dims, Dim{Kind: Block, Rest: rest})
		c.Sides = append(c.Sides, Side{Of: of, Axes: s.axes, Index: i})
		switch {
		case s.clipped:
			c.Margins = append(c.Margins, Margin{Lower: (s.width + 1) / 2, Upper: s.width / 2, Clipped: true})
		case s.width%2 == 1:
			c.Margins = append(c.Margins, Margin{Lower: s.width})
		default:
			c.Halo[i] = s.width / 2
		}
	}
	if s.axes == 1 {
		c.Sides[0] = Side{Of: "p"}
	}
	return c
}

// gives reports whether each rank of every run has its bytes.
func (s *sizer) gives(c *Cut) bool {
	for _, run := range s.runs {
		l, err := c.Array(len(run.Bytes)).On(len(run.Bytes))
		if err != nil {
			return false
		}
		for rank, n := range run.Bytes {
			if l.Elements(rank)*c.Elem != n {
				return false
			}
		}
	}
	return true
}
