package global

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Run is the parts that all ranks of a run hold of an array, in the order of the ranks.
type Run struct {
	Parts   []*Part
	OpenMPI bool // the run used Open MPI, whose MPI_Dims_create differs from MPICH's
}

// The reasons why no cut is found.
var (
	ErrOneRank = errors.New("a run on 1 rank shows no cut")
	ErrNoRule  = errors.New("no known rule gives each rank its cells")
	ErrShapes  = errors.New("the runs have arrays of different shapes")
)

// FindCuts returns the cuts that give every rank of every run the part that it holds, the most
// usual one first. The others differ from the first in one respect each.
func FindCuts(runs []Run) ([]Cut, error) {
	f := finder{runs: runs}
	if err := f.check(); err != nil {
		return nil, err
	}
	var found []candidate
	for _, sides := range f.sides() {
		if c, ok := f.fit(sides); ok {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return nil, f.noRule()
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.odd - b.odd })
	return cutsOf(found), nil
}

// noRule says why no rule is found.
func (f *finder) noRule() error {
	first := f.runs[0].Parts[0].shape()
	for _, run := range f.runs[1:] {
		if shape := run.Parts[0].shape(); !slices.Equal(shape, first) {
			return fmt.Errorf("%w: %v on %d ranks, %v on %d", ErrShapes, first, len(f.runs[0].Parts), shape, len(run.Parts))
		}
	}
	return ErrNoRule
}

func (p *Part) shape() (cells []int64) {
	for _, s := range p.Axes {
		cells = append(cells, s.Cells)
	}
	return cells
}

type finder struct {
	runs []Run
	axes int
	elem int64
	cut  []bool // more than one rank was seen along the axis
	halo []int64
	// margins are what the parts have beside that, nil if nothing.
	margins []Margin
}

// check reports why the runs cannot be of one array, and notes what all parts have in common.
func (f *finder) check() error {
	most := 0
	for _, run := range f.runs {
		most = max(most, len(run.Parts))
		for rank, p := range run.Parts {
			if f.halo == nil {
				f.axes, f.cut = len(p.Axes), make([]bool, len(p.Axes))
				for _, s := range p.Axes {
					f.halo = append(f.halo, s.Halo)
				}
			}
			if err := f.add(run.Parts[0], p); err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
		}
	}
	if most < 2 {
		return ErrOneRank
	}
	f.findMargins()
	return nil
}

// findMargins notes what memory has beside cells and halos. Whether all ranks have it, the rules
// tell.
func (f *finder) findMargins() {
	f.margins = make([]Margin, f.axes)
	common := Margin{} // of the axes whose halos end at the edges
	for i := range f.margins {
		f.margins[i] = f.margin(i)
		if f.margins[i].Clipped {
			common = f.margins[i]
		}
	}
	for i, m := range f.margins {
		if m.Lower+m.Upper == 0 && !f.cut[i] {
			// The only rank along an axis is at both of its edges.
			f.margins[i] = Margin{Lower: common.Lower, Upper: common.Upper, Clipped: common.Clipped, Pad: m.Pad}
		}
	}
	if !slices.ContainsFunc(f.margins, func(m Margin) bool { return m != Margin{} }) {
		f.margins = nil
	}
}

// margin is what the parts have along an axis.
func (f *finder) margin(i int) (m Margin) {
	m.Pad = math.MaxInt64
	pads, differ := int64(0), false
	for _, run := range f.runs {
		for _, p := range run.Parts {
			if s := p.Axes[i]; s.Count > 0 {
				m.Lower, m.Upper = max(m.Lower, s.Lower), max(m.Upper, s.Upper)
				m.Pad, pads = min(m.Pad, s.Pad), max(pads, s.Pad)
			}
		}
	}
	for _, run := range f.runs {
		for _, p := range run.Parts {
			s := p.Axes[i]
			differ = differ || s.Count > 0 && (s.Lower != m.Lower || s.Upper != m.Upper)
		}
	}
	m.Clipped, m.Equal = differ, pads > m.Pad
	return m
}

func (f *finder) add(first, p *Part) error {
	if len(p.Axes) != f.axes {
		return fmt.Errorf("%d and %d axes", f.axes, len(p.Axes))
	}
	if p.Elem > 0 && f.elem > 0 && p.Elem != f.elem {
		return fmt.Errorf("cells of %d and %d bytes", f.elem, p.Elem)
	}
	f.elem = max(f.elem, p.Elem)
	for i, s := range p.Axes {
		if s.Halo != f.halo[i] {
			return fmt.Errorf("halos of %d and %d cells along axis %d", f.halo[i], s.Halo, i)
		}
		if s.First != first.Axes[i].First || s.Count != first.Axes[i].Count {
			f.cut[i] = true
		}
	}
	return nil
}

// A candidate is a grid with the rules that fit along each axis, the most usual first.
type candidate struct {
	Cut
	rests [][]Rest
	odd   int // how unusual it is
}

// fewAxes is up to how many axes all grids are tried.
const fewAxes = 4

// sides lists the grids to try: each with ranks along the axes that are seen to be cut, and
// perhaps along others.
func (f *finder) sides() [][]Side {
	var list [][]Side
	for set := 1; set < 1<<f.axes; set++ {
		var axes []int
		covers, extra := true, false
		for i := range f.axes {
			if set>>i&1 == 1 {
				axes, extra = append(axes, i), extra || !f.cut[i]
			} else if f.cut[i] {
				covers = false
			}
		}
		if !covers || extra && f.axes > fewAxes {
			continue
		}
		for _, order := range permutations(len(axes)) {
			sides := make([]Side, f.axes)
			for k, i := range axes {
				sides[i] = Side{Of: f.grid(), Axes: len(axes), Index: order[k]}
				if len(axes) == 1 {
					sides[i] = Side{Of: "p"}
				}
			}
			list = append(list, sides)
		}
	}
	return list
}

func (f *finder) grid() string {
	if f.runs[0].OpenMPI {
		return sideOpenMPI
	}
	return sideDims
}

// permutations lists the orders of n axes: the natural one, its reverse, then, of few axes, the
// others.
func permutations(n int) [][]int {
	natural := make([]int, n)
	for i := range natural {
		natural[i] = i
	}
	reverse := slices.Clone(natural)
	slices.Reverse(reverse)
	list := [][]int{natural}
	if n > 1 {
		list = append(list, reverse)
	}
	if n > fewAxes || n < 3 {
		return list
	}
	var all func(chosen []int)
	all = func(chosen []int) {
		if len(chosen) == n && !slices.Equal(chosen, natural) && !slices.Equal(chosen, reverse) {
			list = append(list, slices.Clone(chosen))
		}
		for i := range n {
			if !slices.Contains(chosen, i) {
				all(append(slices.Clip(chosen), i))
			}
		}
	}
	all(nil)
	return list
}

// fit finds the order of ranks and the rules along the axes with which a grid gives all parts.
func (f *finder) fit(sides []Side) (candidate, bool) {
	c := candidate{Cut: Cut{Elem: f.elem, Halo: f.halo, Margins: f.margins, Sides: sides, Each: make([]bool, f.axes)}, rests: make([][]Rest, f.axes)}
	if !f.shape(&c) {
		return c, false
	}
	for i, order := range permutations(f.axes) {
		c.Order = nil
		if i > 0 {
			c.Order = order
		}
		if f.rules(&c) {
			c.odd = f.oddity(sides, order) + min(i, 2)
			return c, true
		}
	}
	return c, false
}

// shape finds the shape, which is the same in all runs or grows with the ranks along an axis.
// Where one axis grows, so does another with as many ranks along it in all runs.
func (f *finder) shape(c *candidate) bool {
	c.Shape = make([]int64, f.axes)
	grows := false
	for i := range f.axes {
		first, places := f.cells(c, i, f.runs[0])
		fixed, each, same := true, true, true
		for _, run := range f.runs {
			cells, n := f.cells(c, i, run)
			fixed = fixed && cells == first
			same = same && n == places
			each = each && cells*places == first*n
		}
		c.Shape[i], c.Each[i] = first, !fixed || each && same && c.Sides[i].Of != ""
		if !fixed && (!each || first%places != 0) {
			return false
		}
		grows = grows || !fixed
	}
	for i := range f.axes {
		_, places := f.cells(c, i, f.runs[0])
		if c.Each[i] = c.Each[i] && grows && c.Shape[i]%places == 0; c.Each[i] {
			c.Shape[i] /= places
		}
	}
	return true
}

// cells is how many cells an axis has in a run, and how many ranks are along it.
func (f *finder) cells(c *candidate, i int, run Run) (cells, places int64) {
	return run.Parts[0].Axes[i].Cells, int64(c.Sides[i].On(len(run.Parts)))
}

// rules finds the rules along each axis that give all parts.
func (f *finder) rules(c *candidate) bool {
	c.Dims = make([]Dim, f.axes)
	for i := range f.axes {
		c.Dims[i] = f.dealt(i)
		c.rests[i] = nil
	}
	for i := range f.axes {
		if c.Dims[i].Kind != Block || c.Sides[i].Of == "" {
			if !f.gives(c, i) {
				return false
			}
			continue
		}
		for _, rest := range Rests() {
			if c.Dims[i].Rest = rest; f.gives(c, i) {
				c.rests[i] = append(c.rests[i], rest)
			}
		}
		if c.rests[i] == nil {
			return false
		}
		c.Dims[i].Rest = c.rests[i][0]
	}
	return true
}

// dealt is how the cells along an axis are dealt out.
func (f *finder) dealt(i int) Dim {
	for _, run := range f.runs {
		for _, p := range run.Parts {
			switch b := p.Axes[i].Block; {
			case b == 1:
				return Dim{Kind: Cyclic}
			case b > 1:
				return Dim{Kind: BlockCyclic, Block: b}
			}
		}
	}
	return Dim{Kind: Block}
}

// gives reports whether a cut gives all ranks what they hold along an axis.
func (f *finder) gives(c *candidate, i int) bool {
	for _, run := range f.runs {
		a := c.Array(len(run.Parts))
		l := &Layout{array: *a, np: len(run.Parts), grid: a.Grid, axes: make([]axis, f.axes)}
		x := a.axis(i, a.Grid[i])
		for rank, p := range run.Parts {
			has, gets := p.Axes[i], x.stretch(int64(l.Place(rank)[i]))
			if has.Count == 0 && gets.Count == 0 {
				continue
			}
			if has != gets {
				return false
			}
		}
	}
	return true
}

// reaches reports whether ranks keep cells of others along an axis.
func (f *finder) reaches(i int) bool {
	return f.halo[i] > 0 || f.margins != nil && f.margins[i].Lower+f.margins[i].Upper > 0
}

// oddity is how unusual a grid is. Ranks along an axis that no run has cut are usual where the
// array is cut along several axes and has a halo there. The longest side is where ranks run
// slowest, as in MPI_Cart_create.
func (f *finder) oddity(sides []Side, slowest []int) int {
	seen, more, halo, expected := 0, 0, true, false
	var order []int
	for _, i := range slowest {
		if sides[i].Of != "" {
			order = append(order, sides[i].Index)
		}
	}
	for i, s := range sides {
		switch {
		case f.cut[i]:
			seen++
		case s.Of != "":
			more++
			halo = halo && f.reaches(i)
		default:
			expected = expected || f.reaches(i)
		}
	}
	odd := 0
	if i := slices.IndexFunc(permutations(len(order)), func(p []int) bool { return slices.Equal(p, order) }); i > 0 {
		odd = 10 * min(i, 2)
	}
	switch {
	case more > 0 && (seen < 2 || !halo):
		odd += 40
	case more == 0 && seen >= 2 && expected:
		odd += 20
	}
	return odd
}

// otherGrids bounds how many grids are named beside the most usual one.
const otherGrids = 3

// cutsOf lists the most usual cut, then it with other rules, then the other grids.
func cutsOf(found []candidate) []Cut {
	var list []Cut
	for _, rest := range found[0].common() {
		list = append(list, found[0].ruled(rest))
	}
	if list == nil {
		list = []Cut{found[0].Cut}
	}
	for _, c := range found[1:min(len(found), 1+otherGrids)] {
		if rests := c.common(); len(rests) > 0 {
			c.Cut = c.ruled(rests[0])
		}
		list = append(list, c.Cut)
	}
	return list
}

// common are the rules that fit along all axes: programs use one for all.
func (c *candidate) common() []Rest {
	list := Rests()
	asked := false
	for _, rests := range c.rests {
		if rests != nil {
			asked = true
			list = slices.DeleteFunc(list, func(r Rest) bool { return !slices.Contains(rests, r) })
		}
	}
	if !asked {
		return nil
	}
	return list
}

// ruled is the cut with a rule along all axes.
func (c *candidate) ruled(rest Rest) Cut {
	out := c.Cut
	out.Dims = slices.Clone(c.Dims)
	for i, rests := range c.rests {
		if rests != nil {
			out.Dims[i].Rest = rest
		}
	}
	return out
}

// Rest is the rule for uneven blocks; empty if no axis has one.
func (c *Cut) Rest() Rest {
	for _, d := range c.Dims {
		if d.Rest != "" {
			return d.Rest
		}
	}
	return ""
}

// Agree leaves the rules out by which only some of the arrays of a program can be cut, if one
// is left: programs use one for all.
func Agree(arrays [][]Cut) {
	common := Rests()
	for _, cuts := range arrays {
		if cuts[0].Rest() != "" {
			common = slices.DeleteFunc(common, func(r Rest) bool {
				return !slices.ContainsFunc(cuts, func(c Cut) bool { return c.Rest() == r && sameSides(&c, &cuts[0]) })
			})
		}
	}
	if len(common) == 0 {
		return
	}
	for i, cuts := range arrays {
		first := cuts[0]
		arrays[i] = slices.DeleteFunc(cuts, func(c Cut) bool {
			return c.Rest() != "" && sameSides(&c, &first) && !slices.Contains(common, c.Rest())
		})
	}
}

func sameSides(a, b *Cut) bool { return slices.Equal(a.Sides, b.Sides) }
