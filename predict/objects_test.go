package predict

import (
	"math"
	"testing"
)

// TestMeanObjects adds up a run by hand: a first checkpoint of 100 PUT and three of 40.
func TestMeanObjects(t *testing.T) {
	s := Stored{FullObjects: Objects{&Requests{100, 20}, &Bill{"USD", 0.01, 2}}, NextObjects: Objects{&Requests{40, 12}, &Bill{"USD", 0.002, 0.5}}}
	o := s.MeanObjects(4, 3)
	if *o.Requests != (Requests{55, 14}) {
		t.Errorf("%+v, want (100+3·40)/4 and (20+3·12)/4", o.Requests)
	}
	if b := o.Bill; b.Currency != "USD" || math.Abs(b.Checkpoint-0.004) > 1e-12 || math.Abs(b.Month-3.5) > 1e-12 {
		t.Errorf("%+v, want (0.01+3·0.002)/4 and 2+3·0.5", b)
	}
	if kept := o.Kept(2); kept.Bill.Month != 7 || o.Bill.Month != 3.5 || kept.Bill.Checkpoint != o.Bill.Checkpoint {
		t.Errorf("two kept: %+v of %+v", kept.Bill, o.Bill)
	}
	s.NextObjects.Bill = nil
	if o := s.MeanObjects(4, 3); o.Bill != nil || o.Requests == nil || len(o.Lines()) != 1 {
		t.Errorf("without prices: %+v, %q", o, o.Lines())
	}
	if o := (&Stored{}).MeanObjects(4, 3); o != (Objects{}) || len(o.Kept(2).Lines()) != 0 {
		t.Errorf("files: %+v", o)
	}
}
