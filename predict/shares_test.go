package predict

import (
	"math"
	"testing"

	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/zones"
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
