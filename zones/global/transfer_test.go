package global

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func on(t *testing.T, a *Array, np int) *Layout {
	t.Helper()
	l, err := a.On(np)
	if err != nil {
		t.Fatalf("%v on %d: %v", a, np, err)
	}
	return l
}

// TestStridedVectors has the worked examples of Larrosa's thesis, p. 47 f., which count
// in elements.
func TestStridedVectors(t *testing.T) {
	for _, c := range []struct {
		name     string
		dst, src []int64
		d, s     []Range
		want     Transfer
	}{
		{"ranges", []int64{16, 15, 14}, []int64{13, 12, 11},
			[]Range{{10, 11, 1}, {3, 5, 1}, {4, 7, 1}}, []Range{{6, 7, 1}, {6, 8, 1}, {6, 9, 1}},
			Transfer{Count: []int64{4, 3, 2}, SrcStrides: []int64{11, 11 * 12}, DstStrides: []int64{14, 14 * 15},
				SrcOffset: (6*12+6)*11 + 6, DstOffset: (10*15+3)*14 + 4}},
		{"strided ranges", []int64{8, 4, 4}, []int64{4, 4, 4},
			[]Range{{0, 7, 2}, {0, 2, 2}, {1, 3, 1}}, []Range{{0, 3, 1}, {0, 3, 3}, {1, 3, 1}},
			Transfer{Count: []int64{3, 2, 4}, SrcStrides: []int64{12, 16}, DstStrides: []int64{8, 32}, SrcOffset: 1, DstOffset: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst, src := on(t, &Array{Shape: c.dst, Elem: 1}, 1), on(t, &Array{Shape: c.src, Elem: 1}, 1)
			got, err := Assign(dst, c.d, src, c.s, 0)
			if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
				t.Fatalf("got %+v, %v; want one transfer %+v", got, err, c.want)
			}
			blocks := 0
			got[0].Blocks(func(_, _, n int64) {
				blocks++
				if n != c.want.Count[0] {
					t.Errorf("a block of %d", n)
				}
			})
			if want := got[0].Bytes() / c.want.Count[0]; int64(blocks) != want || len(got[0].Count) != 3 {
				t.Errorf("%d blocks, want %d", blocks, want)
			}
		})
	}
}

// TestSubRegions has the example of the thesis for the map m: B on a grid of 2 x 2 whose
// halves meet after 500, A assigned from a section of B.
func TestSubRegions(t *testing.T) {
	da := []Range{{101, 200, 2}, {51, 200, 3}}
	db := []Range{{201, 700, 10}, {301, 600, 6}}
	// Chapel's axes begin with 1 here, so that 0 is an element more.
	b := on(t, &Array{Shape: []int64{1001, 1001}, Elem: 8}, 4)
	want := [][]Range{
		{{101, 159, 2}, {51, 150, 3}}, {{101, 159, 2}, {153, 198, 3}},
		{{161, 199, 2}, {51, 150, 3}}, {{161, 199, 2}, {153, 198, 3}},
	}
	for rank := range 4 {
		has := b.Local(rank)
		for i := range 2 {
			part := db[i].Within(has.Low[i], has.Low[i]+has.Shape[i]-1)
			got := Range{assigned(da[i], db[i], part.Lo), assigned(da[i], db[i], part.Hi), da[i].By}
			if got != want[rank][i] {
				t.Errorf("D%d, axis %d: %v, want %v", rank, i, got, want[rank][i])
			}
			if back := assigned(db[i], da[i], got.Lo); back != part.Lo {
				t.Errorf("D%d, axis %d: the inverse of m takes %d to %d, want %d", rank, i, got.Lo, back, part.Lo)
			}
		}
	}
	a := on(t, &Array{Shape: []int64{201, 201}, Elem: 8}, 1)
	got, err := Assign(a, da, b, db, 0)
	if err != nil || len(got) != 4 {
		t.Fatalf("%d transfers, %v; want one for each of 4 locales", len(got), err)
	}
	for rank, tr := range got {
		d := want[rank]
		if at := (d[0].Lo*201 + d[1].Lo) * 8; tr.Rank != rank || tr.DstOffset != at || tr.Bytes() != 8*d[0].Len()*d[1].Len() {
			t.Errorf("from rank %d to %d, %d bytes; want rank %d to %d, %v", tr.Rank, tr.DstOffset, tr.Bytes(), rank, at, d)
		}
	}
}

// TestMisprint: the thesis prints 150 for the first element of an axis in its second
// example of m. Every element of 201..350 by 2 or 151..350 by 3 that m can give is a
// whole number of strides from the first, and 150 is none from the 151 of the formula.
func TestMisprint(t *testing.T) {
	to, from := Range{151, 350, 3}, Range{51, 200, 3}
	if got := assigned(to, from, 51); got != 151 {
		t.Errorf("m gives %d, want 151", got)
	}
	if got := to.Within(150, 350); got.Lo != 151 {
		t.Errorf("the elements from 150 begin with %d, want 151", got.Lo)
	}
}

// memory numbers every element by its place in the array, which for the halo at an edge
// lies beyond it.
func memory(l *Layout, rank int) []byte {
	mem := make([]byte, l.Elements(rank)*2)
	for i := range l.Elements(rank) {
		v := number(l.Global(rank, i))
		mem[2*i], mem[2*i+1] = byte(v), byte(v>>8)
	}
	return mem
}

func number(index []int64) int64 {
	v := int64(7)
	for _, i := range index {
		v = v*31 + i + 3
	}
	return v
}

func randomArray(r *rand.Rand, shape []int64) *Array {
	a := &Array{Shape: shape, Elem: 2, Order: r.Perm(len(shape)), Empty: true}
	for i := range shape {
		switch r.IntN(3) {
		case 0:
			a.Dims = append(a.Dims, Dim{Kind: Block, Rest: Rests()[r.IntN(len(Rests()))]})
			a.Halo = append(a.Halo, min(shape[i], int64(r.IntN(3))))
		case 1:
			a.Dims = append(a.Dims, Dim{Kind: Cyclic})
			a.Halo = append(a.Halo, 0)
		case 2:
			a.Dims = append(a.Dims, Dim{Kind: BlockCyclic, Block: 1 + r.Int64N(4)})
			a.Halo = append(a.Halo, 0)
		}
	}
	return a
}

// TestTransfersAreElementwise compares the memory that the transfers make with one that
// is filled element by element, for random arrays.
func TestTransfersAreElementwise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tried := 0
	for tried < 500 {
		shape := make([]int64, 1+r.IntN(3))
		for i := range shape {
			shape[i] = 1 + r.Int64N(24)
		}
		was, err1 := randomArray(r, shape).On(1 + r.IntN(12))
		now, err2 := randomArray(r, shape).On(1 + r.IntN(12))
		if err := errors.Join(err1, err2); err != nil {
			if !errors.Is(err, ErrTooManyRanks) {
				t.Fatal(err)
			}
			continue
		}
		tried++
		checkTransfers(t, was, now)
	}
}

// transfers returns what a rank of the new layout gets from the ranks of the old.
func transfers(was, now *Layout, rank int) (list []Transfer) {
	part := now.Part(rank)
	for _, slab := range part.Slabs(math.MaxInt64) {
		for src := range was.np {
			list = append(list, part.From(src, was.Part(src), slab)...)
		}
	}
	return list
}

func checkTransfers(t *testing.T, was, now *Layout) {
	t.Helper()
	name := fmt.Sprintf("%v halo %v on %v to %v halo %v on %v", &was.array, was.array.Halo, was.grid, &now.array, now.array.Halo, now.grid)
	for rank := range now.np {
		list := transfers(was, now, rank)
		mem, times := make([]byte, now.Elements(rank)*2), make([]int, now.Elements(rank)*2)
		for _, tr := range list {
			src := memory(was, tr.Rank)
			tr.Copy(mem, src)
			off, n := tr.Source()
			tr.Blocks(func(d, s, k int64) {
				if s < off || s+k > off+n {
					t.Fatalf("%s: a block at %d is not in %d+%d", name, s, off, n)
				}
				for i := range k {
					times[d+i]++
				}
			})
		}
		want := memory(now, rank)
		for i := range mem {
			index := now.Global(rank, int64(i)/2)
			if unknown(was, index) {
				if times[i] != 0 {
					t.Fatalf("%s: rank %d gets %v, which nobody has", name, rank, index)
				}
				continue
			}
			if times[i] != 1 || mem[i] != want[i] {
				t.Fatalf("%s: rank %d: element %v came %d times, as %d, want %d", name, rank, index, times[i], mem[i], want[i])
			}
		}
	}
}

// unknown reports whether the element is in a halo beyond that of the old layout.
func unknown(was *Layout, index []int64) bool {
	for i, x := range was.axes {
		if index[i] < -x.halo || index[i] >= x.n+x.halo {
			return true
		}
	}
	return false
}

// TestAssign compares sections with an assignment element by element.
func TestAssign(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 800 {
		axes := 1 + r.IntN(2)
		var d, s []Range
		var big, small []int64
		for range axes {
			n := r.Int64N(9)
			x := Range{r.Int64N(5), 0, 1 + r.Int64N(4)}
			y := Range{r.Int64N(5), 0, 1 + r.Int64N(4)}
			x.Hi, y.Hi = x.At(n-1), y.At(n-1)
			d, s = append(d, x), append(s, y)
			big, small = append(big, max(12, x.Hi+1+r.Int64N(3))), append(small, max(12, y.Hi+1+r.Int64N(3)))
		}
		dst, src := on(t, randomOn(r, big), 6), on(t, randomOn(r, small), 4)
		checkAssign(t, dst, d, src, s)
	}
}

// randomOn is randomArray with short blocks, so that 6 ranks have elements.
func randomOn(r *rand.Rand, shape []int64) *Array {
	a := randomArray(r, shape)
	for i := range a.Dims {
		a.Dims[i].Block = min(a.Dims[i].Block, 2)
	}
	return a
}

func checkAssign(t *testing.T, dst *Layout, d []Range, src *Layout, s []Range) {
	t.Helper()
	want := map[int64]int64{} // element of dst: element of src
	walk(d, func(k, index []int64) {
		from := make([]int64, len(k))
		for i := range k {
			from[i] = assigned(s[i], d[i], index[i])
		}
		want[number(index)] = number(from)
	})
	got := 0
	for rank := range dst.np {
		list, err := Assign(dst, d, src, s, rank)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range list {
			tr.Blocks(func(to, from, n int64) {
				for i := int64(0); i < n; i += 2 {
					got++
					a, b := dst.Global(rank, (to+i)/2), src.Global(tr.Rank, (from+i)/2)
					if v, ok := want[number(a)]; !ok || v != number(b) {
						t.Fatalf("%v = %v: %v gets %v", d, s, a, b)
					}
				}
			})
		}
	}
	if got != len(want) {
		t.Fatalf("%v = %v on %v and %v: %d elements, want %d", d, s, &dst.array, &src.array, got, len(want))
	}
}

func walk(section []Range, f func(k, index []int64)) {
	k, index := make([]int64, len(section)), make([]int64, len(section))
	var axis func(int)
	axis = func(i int) {
		if i == len(section) {
			f(k, index)
			return
		}
		for k[i] = 0; k[i] < section[i].Len(); k[i]++ {
			index[i] = section[i].At(k[i])
			axis(i + 1)
		}
	}
	axis(0)
}

// TestMessages holds the transfers to O(ranks), and element by element to O(n / ranks),
// as between block and cyclic in Larrosa's Fig. 2.13 (there the time of aggregated
// messages grows slightly, and the speed-up falls from 264 at 2 locales to 16 at 32).
func TestMessages(t *testing.T) {
	const n = 1 << 28
	block, cyclic := &Array{Shape: []int64{n}, Elem: 8}, &Array{Shape: []int64{n}, Elem: 8, Dims: []Dim{{Kind: Cyclic}}}
	before := float64(n)
	for np := 2; np <= 32; np *= 2 {
		for _, dir := range [][2]*Array{{block, cyclic}, {cyclic, block}} {
			was, now := on(t, dir[0], np), on(t, dir[1], np)
			for rank := range np {
				list := transfers(was, now, rank)
				if len(list) != np {
					t.Fatalf("%d ranks: rank %d gets %d transfers; want one of each rank", np, rank, len(list))
				}
				for _, tr := range list {
					if len(tr.Count) != 2 {
						t.Fatalf("%d ranks: %+v, want one stride", np, tr)
					}
				}
			}
		}
		elements := float64(n) / float64(np) * float64(np-1) / float64(np)
		if gain := elements / float64(np-1); gain >= before {
			t.Errorf("%d ranks: %g elements per message, not less than with half the ranks", np, gain)
		} else {
			before = gain
		}
	}
	// The number does not depend on the size of the array.
	for _, dims := range [][2]Dim{{{Kind: Block}, {Kind: BlockCyclic, Block: 16}}, {{Kind: BlockCyclic, Block: 16}, {Kind: BlockCyclic, Block: 24}}, {{Kind: Cyclic}, {Kind: Block}}} {
		var counts []int
		for _, n := range []int64{1 << 14, 1 << 20, 1 << 28} {
			was := on(t, &Array{Shape: []int64{n, n}, Elem: 8, Dims: []Dim{dims[0], dims[0]}}, 16)
			now := on(t, &Array{Shape: []int64{n, n}, Elem: 8, Dims: []Dim{dims[1], dims[1]}}, 9)
			most := 0
			for rank := range 9 {
				list := transfers(was, now, rank)
				most = max(most, len(list))
			}
			counts = append(counts, most)
		}
		if slices.Max(counts) > 3*slices.Min(counts) {
			t.Errorf("%v to %v: %v transfers as the array grows", dims[0], dims[1], counts)
		}
	}
}

// assigned is the map m of Larrosa's thesis: the element of to that element i of from is
// assigned to. assigned(from, to, …) is its inverse.
func assigned(to, from Range, i int64) int64 { return to.At(from.Pos(i)) }
