package app

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ckpt/dataset"
	"ckpt/internal/testkit"
	"ckpt/zones/global"
)

// onRanks evaluates a workload for a job launched on so many ranks that runs on np.
func onRanks(t testing.TB, w *dataset.Workload, launched, np int) *dataset.Instance {
	t.Helper()
	inst, err := w.InstanceOn("S", launched, np)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// distributed is the heat workload with another distribution.
func distributed(t testing.TB, distribution string) *dataset.Workload {
	t.Helper()
	w, err := dataset.LoadWorkload("heat")
	if err != nil {
		t.Fatal(err)
	}
	if w, err = dataset.ParseWorkload([]byte(strings.Replace(string(w.Source()), "distribution: block", distribution, 1)), "heat"); err != nil {
		t.Fatal(err)
	}
	return w
}

// restartOn is the job on another number of ranks.
func (j *job) restartOn(inst *dataset.Instance) *job {
	j.t.Helper()
	out := newJob(j.t, inst).init()
	for rank, regions := range out.regions {
		for i, r := range regions {
			if r.name == "runtime" {
				copy(r.mem, j.regions[0][i].mem)
				continue
			}
			held := heldOf(j.t, j.inst, i)
			for _, part := range partsOf(j.t, inst, i, rank) {
				for _, slab := range part.Slabs(math.MaxInt64) {
					for _, h := range held {
						for _, t := range part.From(h.Rank, h.Part, slab) {
							t.Copy(r.mem, j.regions[t.Rank][i].mem)
						}
					}
				}
			}
		}
	}
	return out
}

// partsOf returns what a rank holds of the i-th array, of those that all hold together.
func partsOf(t testing.TB, inst *dataset.Instance, i, rank int) []*global.Part {
	switch a := inst.Arrays[i]; {
	case a.Layout != nil:
		return []*global.Part{a.Layout.Part(rank)}
	case a.Blocks != nil:
		b, err := a.Blocks()
		if err != nil {
			t.Fatal(err)
		}
		parts, err := b.Of(rank)
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	return nil
}

// heldOf returns which rank has which elements of an array.
func heldOf(t testing.TB, inst *dataset.Instance, i int) (held []global.Held) {
	if a := inst.Arrays[i]; a.Blocks != nil {
		b, err := a.Blocks()
		if err != nil {
			t.Fatal(err)
		}
		if held, err = b.Held(); err != nil {
			t.Fatal(err)
		}
		return held
	}
	for rank := range inst.NP {
		for _, p := range partsOf(t, inst, i, rank) {
			held = append(held, global.Held{Rank: rank, Part: p})
		}
	}
	return held
}

// A job of a solver of NPB, whose ranks hold blocks of arrays, does the same. Its residual is
// added up in the order of the ranks.
func TestBlocksOnAnyNumberOfRanks(t *testing.T) {
	for name, numbers := range map[string][]int{"bt": {1, 4, 9, 16, 25}, "sp": {1, 4, 9, 25}, "lu": {1, 2, 3, 6, 8, 15}, "cg": {1, 2, 4, 8, 16, 32}} {
		t.Run(name, func(t *testing.T) {
			w, err := dataset.LoadWorkload(name)
			if err != nil {
				t.Fatal(err)
			}
			want := newJob(t, onRanks(t, w, 1, 1)).init().run(6)
			for _, from := range numbers {
				if err := onRanks(t, w, from, from).CheckBlocks(); err != nil {
					t.Fatal(err)
				}
				first := newJob(t, onRanks(t, w, from, from)).init().run(3)
				to := numbers[(slices.Index(numbers, from)+3)%len(numbers)]
				got := first.restartOn(onRanks(t, w, from, to)).run(6)
				if fmt.Sprint(got.fields()) != fmt.Sprint(want.fields()) {
					t.Errorf("%d to %d: fields %x; want %x", from, to, got.fields(), want.fields())
				}
				if a, b := got.apps[0].Residual(), want.apps[0].Residual(); math.Abs(a/b-1) > 1e-9 {
					t.Errorf("%d to %d: residual %g, want %g", from, to, a, b)
				}
			}
		})
	}
}

// fields adds up what the ranks tell of their arrays.
func (j *job) fields() map[string][2]uint64 {
	sum := map[string][2]uint64{}
	for _, a := range j.apps {
		for _, f := range a.Fields() {
			s := sum[f.Name]
			sum[f.Name] = [2]uint64{s[0] + f.Sum[0], s[1] + f.Sum[1]}
		}
	}
	return sum
}

// A job that goes from any number of ranks to any other ends with the fields, and the
// residual, of one that does not.
func TestAnyNumberOfRanks(t *testing.T) {
	numbers := []int{1, 4, 9, 16, 25}
	if !testkit.Nightly() {
		numbers = []int{1, 4, 9}
	}
	mini, err := dataset.LoadWorkload("minighost")
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]*dataset.Workload{
		"minighost":    mini,
		"block":        distributed(t, "distribution: block"),
		"cyclic":       distributed(t, "distribution: cyclic"),
		"block-cyclic": distributed(t, "distribution: [block-cyclic, block], block: [3, 0]"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, from := range numbers {
				want := newJob(t, onRanks(t, w, from, from)).init().run(4)
				first := newJob(t, onRanks(t, w, from, from)).init().run(2)
				for _, to := range numbers {
					got := first.restartOn(onRanks(t, w, from, to)).run(4)
					if fmt.Sprint(got.fields()) != fmt.Sprint(want.fields()) || got.apps[0].Residual() != want.apps[0].Residual() {
						t.Errorf("%d to %d: fields %x, residual %g; want %x, %g", from, to, got.fields(), got.apps[0].Residual(), want.fields(), want.apps[0].Residual())
					}
				}
				if fmt.Sprint(first.fields()) == fmt.Sprint(want.fields()) {
					t.Error("the fields do not change")
				}
			}
		})
	}
}

// A changed element, or two that change places, change the digest; a changed halo does not.
func TestFieldDigests(t *testing.T) {
	l, err := (&global.Array{Shape: []int64{5, 6}, Elem: 8, Halo: []int64{1, 1}}).On(4)
	if err != nil {
		t.Fatal(err)
	}
	mem, parts := aligned(8*l.Elements(1)), []*global.Part{l.Part(1)}
	x := float64s(mem)
	for i := range x {
		x[i] = float64(i)
	}
	was := digestOf(parts, mem)
	own, halo := l.Offset([]int64{1, 4}), int64(0)
	if l.Owner([]int64{1, 4}) != 1 {
		t.Fatal("rank 1 does not own the element")
	}
	x[halo]++
	if digestOf(parts, mem) != was {
		t.Error("a halo counts")
	}
	x[own], x[own+1] = x[own+1], x[own]
	if digestOf(parts, mem) == was {
		t.Error("two elements changed places unnoticed")
	}
	x[own], x[own+1] = x[own+1], x[own]
	x[own] = math.Nextafter(x[own], 9)
	if digestOf(parts, mem) == was {
		t.Error("an element changed unnoticed")
	}
}

// The exact sum does not depend on the order.
func TestExactSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var list []float64
	var near float64
	for range 10000 {
		v := math.Ldexp(r.Float64(), r.IntN(30)-25)
		list, near = append(list, v), near+v
	}
	sum := func(parts int) float64 {
		all := make([]float64, 3)
		for k := range parts {
			var s exactSum
			for i := k; i < len(list); i += parts {
				s.add(list[i])
			}
			for i, v := range s.take() {
				all[i] += v
			}
		}
		return exactValue(all)
	}
	if a, b := sum(1), sum(7); a != b || math.Abs(a/near-1) > 1e-9 {
		t.Errorf("%v in one, %v in seven parts, about %v", a, b, near)
	}
}
