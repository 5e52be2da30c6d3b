package pattern

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// run makes n requests of a size from start on, step apart.
func run(start, step, size int64, n int) (out [][2]int64) {
	for k := range int64(n) {
		out = append(out, [2]int64{start + k*step, size})
	}
	return out
}

func join(parts ...[][2]int64) (out [][2]int64) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func repeat(n int, part func(k int64) [][2]int64) (out [][2]int64) {
	for k := range int64(n) {
		out = append(out, part(k)...)
	}
	return out
}

// TestClassify judges sequences written by hand, some very short.
func TestClassify(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var anywhere, ascending, nearly [][2]int64
	at := int64(0)
	for range 500 {
		anywhere = append(anywhere, [2]int64{r.Int64N(1 << 30), 1 + r.Int64N(9000)})
		at += 4096 * (2 + r.Int64N(20))
		ascending = append(ascending, [2]int64{at, 4096})
		nearly = append(nearly, [2]int64{int64(len(nearly))*8192 + r.Int64N(4000), 4096 + r.Int64N(4000)})
	}
	few := func(slots int64) (out [][2]int64) {
		for range 300 {
			out = append(out, [2]int64{r.Int64N(slots) * 4096, 4096})
		}
		return out
	}
	reverse := func(s [][2]int64) (out [][2]int64) {
		for i := range s {
			out = append(out, s[len(s)-1-i])
		}
		return out
	}
	for _, c := range []struct {
		name string
		ops  [][2]int64
		want Detail
	}{
		{"one request", run(77, 0, 10, 1), Contiguous},
		{"two that touch", run(0, 100, 100, 2), Contiguous},
		{"two with a small hole", run(0, 150, 100, 2), Sequential},
		{"two with a large hole", run(0, 900, 100, 2), StridedSimple},
		{"three that touch", run(0, 100, 100, 3), Contiguous},
		{"three strided", run(64, 256, 64, 3), StridedSimple},
		{"MiniGhost's header, one rank", run(128, 256, 64, 4), StridedSimple},
		{"IOR strided", run(1<<20, 16<<20, 1<<20, 64), StridedSimple},
		{"a whole file", run(0, 4096, 4096, 5000), Contiguous},
		{"a file read ten times", repeat(10, func(int64) [][2]int64 { return run(0, 4096, 4096, 40) }), Contiguous},
		{"a strided sweep ten times", repeat(10, func(int64) [][2]int64 { return run(0, 65536, 4096, 40) }), StridedSimple},
		{"backwards, strided", reverse(run(0, 65536, 4096, 100)), StridedSimple},
		{"backwards, touching", reverse(run(0, 4096, 4096, 100)), StridedSimple},
		{"backwards, varying", reverse(ascending), StridedVariable},
		{"a block of a matrix by rows", repeat(16, func(k int64) [][2]int64 { return run(k*1e6, 4096, 4096, 8) }), StridedNested},
		{"every second of them", repeat(16, func(k int64) [][2]int64 { return run(k*1e6, 8192, 4096, 8) }), StridedNested},
		{"pairs", repeat(30, func(k int64) [][2]int64 { return run(k*100e3, 10e3, 4096, 2) }), StridedNested},
		{"three levels", repeat(5, func(i int64) [][2]int64 {
			return repeat(6, func(k int64) [][2]int64 { return run(i*9e6+k*1e6, 100e3, 4096, 4) })
		}), StridedNested},
		{"two cursors", repeat(100, func(k int64) [][2]int64 { return [][2]int64{{k * 4096, 4096}, {1e9 + k*4096, 4096}} }), Contiguous},
		{"the same place", run(512, 0, 64, 50), StridedSimple},
		{"forward, varying", ascending, StridedVariable},
		{"forward, small holes", nearly, Sequential},
		{"anywhere", anywhere, Random},
		{"among few places", few(40), Random},
		{"among many places", few(4000), Random},
		{"few, anywhere", anywhere[:12], Random},
		{"eight, forward", ascending[:8], StridedVariable},
		{"eight, small holes", nearly[:8], Sequential},
		{"eight and a header", append(run(0, 65536, 65536, 8), [2]int64{0, 96}), Contiguous},
		{"a header after each block", repeat(60, func(k int64) [][2]int64 {
			return [][2]int64{{4096 + k*65536, 65536}, {0, 96}}
		}), StridedVariable},
		{"a header now and then", repeat(20, func(k int64) [][2]int64 {
			return append(run(4096+k*655360, 65536, 65536, 10), [2]int64{0, 96})
		}), Contiguous},
		{"contiguous, then anywhere", join(run(1<<31, 4096, 4096, 300), anywhere[:300]), Mixed},
		{"strided, then contiguous", join(run(0, 65536, 4096, 100), run(1<<30, 4096, 4096, 100)), Mixed},
		{"contiguous and anywhere by turns", repeat(200, func(k int64) [][2]int64 { return [][2]int64{{1<<31 + k*4096, 4096}, anywhere[k]} }), Mixed},
	} {
		var off, ends []int64
		for _, o := range c.ops {
			off, ends = append(off, o[0]), append(ends, o[0]+o[1])
		}
		var class Classifier
		var all Counts
		for len(off) > 0 {
			n := min(len(off), BlockOps)
			all.Add(class.Classify(off[:n], ends[:n]).Detail, int64(n))
			off, ends = off[n:], ends[n:]
		}
		if got := all.Detail(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestStrides(t *testing.T) {
	var c Classifier
	classify := func(ops [][2]int64) Verdict {
		var off, ends []int64
		for _, o := range ops {
			off, ends = append(off, o[0]), append(ends, o[0]+o[1])
		}
		v := c.Classify(off, ends)
		v.gap = 0
		return v
	}
	for _, x := range []struct {
		ops  [][2]int64
		want Verdict
	}{
		{run(0, 65536, 4096, 100), Verdict{Detail: StridedSimple, Stride: 65536}},
		{run(1e9, -65536, 4096, 100), Verdict{Detail: StridedSimple, Stride: -65536}},
		{repeat(16, func(k int64) [][2]int64 { return run(k*1e6, 8192, 4096, 8) }), Verdict{Detail: StridedNested, Stride: 8192, Outer: 1e6, Inner: 8}},
		{repeat(16, func(k int64) [][2]int64 { return run(k*1e6, 4096, 4096, 8) }), Verdict{Detail: StridedNested, Stride: 4096, Outer: 1e6, Inner: 8}},
	} {
		if got := classify(x.ops); got != x.want {
			t.Errorf("got %+v, want %+v", got, x.want)
		}
	}
}

// TestDenseRandom: requests in random order to a file of which little is left out
// follow each other by chance now and then.
func TestDenseRandom(t *testing.T) {
	var c Classifier
	for _, n := range []int{8, 12, 16, 24, 32, 48, 64, 100, 500, 4000} {
		for _, slots := range []int{0, 5, 10, 20, n/2 + 1, n} { // 0: each place once
			right, seeds := 0, max(20, 200/n)
			for seed := range uint64(seeds) {
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				perm := r.Perm(n)
				var off, ends []int64
				for i := range n {
					at := int64(perm[i])
					if slots > 0 {
						at = r.Int64N(int64(slots))
					}
					off, ends = append(off, at*4096), append(ends, at*4096+4096)
				}
				if c.Classify(off, ends).Detail == Random {
					right++
				}
			}
			if float64(right) < 0.9*float64(seeds) {
				t.Errorf("%d requests, %d places: %d of %d are random", n, slots, right, seeds)
			}
		}
	}
}

func TestMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOfN(rapid.Int64Range(-5, 5), 1, 40).Draw(t, "s")
		sorted := slices.Sorted(slices.Values(s))
		if got, want := median(s), sorted[(len(s)-1)/2]; got != want {
			t.Fatalf("median of %v: %d", sorted, got)
		}
	})
}
