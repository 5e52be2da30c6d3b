package global

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// runOf is what the ranks of a run would declare.
func runOf(t *testing.T, c Cut, np int) Run {
	t.Helper()
	l := on(t, c.Array(np), np)
	var run Run
	for rank := range np {
		run.Parts = append(run.Parts, l.Part(rank))
	}
	return run
}

func dims(axes int) (list []Side) {
	for i := range axes {
		list = append(list, Side{Of: sideDims, Axes: axes, Index: i})
	}
	return list
}

func cut(shape []int64, halo []int64, sides []Side, rest Rest) Cut {
	c := Cut{Shape: shape, Halo: halo, Sides: sides, Elem: 8, Each: make([]bool, len(shape)), Dims: make([]Dim, len(shape))}
	for i := range shape {
		c.Dims[i] = Dim{Kind: Block}
		if sides[i].Of != "" {
			c.Dims[i].Rest = rest
		}
	}
	return c
}

// within is the cut in a memory with margins.
func within(c Cut, margins ...Margin) Cut {
	c.Margins = margins
	return c
}

var clipped = Margin{Lower: 1, Upper: 1, Clipped: true}

var strips = []Side{{Of: "p"}, {}}

// TestFindCuts finds the rule of programs from one run on 4 ranks, and compares the parts on
// many others.
func TestFindCuts(t *testing.T) {
	columns := cut([]int64{90, 60}, []int64{1, 1}, dims(2), RestLast)
	columns.Order = []int{1, 0}
	fortran := cut([]int64{101, 83}, []int64{1, 1}, []Side{{Of: sideDims, Axes: 2, Index: 1}, {Of: sideDims, Axes: 2}}, RestFirst)
	fortran.Order = []int{1, 0}
	dealt := cut([]int64{1000}, []int64{0}, []Side{{Of: "p"}}, "")
	dealt.Dims[0] = Dim{Kind: BlockCyclic, Block: 64}
	for _, c := range []struct {
		name string
		cut  Cut
		says string
	}{
		{"strips", cut([]int64{102, 100}, []int64{1, 1}, strips, RestSpread), "cut along axis 0; where blocks are uneven, rank i begins at i*n/p, rounded down"},
		{"first", cut([]int64{102, 100}, []int64{1, 0}, strips, RestFirst), "the first ranks have one more"},
		{"last", cut([]int64{102, 100}, []int64{1, 0}, strips, RestLast), "the last ranks have one more"},
		{"rounded", cut([]int64{102, 100}, []int64{1, 0}, strips, RestRounded), "rounded"},
		{"full", cut([]int64{102, 100}, []int64{0, 0}, strips, RestFull), "until nothing is left"},
		{"last rank", cut([]int64{102, 100}, []int64{0, 0}, strips, RestLastRank), "the last rank has the rest"},
		{"first rank", cut([]int64{102, 100}, []int64{0, 0}, strips, RestFirstRank), "the first rank has the rest"},
		{"columns", cut([]int64{50, 102}, []int64{1, 1}, []Side{{}, {Of: "p"}}, RestSpread), "cut along axis 1"},
		{"blocks", cut([]int64{101, 83}, []int64{1, 1}, dims(2), RestFirst), "cut along axes 0 1, on the grid of MPI_Dims_create in 2 axes"},
		{"column major", columns, "ranks run fastest along axis 0"},
		{"column major blocks", fortran, "ranks run fastest along axis 0"},
		{"cubes", cut([]int64{65, 31, 17}, []int64{2, 2, 2}, dims(3), RestFirst), "in 3 axes"},
		{"pencils", cut([]int64{65, 31, 17}, []int64{0, 0, 0}, append(dims(2), Side{}), RestFirst), "in 2 axes"},
		{"dealt", dealt, "blocks of 64 cells are dealt out in turn"},
		{"clipped strips", within(cut([]int64{102, 100}, []int64{0, 0}, strips, RestSpread), clipped, Margin{}), "halos end at the edges of the array"},
		{"clipped cubes", within(cut([]int64{65, 31, 17}, []int64{0, 0, 0}, dims(3), RestLast), clipped, clipped, clipped), "in 3 axes; where"},
		{"clipped cubes with room", within(cut([]int64{68, 44, 39}, []int64{0, 0, 0}, dims(3), RestFirst), clipped, clipped, Margin{Lower: 1, Upper: 1, Clipped: true, Pad: 5}), "in 3 axes; where"},
		{"clipped within a halo", within(cut([]int64{65, 31}, []int64{1, 1}, dims(2), RestFirst), clipped, clipped), "halos end"},
		{"wider below", within(cut([]int64{102, 100}, []int64{1, 1}, strips, RestFirst), Margin{Lower: 2}, Margin{}), "the first ranks have one more"},
		{"padded", within(cut([]int64{65, 31}, []int64{1, 1}, dims(2), RestFirst), Margin{Pad: 3}, Margin{}), "in 2 axes"},
		{"equal room", within(cut([]int64{103, 90}, []int64{1, 0}, strips, RestFirst), Margin{Pad: 2, Equal: true}, Margin{}), "room for as many cells as the largest part"},
		{"equal room, clipped", within(cut([]int64{103, 90}, []int64{0, 0}, strips, RestSpread), Margin{Lower: 1, Upper: 2, Clipped: true, Equal: true}, Margin{}), "largest part"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cuts, err := FindCuts([]Run{runOf(t, c.cut, 4)})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(cuts[0].Words(), c.says) {
				t.Errorf("it says %q, want %q", cuts[0].Words(), c.says)
			}
			for _, np := range []int{1, 2, 3, 7, 8, 16, 60, 64} {
				got, want := on(t, cuts[0].Array(np), np), on(t, c.cut.Array(np), np)
				if rests := restsOf(cuts, c.cut); !sizesAgree(got, want) && len(rests) < 2 {
					t.Errorf("on %d ranks the sizes differ", np)
				}
			}
		})
	}
}

// restsOf lists the rules that the cuts leave open.
func restsOf(cuts []Cut, of Cut) (list []Rest) {
	for _, c := range cuts {
		if r := c.Dims[of.cutAxes()[0]].Rest; !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// sizesAgree reports whether as many ranks hold as many elements.
func sizesAgree(a, b *Layout) bool {
	var x, y []int64
	for rank := range a.np {
		x, y = append(x, a.Elements(rank)), append(y, b.Elements(rank))
	}
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y) && a.All() == b.All() && a.Most() == b.Most() && a.Most() == slices.Max(x)
}

// TestFindCutsOpen keeps all rules that fit, and says which run tells them apart.
func TestFindCutsOpen(t *testing.T) {
	even := cut([]int64{100, 100}, []int64{1, 1}, strips, RestSpread)
	cuts, err := FindCuts([]Run{runOf(t, even, 4)})
	if err != nil || len(restsOf(cuts, even)) != len(Rests()) {
		t.Fatalf("an even cut leaves %v open: %v", restsOf(cuts, even), err)
	}
	np := cuts[0].Tells(cuts[1:], 64)
	if np == 0 {
		t.Fatal("no run is said to tell the rules apart")
	}
	cuts, err = FindCuts([]Run{runOf(t, even, 4), runOf(t, even, 7)})
	if err != nil || fmt.Sprint(restsOf(cuts, even)) != "[spread]" {
		t.Errorf("two runs leave %v open: %v", restsOf(cuts, even), err)
	}
	if cuts, err = FindCuts([]Run{runOf(t, even, 4), runOf(t, even, np)}); err != nil || slices.Contains(restsOf(cuts, even), RestFirst) {
		t.Errorf("a run on %d ranks leaves %v open: %v", np, restsOf(cuts, even), err)
	}
	cube := cut([]int64{64, 64, 64}, []int64{1, 1, 1}, dims(3), RestFirst)
	cuts, err = FindCuts([]Run{runOf(t, cube, 4)})
	grids := func() (list []string) {
		for _, c := range cuts {
			if g := fmt.Sprint(c.Sides); !slices.Contains(list, g) {
				list = append(list, g)
			}
		}
		return list
	}
	if err != nil || len(grids()) < 3 || grids()[0] != fmt.Sprint(cube.Sides) {
		t.Errorf("a cube on 4 ranks: grids %v, %v", grids(), err)
	}
	cuts, err = FindCuts([]Run{runOf(t, cube, 4), runOf(t, cube, 12)})
	if err != nil || len(grids()) != 1 {
		t.Errorf("a cube on 4 and 12 ranks: grids %v, %v", grids(), err)
	}
}

// TestFindCutsGrows finds an array of which each rank has as much on any number of ranks.
func TestFindCutsGrows(t *testing.T) {
	weak := cut([]int64{20, 30}, []int64{1, 1}, dims(2), RestFirst)
	weak.Each = []bool{true, true}
	cuts, err := FindCuts([]Run{runOf(t, weak, 4), runOf(t, weak, 6)})
	if err != nil {
		t.Fatal(err)
	}
	if got := on(t, cuts[0].Array(60), 60); got.Elements(59) != 22*32 {
		t.Errorf("a rank of 60 has %d elements", got.Elements(59))
	}
	if !strings.Contains(cuts[0].Words(), "each rank has 20 cells along axis 0") {
		t.Errorf("it says %q", cuts[0].Words())
	}
}

func TestFindCutsRefuses(t *testing.T) {
	c := cut([]int64{100}, []int64{0}, []Side{{Of: "p"}}, RestFirst)
	if _, err := FindCuts([]Run{runOf(t, c, 1)}); !errors.Is(err, ErrOneRank) {
		t.Errorf("one rank: %v", err)
	}
	odd := runOf(t, c, 4)
	odd.Parts[1].Axes[0].Count, odd.Parts[2].Axes[0].First, odd.Parts[2].Axes[0].Count = 5, 30, 45
	if _, err := FindCuts([]Run{odd}); !errors.Is(err, ErrNoRule) {
		t.Errorf("no rule: %v", err)
	}
	for _, elems := range [][2]int64{{8, 4}, {4, 8}} {
		two := runOf(t, c, 2)
		two.Parts[0].Elem, two.Parts[1].Elem = elems[0], elems[1]
		if _, err := FindCuts([]Run{two}); err == nil {
			t.Errorf("cells of %v bytes are one array", elems)
		}
	}
	// No one rule holds along both axes of this square.
	square := cut([]int64{5, 5}, []int64{0, 0}, dims(2), RestFirst)
	square.Dims[1].Rest = RestLast
	if cuts, err := FindCuts([]Run{runOf(t, square, 4)}); err != nil || len(cuts) == 0 {
		t.Errorf("a square: %v, %v", cuts, err)
	}
}

// TestDims compares grids with those of MPICH 4 and Open MPI 5.
func TestDims(t *testing.T) {
	for _, c := range []struct {
		np, axes       int
		mpich, openmpi string
	}{
		{1, 2, "[1 1]", "[1 1]"}, {7, 2, "[7 1]", "[7 1]"}, {60, 2, "[10 6]", "[10 6]"}, {72, 2, "[9 8]", "[12 6]"}, {240, 2, "[16 15]", "[20 12]"},
		{8, 3, "[2 2 2]", "[2 2 2]"}, {16, 3, "[4 2 2]", "[4 2 2]"}, {60, 3, "[5 4 3]", "[5 4 3]"}, {64, 3, "[4 4 4]", "[4 4 4]"}, {504, 3, "[9 8 7]", "[12 7 6]"},
		{360, 3, "[10 6 6]", "[10 6 6]"},
	} {
		if got := fmt.Sprint(Dims(c.np, c.axes)); got != c.mpich {
			t.Errorf("Dims(%d, %d) is %s, want %s", c.np, c.axes, got, c.mpich)
		}
		if got := fmt.Sprint(OpenMPIDims(c.np, c.axes)); got != c.openmpi {
			t.Errorf("OpenMPIDims(%d, %d) is %s, want %s", c.np, c.axes, got, c.openmpi)
		}
	}
}
