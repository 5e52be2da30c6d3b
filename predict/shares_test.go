package predict

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"ckpt/dataset"
	"ckpt/internal/testkit"
	"ckpt/predict/fit"
	"ckpt/zones"
	"ckpt/zones/global"
)

const unequal512 = `name: zero1
kernel: generic
procs: any
classes:
  big: {iterations: 1, params: {n: 405853388800}}
kinds:
  - {name: writers, ranks: "div(p, 2)"}
  - {name: others}
arrays:
  - {name: weights, elem: bfloat16, kind: writers, count: "ceildiv(n, div(p, 2))"}
  - {name: adam, elem: float32, count: "3*ceildiv(n, p)"}
`

func instanceOf(t *testing.T, text string, np int) *dataset.Instance {
	t.Helper()
	w, err := dataset.ParseWorkload([]byte(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := w.Instance(w.Classes()[0], np)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// TestUnequalRanks predicts the total and the largest rank exactly, whoever writes.
func TestUnequalRanks(t *testing.T) {
	const writer, other = 12682918400 + 4096, 9512188800 + 4096
	inst := instanceOf(t, unequal512, 512)
	m, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	r := Request{App: AppOf(inst), Mapping: Blocks(512, 8)}
	s, err := m.Stored(r, Storing{Codec: "none"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	round := func(n int64) int64 { return zones.PageRound(n - 4096) }
	if want := 256 * (2*round(other) + round(writer-other+4096) + 2*4096); math.Abs(s.Full.Data.Value-float64(want)) > 1 {
		t.Errorf("ckpt stores %.0f bytes, want %d", s.Full.Data.Value, want)
	}
	if len(s.Ranks) != 2 || s.Ranks[0].Bytes != writer || s.Ranks[1].Ranks != "256-511" {
		t.Errorf("ranks %+v", s.Ranks)
	}
	size, err := m.Size(r)
	if err != nil {
		t.Fatal(err)
	}
	var total MiB
	of := size.RankMiB()
	for _, f := range size.Files {
		total += f.MiB * MiB(f.Count)
	}
	if more := of[0] - of[511]; math.Abs(more*mebi-(writer-other)) > 1 || math.Abs(float64(total-size.TotalMiB)) > 1e-3 {
		t.Errorf("the image of rank 0 has %g MiB more, all have %g of %g", more, total, size.TotalMiB)
	}
}

// TestLawOfSizes predicts an array of which only sizes are known.
func TestLawOfSizes(t *testing.T) {
	slab := func(p int) int64 { return int64(8000000/p) + 6400 }
	var list []dataset.MeasuredSize
	for _, p := range []int{2, 4, 8} {
		list = append(list, dataset.MeasuredSize{NP: p, Bytes: slab(p)})
	}
	if r := lawOf(list, 16); math.Abs(r.Value/float64(slab(16))-1) > 0.04 || r.Low > float64(slab(16)) || r.High < float64(slab(16)) {
		t.Errorf("16 ranks: %+v, true are %d", r, slab(16))
	}
	if r := lawOf(list, 4); r.Value != float64(slab(4)) || r.Low != r.High {
		t.Errorf("as measured: %+v", r)
	}
	if r := lawOf(list[1:2], 16); r.Low != float64(slab(4))/4 || r.High != float64(slab(4)) {
		t.Errorf("of one run: %+v", r)
	}
	same := []dataset.MeasuredSize{{NP: 2, Bytes: 5000}, {NP: 4, Bytes: 5000}}
	if r := lawOf(same, 64); r.Value != 5000 || r.Low != 5000 || r.High != 5000 {
		t.Errorf("a constant: %+v", r)
	}
	// Ranks without an array: nothing on one rank, as of a halo, or on many.
	for _, sizes := range [][]int64{{0, 64e6, 64e6}, {64e6, 0, 64e6}, {64e6, 32e6, 0}, {64e6, 0, 0}} {
		var list []dataset.MeasuredSize
		for i, bytes := range sizes {
			list = append(list, dataset.MeasuredSize{NP: 1 << i, Bytes: bytes})
		}
		if r := lawOf(list, 16); !(r.Value > 0 && r.Low == 0 && r.High >= r.Value && r.High < 1e9) {
			t.Errorf("%v: %+v", sizes, r)
		}
	}
	if r := lawOf([]dataset.MeasuredSize{{NP: 2}, {NP: 4}}, 16); r != (fit.Range{}) {
		t.Errorf("nothing: %+v", r)
	}
}

// TestUnequalShare: where a checkpointer stores a part of the arrays, the ranks differ by that
// part of what their arrays differ by.
func TestUnequalShare(t *testing.T) {
	inst := instanceOf(t, unequal512, 512)
	average := float64(inst.TotalBytes()) / float64(inst.NP) / mebi
	sum := 0.0
	for _, s := range inst.Shares() {
		k := File{share: &s}
		e := k.data(inst, fit.Estimate{Value: 0.1 * average, Low: 0.09 * average, High: 0.11 * average})
		ranks := 0
		for _, run := range s.Ranks {
			ranks += run.Last - run.First + 1
		}
		if sum += e.Value * float64(ranks); math.Abs(e.Value/(0.1*float64(s.Bytes)/mebi)-1) > 1e-9 || e.Low > e.Value || e.High < e.Value {
			t.Errorf("ranks that hold %d bytes: %+v", s.Bytes, e)
		}
	}
	if math.Abs(sum/(0.1*average*float64(inst.NP))-1) > 1e-9 {
		t.Errorf("all ranks hold %g MiB, want a tenth of %g", sum, average*float64(inst.NP))
	}
}

// An undeclared array has a size on each rank that was seen.
type undeclared struct {
	shape        []int64
	halo, values int64
	grid         func(np int) []int
}

// seen is what the ranks of a run held.
func (u *undeclared) seen(t *testing.T, name string, np int) dataset.SeenArray {
	t.Helper()
	a := global.Array{Shape: u.shape, Elem: 8 * u.values, Grid: u.grid(np), Halo: slices.Repeat([]int64{u.halo}, len(u.shape)), Empty: true}
	l, err := a.On(np)
	if err != nil {
		t.Fatal(err)
	}
	s := dataset.SeenArray{Name: name, Elem: zones.Float64}
	for rank := range np {
		s.Bytes = append(s.Bytes, l.Elements(rank)*a.Elem)
	}
	return s
}

// undeclaredRun is a run of a program that declares nothing.
func undeclaredRun(t *testing.T, arrays []undeclared, np int) dataset.SeenRun {
	run := dataset.SeenRun{Job: "j", NP: np}
	for i := range arrays {
		run.Arrays = append(run.Arrays, arrays[i].seen(t, fmt.Sprintf("array%d", i), np))
	}
	return run
}

// TestUndeclared predicts programs that declare nothing from three runs: strips, blocks, and a 3-D
// code with two arrays, whose sizes do not divide. Their sizes fit cuts, which are right; laws
// alone, which know no cut, say how far to trust that.
func TestUndeclared(t *testing.T) {
	strips := func(np int) []int { return []int{np, 1} }
	blocks := func(np int) []int { return global.Dims(np, 2) }
	cubes := func(np int) []int { return global.Dims(np, 3) }
	threes := [][]int{{2, 4, 8}, {1, 2, 4}}
	if testkit.Nightly() {
		threes = append(threes, []int{4, 8, 16}, []int{2, 4, 16}, []int{2, 8, 16}, []int{3, 6, 12})
	}
	var errs []float64
	inside := 0
	for name, arrays := range map[string][]undeclared{
		"strips": {{[]int64{1002, 100}, 1, 1, strips}},
		"blocks": {{[]int64{207, 311}, 1, 1, blocks}},
		"cubes":  {{[]int64{66, 42, 37}, 2, 3, cubes}, {[]int64{66, 42, 37}, 1, 1, cubes}},
		"uneven": {{[]int64{67, 43, 38}, 2, 3, cubes}, {[]int64{68, 44, 39}, 1, 1, cubes}},
	} {
		for _, runs := range threes {
			var seen []dataset.SeenRun
			for _, np := range runs {
				seen = append(seen, undeclaredRun(t, arrays, np))
			}
			d, err := dataset.Describe("code", "c", seen)
			if err != nil {
				t.Fatal(err)
			}
			for _, np := range []int{7, 16, 60, 64} {
				held := int64(0)
				for _, a := range undeclaredRun(t, arrays, np).Arrays {
					for _, n := range a.Bytes {
						held += n
					}
				}
				inst := withLaws(instanceOf(t, d.Text, np))
				low, high := inst.TotalRange()
				e := float64(inst.TotalBytes())/float64(held) - 1
				errs = append(errs, math.Abs(e))
				if low <= held && held <= high {
					inside++
				}
				t.Logf("%s on %v: %d ranks %+.2f %%, %+.1f to %+.1f %%", name, runs, np, 100*e, 100*(float64(low)/float64(held)-1), 100*(float64(high)/float64(held)-1))
				if math.Abs(e) > 0.04 {
					t.Errorf("%s on %d ranks: %+.2f %% from %v", name, np, 100*e, runs)
				}
			}
		}
	}
	slices.Sort(errs)
	t.Logf("%d of %d inside, median error %.2f %%, at most %.2f %%", inside, len(errs), 100*errs[len(errs)/2], 100*errs[len(errs)-1])
	if inside*10 < len(errs)*9 {
		t.Errorf("%d of %d inside", inside, len(errs))
	}
}

// TestLists: of an array that lists deal out, as a mesh without a rule, ranks own equal shares on
// average; only the copies beside them have a law.
func TestLists(t *testing.T) {
	const cells = 1 << 21
	list := func(np int) dataset.SeenArray {
		s := dataset.SeenArray{Name: "mesh", Elem: zones.Float64}
		copies := int64(900 * math.Pow(cells/float64(np)/900, 2./3)) // around a part
		for rank := range int64(np) {
			own := cells/int64(np) + (rank%2*2-1)*97
			s.Parts = append(s.Parts, &global.Part{Elem: 8, Axes: []global.Stretch{{Cells: cells, Count: own}}, Index: &global.Index{Own: own, Held: own + copies}})
			s.Bytes = append(s.Bytes, 8*(own+copies))
		}
		return s
	}
	for _, runs := range [][]int{{2, 4, 8}, {4}} {
		var seen []dataset.SeenRun
		for _, np := range runs {
			seen = append(seen, dataset.SeenRun{Job: "j", NP: np, Arrays: []dataset.SeenArray{list(np)}})
		}
		d, err := dataset.Describe("mesh", "c", seen)
		if err != nil {
			t.Fatal(err)
		}
		inst := withLaws(instanceOf(t, d.Text, 64))
		held := int64(0)
		for _, n := range list(64).Bytes {
			held += n
		}
		low, high := inst.TotalRange()
		e := float64(inst.TotalBytes())/float64(held) - 1
		if t.Logf("%v: %+.2f %%, %d to %d bytes, held %d: %s", runs, 100*e, low, high, held, d.Arrays[0].Rule); low < 8*cells-64 || low > held || high < held || len(runs) > 1 && math.Abs(e) > 0.01 {
			t.Errorf("%v: %d bytes (%d to %d), held %d", runs, inst.TotalBytes(), low, high, held)
		}
	}
}
