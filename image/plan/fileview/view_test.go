package fileview_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ckpt/image/plan/fileview"
)

func TestViewOffset(t *testing.T) {
	t.Parallel()
	two := []fileview.Tuple{{Size: 10, Hole: 5}, {Size: 3, Hole: 20}}
	for _, c := range []struct {
		name            string
		initial, repeat int64
		tuples          []fileview.Tuple
		viewOff         int64
		off, n          int64
		ok              bool
	}{
		{"begin", 100, 2, two, 0, 100, 10, true},
		{"within the first block", 100, 2, two, 7, 107, 3, true},
		{"last byte of a block", 100, 2, two, 9, 109, 1, true},
		{"second block", 100, 2, two, 10, 115, 3, true},
		{"the initial offset counts once", 100, 2, two, 13, 138, 10, true},
		{"within the last block", 100, 2, two, 24, 154, 2, true},
		{"last byte", 100, 2, two, 25, 155, 1, true},
		{"end", 100, 2, two, 26, 0, 0, false},
		{"negative", 100, 2, two, -1, 0, 0, false},
		{"far away", 100, fileview.Forever, two, 13_000_000_005, 100 + 38_000_000_000 + 5, 5, true},
		{"largest offset", math.MaxInt64 - 1, 1, []fileview.Tuple{{Size: 1}}, 0, math.MaxInt64 - 1, 1, true},
		{"half of all offsets", 0, fileview.Forever, []fileview.Tuple{{Size: 1, Hole: 1}}, 1<<62 - 2, math.MaxInt64 - 3, 1, true},
		{"no more of them", 0, fileview.Forever, []fileview.Tuple{{Size: 1, Hole: 1}}, 1<<62 - 1, 0, 0, false},
	} {
		off, n, ok := mustView(t, c.initial, c.tuples, c.repeat).Offset(c.viewOff)
		if off != c.off || n != c.n || ok != c.ok {
			t.Errorf("%s: Offset(%d) = %d, %d, %v; want %d, %d, %v", c.name, c.viewOff, off, n, ok, c.off, c.n, c.ok)
		}
	}
}

// TestViewWithin: a file that ends at a byte has as many wanted bytes as lie before it.
func TestViewWithin(t *testing.T) {
	t.Parallel()
	for _, repeat := range []int64{1, 3, fileview.Forever} {
		v := mustView(t, 7, []fileview.Tuple{{Size: 10, Hole: 5}, {Size: 3, Hole: 2}}, repeat)
		for length, want := int64(0), int64(0); length < 90; length++ {
			if got := v.Within(length); got != want {
				t.Errorf("repeated %d times: Within(%d) = %d, want %d", repeat, length, got, want)
			}
			if off, _, ok := v.Offset(want); ok && off == length {
				want++
			}
		}
		if off, _, _ := v.Offset(v.Size() - 1); v.Within(off+1) != v.Size() || v.Within(math.MaxInt64) != v.Size() {
			t.Errorf("repeated %d times: a long file has %d bytes, want %d", repeat, v.Within(math.MaxInt64), v.Size())
		}
	}
}

// In a file with one slot per rank, the data zone of rank r is the r-th part of
// the view of all data zones.
func TestViewZones(t *testing.T) {
	t.Parallel()
	const header, library, data, shm, ranks = 4096, 700, 1300, 48, 9
	v := mustView(t, header+library, []fileview.Tuple{{Size: data, Hole: shm + library}}, ranks)
	if v.Size() != ranks*data {
		t.Fatalf("Size() = %d, want %d", v.Size(), ranks*data)
	}
	for r := range int64(ranks) {
		off, n, ok := v.Offset(r * data)
		if want := header + r*(library+data+shm) + library; off != want || n != data || !ok {
			t.Errorf("rank %d: Offset = %d, %d, %v; want %d, %d", r, off, n, ok, want, data)
		}
	}
}

func TestViewRefuses(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	one := []fileview.Tuple{{Size: 1}}
	for _, c := range []struct {
		name            string
		initial, repeat int64
		tuples          []fileview.Tuple
		want            string
	}{
		{"negative begin", -1, 1, one, "initial offset -1 is negative"},
		{"no tuples", 0, 1, nil, "no tuples"},
		{"no repetition", 0, 0, one, "0 repetitions"},
		{"negative repetition", 0, -2, one, "-2 repetitions"},
		{"no size", 0, 1, []fileview.Tuple{{Size: 1}, {Hole: 4}}, "tuple 1: size 0"},
		{"negative size", 0, 1, []fileview.Tuple{{Size: -5, Hole: 9}}, "tuple 0: size -5"},
		{"least size", 0, 1, []fileview.Tuple{{Size: math.MinInt64}}, "tuple 0: size"},
		{"negative hole", 0, 1, []fileview.Tuple{{Size: 5, Hole: -1}}, "tuple 0: hole -1 is negative"},
		{"size and hole overflow", 0, 1, []fileview.Tuple{{Size: most, Hole: most}}, "tuple 0"},
		{"size and begin overflow", 2, 1, []fileview.Tuple{{Size: most - 1}}, "tuple 0"},
		{"hole by one too long", 1, 1, []fileview.Tuple{{Size: 1, Hole: most - 1}}, "tuple 0"},
		{"tuples overflow together", 0, 1, []fileview.Tuple{{Size: most / 2, Hole: 1}, {Size: most / 2, Hole: 1}}, "tuple 1"},
		{"repetitions overflow", 0, 1<<32 + 1, []fileview.Tuple{{Size: 1, Hole: 1<<31 - 1}}, "repetitions"},
		{"all repetitions", 1, most, one, "repetitions"},
		{"not one repetition", most, fileview.Forever, one, "tuple 0"},
	} {
		v, err := fileview.NewView(c.initial, c.tuples, c.repeat)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: NewView = %v, %v; want an error with %q", c.name, v, err, c.want)
		}
	}
	// One byte less each is a view.
	mustView(t, 1, []fileview.Tuple{{Size: 1, Hole: most - 2}}, 1)
	mustView(t, 0, []fileview.Tuple{{Size: 1, Hole: 1<<31 - 1}}, 1<<32-1)
	mustView(t, 0, one, most)
}

// drawTuples draws a short list of small tuples.
func drawTuples(t *rapid.T) []fileview.Tuple {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fileview.Tuple {
		return fileview.Tuple{
			Size: rapid.Int64Range(1, 40).Draw(t, "size"),
			Hole: rapid.Int64Range(0, 60).Draw(t, "hole"),
		}
	}), 1, 6).Draw(t, "tuples")
}

func TestViewIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		initial := rapid.Int64Range(0, 100).Draw(t, "initial")
		tuples := drawTuples(t)
		repeat := rapid.IntRange(1, 5).Draw(t, "repeat")
		offs := offsets(initial, tuples, repeat)
		v, err := fileview.NewView(initial, tuples, int64(repeat))
		if err != nil {
			t.Fatal(err)
		}
		if v.Size() != int64(len(offs)) {
			t.Fatalf("Size() = %d, want %d", v.Size(), len(offs))
		}
		inBlock := int64(0) // bytes of the block that are left, from the back
		for i := len(offs) - 1; i >= 0; i-- {
			inBlock++
			off, n, ok := v.Offset(int64(i))
			if off != offs[i] || !ok {
				t.Fatalf("Offset(%d) = %d, %v; want %d", i, off, ok, offs[i])
			}
			// Blocks that touch are two blocks all the same.
			if n > inBlock || n < 1 || n < inBlock && offs[i+int(n)] != off+n {
				t.Fatalf("Offset(%d) says %d bytes, the run is %d", i, n, inBlock)
			}
			if i > 0 && offs[i-1]+1 != offs[i] {
				inBlock = 0
			}
		}
	})
}
