package global

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestGrid(t *testing.T) {
	for _, c := range []struct {
		np, axes int
		want     []int
	}{
		{1, 1, []int{1}}, {7, 1, []int{7}},
		// Chapel: 1 x nl for primes, else nl1 x nl2 with nl1 >= nl2.
		{1, 2, []int{1, 1}}, {2, 2, []int{1, 2}}, {7, 2, []int{1, 7}}, {4, 2, []int{2, 2}}, {6, 2, []int{3, 2}},
		{12, 2, []int{4, 3}}, {512, 2, []int{32, 16}},
		{8, 3, []int{2, 2, 2}}, {12, 3, []int{3, 2, 2}}, {25, 3, []int{5, 5, 1}}, {7, 3, []int{7, 1, 1}},
		{16, 4, []int{2, 2, 2, 2}}, {1 << 20, 3, []int{128, 128, 64}},
	} {
		if got := Grid(c.np, c.axes); !slices.Equal(got, c.want) {
			t.Errorf("Grid(%d, %d) = %v, want %v", c.np, c.axes, got, c.want)
		}
	}
}

// TestOwners checks each element's owner and place against the definition.
func TestOwners(t *testing.T) {
	for _, c := range []struct {
		dim  Dim
		want string // owners of 10 elements on 4 ranks
	}{
		{Dim{Kind: Block}, "0001112233"},
		{Dim{Kind: Block, Block: 3}, "0001112223"},
		{Dim{Kind: Cyclic}, "0123012301"},
		{Dim{Kind: BlockCyclic, Block: 2}, "0011223300"},
		{Dim{Kind: Block, Rest: RestLast}, "0011222333"},
		{Dim{Kind: Block, Rest: RestSpread}, "0011122333"},
		{Dim{Kind: Block, Rest: RestRounded}, "0001122233"},
		{Dim{Kind: Block, Rest: RestFull}, "0001112223"},
		{Dim{Kind: Block, Rest: RestLastRank}, "0011223333"},
		{Dim{Kind: Block, Rest: RestFirstRank}, "0000112233"},
	} {
		l := on(t, &Array{Shape: []int64{10}, Elem: 1, Dims: []Dim{c.dim}}, 4)
		var got strings.Builder
		next := make([]int64, 4)
		for i := range int64(10) {
			r := l.Owner([]int64{i})
			got.WriteByte(byte('0' + r))
			if at := l.Offset([]int64{i}); at != next[r] {
				t.Errorf("%v: element %d is at %d of rank %d, want %d", c.dim, i, at, r, next[r])
			}
			if back := l.Global(r, next[r])[0]; back != i {
				t.Errorf("%v: position %d of rank %d is element %d, want %d", c.dim, next[r], r, back, i)
			}
			next[r]++
		}
		if got.String() != c.want {
			t.Errorf("%v: owners %s, want %s", c.dim, got.String(), c.want)
		}
		for r := range 4 {
			if l.Elements(r) != next[r] || int64(len(l.Indices(r, 0))) != next[r] {
				t.Errorf("%v: rank %d has %d elements, want %d", c.dim, r, l.Elements(r), next[r])
			}
		}
	}
}

func TestHalo(t *testing.T) {
	l := on(t, &Array{Shape: []int64{6, 5}, Elem: 8, Halo: []int64{1, 0}}, 4)
	has := l.Local(3)
	if !slices.Equal(has.Shape, []int64{3, 2}) || !slices.Equal(has.Memory, []int64{5, 2}) || !slices.Equal(has.Low, []int64{3, 3}) {
		t.Errorf("rank 3 has %+v", has)
	}
	if first := l.Global(3, 0); !slices.Equal(first, []int64{2, 3}) {
		t.Errorf("its memory begins with %v", first)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		a    Array
		np   int
		want string
	}{
		{Array{Elem: 8}, 1, "0 axes"},
		{Array{Shape: make([]int64, 9), Elem: 8}, 1, "9 axes"},
		{Array{Shape: []int64{4}}, 1, "elements of 0 bytes"},
		{Array{Shape: []int64{0}, Elem: 8}, 1, "axis 0: 0 elements"},
		{Array{Shape: []int64{4, -1}, Elem: 8}, 1, "axis 1: -1 elements"},
		{Array{Shape: []int64{1 << 40, 1 << 40}, Elem: 8}, 1, "too large"},
		{Array{Shape: []int64{4}, Elem: 8, Dims: []Dim{{Kind: "ring"}}}, 1, `"ring" is unknown`},
		{Array{Shape: []int64{4}, Elem: 8, Dims: []Dim{{Kind: BlockCyclic}}}, 1, "needs a length of blocks"},
		{Array{Shape: []int64{4}, Elem: 8, Dims: []Dim{{Kind: Block, Block: -1}}}, 1, "needs a length of blocks"},
		{Array{Shape: []int64{4}, Elem: 8, Dims: []Dim{{Kind: Cyclic, Block: 2}}}, 1, "say block-cyclic"},
		{Array{Shape: []int64{4}, Elem: 8, Dims: []Dim{{Kind: Cyclic}}, Halo: []int64{1}}, 1, "has no halo"},
		{Array{Shape: []int64{4}, Elem: 8, Halo: []int64{5}}, 1, "a halo of 5"},
		{Array{Shape: []int64{4}, Elem: 8, Halo: []int64{1, 1}}, 1, "a halo for 2 axes"},
		{Array{Shape: []int64{4}, Elem: 8, Grid: []int{2, 2}}, 4, "a grid of 2 axes"},
		{Array{Shape: []int64{4}, Elem: 8, Grid: []int{0}}, 4, "a grid of 0 ranks"},
		{Array{Shape: []int64{4, 4}, Elem: 8, Dims: []Dim{{Kind: Block}}}, 4, "distributions for 1 axes"},
		{Array{Shape: []int64{4}, Elem: 8, Grid: []int{3}}, 4, "does not have 4 ranks"},
		{Array{Shape: []int64{4, 4}, Elem: 8, Grid: []int{1 << 40, 1 << 40}}, 4, "does not have 4 ranks"},
		{Array{Shape: []int64{9}, Elem: 8, Dims: []Dim{{Kind: Block, Block: 2}}}, 4, "4 blocks of 2 do not hold 9"},
		{Array{Shape: []int64{4}, Elem: 8}, 0, "0 ranks"},
	} {
		if _, err := c.a.On(c.np); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v on %d: %v, want %q", c.a, c.np, err, c.want)
		}
	}
	for _, a := range []*Array{
		{Shape: []int64{4}, Elem: 8}, {Shape: []int64{4}, Elem: 8, Dims: []Dim{{Kind: Cyclic}}}, {Shape: []int64{100, 2}, Elem: 8, Grid: []int{1, 5}},
		{Shape: []int64{9}, Elem: 8, Dims: []Dim{{Kind: BlockCyclic, Block: 4}}},
	} {
		if _, err := a.On(5); !errors.Is(err, ErrTooManyRanks) {
			t.Errorf("%v on 5: %v", a, err)
		}
	}
	was, now := on(t, &Array{Shape: []int64{4}, Elem: 8}, 2), on(t, &Array{Shape: []int64{5}, Elem: 8}, 2)
	if was.Part(0).Fits(now.Part(0)) == nil {
		t.Error("an array of 4 elements became one of 5")
	}
	if _, err := Assign(was, []Range{{0, 4, 1}}, now, []Range{{0, 4, 1}}, 0); err == nil {
		t.Error("a section is longer than its array")
	}
}

func TestEncoding(t *testing.T) {
	a := &Array{Shape: []int64{30, 40}, Elem: 8, Dims: []Dim{{Kind: Block}, {Kind: BlockCyclic, Block: 4}}, Grid: []int{2, 3}, Halo: []int64{1, 0}}
	b, err := json.Marshal(a)
	const want = `{"shape":[30,40],"elem_bytes":8,"axes":[{"distribution":"block"},{"distribution":"block-cyclic","block":4}],"grid":[2,3],"halo":[1,0]}`
	if err != nil || string(b) != want {
		t.Fatalf("%s, %v; want %s", b, err, want)
	}
	var back Array
	if err := json.Unmarshal(b, &back); err != nil || !a.Equal(&back) {
		t.Errorf("%v came back as %v, %v", a, &back, err)
	}
	if got := a.String(); got != "30x40 of 8 bytes, block x block-cyclic(4)" {
		t.Error(got)
	}
	plain := &Array{Shape: []int64{30, 40}, Elem: 8}
	if !plain.Equal(&Array{Shape: []int64{30, 40}, Elem: 8, Dims: []Dim{{Kind: Block}, {Kind: Block}}, Halo: []int64{0, 0}}) || plain.Equal(a) || !plain.SameData(a) {
		t.Error("equal descriptions differ, or others do not")
	}
}
