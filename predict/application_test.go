package predict

import (
	"testing"

	"ckpt/dataset"
)

// Replicated arrays count once, shares add up to them.
func TestApplicationOf(t *testing.T) {
	size := func(app string) *ApplicationSize {
		t.Helper()
		inst, err := dataset.ParseApp(app, 0)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ApplicationOf(inst, []int{inst.NP / 2, inst.NP / 2}, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const parameters = 124_439_808
	whole, shares := size("dl.C.8"), size("dlshard.C.8")
	if want := int64(3 * 4 * parameters); whole.Total != want || shares.Total != want {
		t.Errorf("%d and %d bytes, want %d", whole.Total, shares.Total, want)
	}
	if whole.Aggregators != 1 || shares.Aggregators != 2 {
		t.Errorf("%d and %d ranks write", whole.Aggregators, shares.Aggregators)
	}
	if bt := size("bt.B.4"); len(bt.Arrays) != 1 || bt.Arrays[0].Name != "u" || bt.Recomputed < 7*bt.Arrays[0].Rank {
		t.Errorf("bt.B.4: %+v", bt)
	}
	inst, err := dataset.ParseApp("bt.B.4", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ApplicationOf(inst, []int{4}, 5, 0); err == nil {
		t.Error("5 aggregators of 4 ranks")
	}
}
