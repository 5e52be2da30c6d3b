package global

import (
	"math"
	"math/rand/v2"
	"testing"
)

// sizedCut draws an array in blocks, as programs have it.
func sizedCut(r *rand.Rand) Cut {
	axes := 1 + r.IntN(3)
	c := Cut{Elem: 8 * []int64{1, 1, 2, 3, 4, 5, 19}[r.IntN(7)], Each: make([]bool, axes)}
	side, clipped, rest, halo := 24*math.Pow(16, r.Float64()), r.IntN(3) == 0, Rests()[r.IntN(3)], int64(1+r.IntN(3))
	for i := range axes {
		n := int64(side)
		if r.IntN(2) == 0 {
			n = int64(side * math.Exp(0.4*r.NormFloat64()))
		}
		c.Shape, c.Dims = append(c.Shape, max(20, n)), append(c.Dims, Dim{Kind: Block, Rest: rest})
		c.Sides = append(c.Sides, Side{Of: sideDims, Axes: axes, Index: i})
		if clipped {
			c.Halo, c.Margins = append(c.Halo, 0), append(c.Margins, Margin{Lower: halo, Upper: halo, Clipped: true})
		} else {
			c.Halo = append(c.Halo, halo)
		}
	}
	if axes == 1 {
		c.Sides[0] = Side{Of: "p"}
		c.Elem *= int64(20 + r.IntN(1000))
	}
	return c
}

func sizedRun(t *testing.T, c *Cut, np int) Sized {
	t.Helper()
	l, err := c.Array(np).On(np)
	if err != nil {
		t.Fatal(err)
	}
	run := Sized{}
	for rank := range np {
		run.Bytes = append(run.Bytes, l.Elements(rank)*c.Elem)
	}
	return run
}

// TestSizedCuts draws arrays that nobody declared, and finds from the sizes on three numbers of
// ranks what all ranks hold on others. Some sizes fit several cuts; the likeliest is right in
// nineteen of twenty cases.
func TestSizedCuts(t *testing.T) {
	right, n := 0, 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 51))
		truth := sizedCut(r)
		var runs []Sized
		for _, np := range [][]int{{2, 4, 8}, {4, 8, 16}, {2, 4, 16}, {3, 6, 12}, {1, 2, 8}, {2, 8, 9}}[r.IntN(6)] {
			runs = append(runs, sizedRun(t, &truth, np))
		}
		found := SizedCuts(runs, 8)
		if len(found) == 0 {
			t.Fatalf("seed %d: %+v is not found", seed, truth)
		}
		for _, np := range []int{7, 16, 60, 64} {
			if n++; all(t, &found[0], np) == all(t, &truth, np) {
				right++
			}
		}
	}
	if t.Logf("%d of %d right", right, n); right*20 < n*19 {
		t.Errorf("%d of %d right", right, n)
	}
}

// all is what all ranks hold.
func all(t *testing.T, c *Cut, np int) (bytes int64) {
	t.Helper()
	for _, n := range sizedRun(t, c, np).Bytes {
		bytes += n
	}
	return bytes
}

// TestTogether: the sizes of one array fit sides of 66 and of 214 cells, those of another 66 and 10.
func TestTogether(t *testing.T) {
	cut := func(values int64, halo int64, cells ...int64) Cut {
		c := Cut{Elem: 8 * values, Each: make([]bool, 3), Shape: cells}
		for i := range 3 {
			c.Halo, c.Dims = append(c.Halo, halo), append(c.Dims, Dim{Kind: Block})
			c.Sides = append(c.Sides, Side{Of: sideDims, Axes: 3, Index: i})
		}
		return c
	}
	lists := [][]Cut{{cut(1, 2, 214, 42, 37), cut(3, 2, 66, 42, 37)}, nil, {cut(5, 1, 10, 42, 37), cut(1, 1, 67, 43, 38)}}
	chosen := Together(lists)
	if chosen[0] != &lists[0][1] || chosen[1] != nil || chosen[2] != &lists[2][1] {
		t.Errorf("chosen %+v", chosen)
	}
}

// TestNoSizedCut: sizes on two numbers of ranks, or that no cut gives, are left alone.
func TestNoSizedCut(t *testing.T) {
	truth := sizedCut(rand.New(rand.NewPCG(1, 51)))
	two := []Sized{sizedRun(t, &truth, 2), sizedRun(t, &truth, 4), sizedRun(t, &truth, 4)}
	if found := SizedCuts(two, 8); found != nil {
		t.Errorf("two numbers of ranks: %+v", found)
	}
	r := rand.New(rand.NewPCG(2, 51))
	for range 50 {
		var lists []Sized
		for _, np := range []int{2, 4, 8} {
			run := Sized{}
			for range np {
				run.Bytes = append(run.Bytes, 8*(8_000_000/int64(np)+r.Int64N(1000)))
			}
			lists = append(lists, run)
		}
		if found := SizedCuts(lists, 8); found != nil {
			t.Errorf("%v: %+v", lists, found)
		}
	}
}
