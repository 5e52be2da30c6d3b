package global

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// cut cuts an axis for so many places in a random way.
func cutAxis(rng *rand.Rand, cells, halo int64, places int) []Stretch {
	list := make([]Stretch, places)
	block := rng.Int64N(4)
	if halo > 0 {
		block = 0
	}
	if block > 0 {
		for c := range list {
			s := Stretch{Cells: cells, First: min(cells, int64(c)*block), Block: block, Stride: block * int64(places)}
			s.Count = s.dealt()
			list[c] = s
		}
		return list
	}
	at := int64(0)
	for c := range list {
		n := rng.Int64N(cells - at + 1)
		if c == places-1 {
			n = cells - at
		}
		list[c] = Stretch{Cells: cells, First: at, Count: n, Halo: halo}
		at += n
	}
	return list
}

// deal deals an array to a random grid.
func deal(rng *rand.Rand, cells, halo []int64, elem int64) (parts []Held) {
	parts = []Held{{Part: &Part{Elem: elem}}}
	for i := range cells {
		var next []Held
		for _, s := range cutAxis(rng, cells[i], halo[i], 1+rng.IntN(3)) {
			for _, p := range parts {
				next = append(next, Held{Part: &Part{Elem: elem, Axes: append(p.Part.Axes[:i:i], s)}})
			}
		}
		parts = next
	}
	rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	for i := range parts {
		parts[i].Rank = i
	}
	return parts
}

// widen gives parts halos that are larger on one side, and padding.
func widen(rng *rand.Rand, halo []int64, lists ...[]Held) {
	for i := range halo {
		lower, upper := rng.Int64N(2)*min(1, halo[i]), rng.Int64N(2)*min(1, halo[i])
		for _, h := range slices.Concat(lists...) {
			s := &h.Part.Axes[i]
			*s = Stretch{Cells: s.Cells, First: s.First, Count: s.Count, Block: s.Block, Stride: s.Stride,
				Halo: s.Halo, Lower: lower, Upper: upper, Pad: rng.Int64N(3) * rng.Int64N(2)}
		}
	}
}

// value is what a cell holds, and beyond the edge too.
func value(cell []int64) uint64 {
	v := uint64(7)
	for _, c := range cell {
		v = v*1000 + uint64(c+100)
	}
	return v
}

// fill returns the memory of a part as a program would have it. Cells of the halo that
// other ranks own are stale.
func (p *Part) fill(stale bool) []byte {
	mem := make([]byte, p.Cells()*p.Elem)
	sides := p.memory()
	for k := range p.Cells() {
		cell, rest, own, padding := make([]int64, len(sides)), k, true, false
		for i := len(sides) - 1; i >= 0; i-- {
			s := p.Axes[i]
			at := rest%sides[i] - s.low()
			rest /= sides[i]
			padding = padding || at >= s.Count+s.high()
			cell[i] = s.at(at)
			inside := s.Count > 0 && (at >= 0 && at < s.Count || s.First == 0 && at < 0 || s.First+s.Count == s.Cells && at >= s.Count)
			own = own && inside
		}
		v := value(cell)
		switch {
		case padding && stale:
			v = 2
		case padding:
			v = 0
		case stale && !own:
			v = 1
		}
		binary.LittleEndian.PutUint64(mem[k*p.Elem:], v)
	}
	return mem
}

// TestParts moves arrays from some ranks to others, slab by slab: each gets all its cells,
// those of its halo and those beyond the edge of the array included.
func TestParts(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 17))
		axes := 1 + rng.IntN(3)
		cells, halo := make([]int64, axes), make([]int64, axes)
		for i := range cells {
			cells[i] = 1 + rng.Int64N(9)
			halo[i] = min(cells[i], rng.Int64N(3))
		}
		was, now := deal(rng, cells, halo, 8), deal(rng, cells, halo, 8)
		widen(rng, halo, was, now)
		for _, parts := range [][]Held{was, now} {
			if err := CheckTiles(parts); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for _, to := range now {
			if err := to.Part.Check(); err != nil {
				t.Fatalf("seed %d: %v: %+v", seed, err, to.Part)
			}
			moved(t, fmt.Sprintf("seed %d, rank %d", seed, to.Rank), to.Part, was, 1+rng.Int64N(200))
		}
	}
}

func moved(t *testing.T, what string, to *Part, was []Held, most int64) {
	t.Helper()
	got := make([]byte, to.Cells()*8)
	at, copied, holds := int64(0), int64(0), int64(0)
	for _, slab := range to.Slabs(most) {
		holds += to.Holds(slab)
		if slab.Offset != at || slab.Bytes > max(8, most) {
			t.Fatalf("%s: slab %+v at %d, of at most %d bytes", what, slab, at, most)
		}
		at += slab.Bytes
		for _, from := range was {
			for _, tr := range to.From(from.Rank, from.Part, slab) {
				tr.Copy(got[slab.Offset:slab.Offset+slab.Bytes], from.Part.fill(true))
				copied += tr.Bytes()
			}
		}
	}
	if at != int64(len(got)) || copied != holds || !to.Padded() && copied != at || !bytes.Equal(got, to.fill(false)) {
		t.Fatalf("%s: %d bytes in slabs, %d copied, of %d; or they differ\n%+v", what, at, copied, len(got), to)
	}
}

// TestPartsAsLayouts: parts that a program names, and a rule for all ranks, mean the same.
func TestPartsAsLayouts(t *testing.T) {
	a := &Array{Shape: []int64{11, 7}, Elem: 8, Halo: []int64{1, 0}, Dims: []Dim{{Kind: Block}, {Kind: BlockCyclic, Block: 2}}}
	from, err := a.On(4)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 4 {
		local, place := from.Local(rank), from.Place(rank)
		p := Part{Elem: 8, Axes: []Stretch{
			{Cells: 11, First: local.Low[0], Count: local.Shape[0], Halo: 1},
			{Cells: 7, First: local.Low[1], Count: local.Shape[1], Block: 2, Stride: 2 * int64(from.Grid()[1])},
		}}
		if err := p.Check(); err != nil {
			t.Fatalf("rank %d at %v: %v", rank, place, err)
		}
		for k := range from.Elements(rank) {
			cell := from.Global(rank, k)
			mine := []int64{p.Axes[0].at(k/p.Axes[1].Count - 1), p.Axes[1].at(k % p.Axes[1].Count)}
			if fmt.Sprint(cell) != fmt.Sprint(mine) {
				t.Errorf("rank %d: element %d is %v of the layout, %v of the part", rank, k, cell, mine)
			}
		}
	}
}

// TestTiles: an array with a cell twice, or not at all, is refused, and so are parts of
// different arrays.
func TestTiles(t *testing.T) {
	row := func(first, count int64) *Part {
		return &Part{Elem: 8, Axes: []Stretch{{Cells: 10, First: first, Count: count, Halo: 1}, {Cells: 4, Count: 4}}}
	}
	wide := row(5, 5)
	wide.Axes[0].Halo = 2
	cyclic := func(place, places int64) *Part {
		s := Stretch{Cells: 10, First: place * 2, Block: 2, Stride: 2 * places}
		s.Count = s.dealt()
		return &Part{Elem: 8, Axes: []Stretch{s}}
	}
	for _, c := range []struct {
		parts []*Part
		want  string
	}{
		{[]*Part{row(0, 5), row(5, 5)}, ""},
		{[]*Part{row(5, 5), row(0, 0), row(0, 5), row(10, 0)}, ""},
		{[]*Part{row(0, 5), row(6, 4)}, "4 of 40 cells are held by no rank"},
		{[]*Part{row(0, 6), row(5, 5)}, "ranks 0 and 1 both hold cell [5 0]"},
		{[]*Part{row(4, 6), row(0, 5)}, "ranks 0 and 1 both hold cell [4 0]"},
		{[]*Part{row(0, 5), wide}, "ranks 0 and 1 describe different arrays: halos of 1 and 2 cells along axis 0"},
		{[]*Part{cyclic(0, 2), cyclic(1, 2)}, ""},
		{[]*Part{cyclic(0, 2), cyclic(1, 3), cyclic(1, 2)}, "ranks 0 and 1 both hold cell [8]"},
	} {
		var held []Held
		for i, p := range c.parts {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			held = append(held, Held{Rank: i, Part: p})
		}
		got := ""
		if err := CheckTiles(held); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestPartCheck(t *testing.T) {
	for _, c := range []struct {
		s    Stretch
		want string
	}{
		{Stretch{Cells: 10, First: 2, Count: 8, Halo: 1}, ""},
		{Stretch{Cells: 10, First: 3, Count: 8}, "are no part of 10"},
		{Stretch{Cells: 10, Count: -1}, "are no part"},
		{Stretch{Cells: 10, Count: 10, Stride: 3}, "are no part"},
		{Stretch{Cells: 10, First: 2, Count: 4, Block: 2, Stride: 4, Halo: 1}, "no halo"},
		{Stretch{Cells: 10, First: 2, Count: 4, Block: 2, Stride: 4}, ""},
		{Stretch{Cells: 10, First: 2, Count: 5, Block: 2, Stride: 4}, "they would be 4 of 10"},
		{Stretch{Cells: 10, First: 3, Count: 4, Block: 2, Stride: 4}, "does not end before 4"},
		{Stretch{Cells: 10, First: 10, Count: 0, Block: 2, Stride: 12}, ""},
	} {
		err := (&Part{Elem: 1, Axes: []Stretch{c.s}}).Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
	}
}

// TestIndexCheck: a list of cells that fills no memory by itself may with its elements.
func TestIndexCheck(t *testing.T) {
	for _, c := range []struct{ elem, held, own int64 }{{1, 20, 10}, {maxPart / 1024, 1024, 10}, {maxPart / 1024, 1025, 10}, {maxPart, maxPart, 10}, {0, maxPart + 1, 0}} {
		p := &Part{Elem: c.elem, Axes: []Stretch{{Cells: 10}}, Index: &Index{Own: c.own, Held: c.held, High: 9}}
		err, fits := p.Check(), c.held <= 1024
		if fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "a list of ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestMeets compares the first cell that two stretches share with what a walk finds.
func TestMeets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() Stretch {
		for {
			s := Stretch{Cells: 24, First: rng.Int64N(24)}
			s.Count = 1 + rng.Int64N(24-s.First)
			if rng.IntN(3) > 0 {
				s.Block, s.Stride = 1+rng.Int64N(4), 1+rng.Int64N(9)
				s.Count = s.dealt()
			}
			if s.check() == nil {
				return s
			}
		}
	}
	shared := 0
	for range 3000 {
		a, b, want := draw(), draw(), int64(-1)
		in := make(map[int64]bool)
		for k := range a.Count {
			in[a.at(k)] = true
		}
		for k := b.Count - 1; k >= 0; k-- {
			if in[b.at(k)] {
				want = b.at(k)
			}
		}
		if got := a.meets(b); got != want {
			t.Fatalf("%+v and %+v: %d, want %d", a, b, got, want)
		}
		if want >= 0 {
			shared++
		}
	}
	if shared == 0 || shared == 3000 {
		t.Errorf("%d of 3000 shared a cell", shared)
	}
}
