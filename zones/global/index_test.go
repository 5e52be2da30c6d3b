package global

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// listed deals cells to ranks at random, each with copies of some cells of others.
func listed(rng *rand.Rand, cells int64, ranks int) (lists [][]int64, parts []Held) {
	lists, owner := make([][]int64, ranks), make([]int, cells)
	for _, cell := range rng.Perm(int(cells)) {
		owner[cell] = rng.IntN(ranks)
		lists[owner[cell]] = append(lists[owner[cell]], int64(cell))
	}
	for rank := range lists {
		own := int64(len(lists[rank]))
		for range rng.IntN(4) {
			if cell := rng.Int64N(cells); owner[cell] != rank {
				lists[rank] = append(lists[rank], cell)
			}
		}
		parts = append(parts, Held{Rank: rank, Part: &Part{Elem: 8, Axes: []Stretch{{Cells: cells}}, Index: IndexOf(lists[rank], own)}})
	}
	return lists, parts
}

// TestLists moves cells from lists to other lists: each place of a list gets its cell once.
func TestLists(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 40))
		cells := 1 + rng.Int64N(60)
		was, held := listed(rng, cells, 1+rng.IntN(5))
		now, parts := listed(rng, cells, 1+rng.IntN(5))
		if err := CheckTiles(held); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for rank, list := range now {
			if err := parts[rank].Part.Check(); err != nil {
				t.Fatal(err)
			}
			want, got := Want(list), make([]int64, len(list))
			for i := range got {
				got[i] = -1
			}
			for i, from := range was {
				x := held[i].Part.Index
				if x.Own == 0 || !want.Between(x.Low, x.High) {
					continue
				}
				for _, m := range want.From(from[:x.Own]) {
					copy(got[m.To:m.To+m.N], from[m.From:m.From+m.N])
				}
			}
			if cell, n := want.Missing(); n != 0 {
				t.Fatalf("seed %d: cell %d and %d others are missing", seed, cell, n-1)
			}
			for i := range list {
				if got[i] != list[i] {
					t.Fatalf("seed %d, rank %d: got %v, want %v", seed, rank, got, list)
				}
			}
		}
	}
}

// TestListsWrong: a cell that is twice in lists, or in none, is noticed, and lists in another order
// are others.
func TestListsWrong(t *testing.T) {
	of := func(lists ...[]int64) (held []Held) {
		for rank, list := range lists {
			held = append(held, Held{Rank: rank, Part: &Part{Axes: []Stretch{{Cells: 4}}, Index: IndexOf(list, int64(len(list)))}})
		}
		return held
	}
	for _, c := range []struct {
		lists [][]int64
		want  string
	}{
		{[][]int64{{3, 1}, {0, 2}}, ""},
		{[][]int64{{3, 1}, {0}}, "3 cells of 4, not each once"},
		{[][]int64{{3, 1}, {0, 1}}, "some of them twice"},
		{[][]int64{{0, 3}, {0, 3}}, "some of them twice"},
	} {
		err := CheckTiles(of(c.lists...))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.lists, err, c.want)
		}
	}
	a, b := of([]int64{1, 2})[0], of([]int64{2, 1})[0]
	if a.Part.Equal(b.Part) || a.Part.Index.Set != b.Part.Index.Set {
		t.Error("the order of a list is of no account, or the set is")
	}
	if _, n := Want([]int64{5, 6}).Missing(); n != 2 {
		t.Error("nothing is missing")
	}
	plain := &Part{Axes: []Stretch{{Cells: 4}}}
	if err := CheckTiles([]Held{a, {Rank: 1, Part: plain}}); err == nil || !strings.Contains(err.Error(), "list of its cells") {
		t.Errorf("a list and none: %v", err)
	}
	block := func(first int64) *Part {
		return &Part{Elem: 8, Array: "u", Axes: []Stretch{{Cells: 4, First: first, Count: 2}}}
	}
	if err := CheckTiles([]Held{{Part: block(0)}, {Part: block(1)}}); err == nil || err.Error() != "rank 0 holds cell [1] in two blocks" {
		t.Errorf("blocks that overlap: %v", err)
	}
}
