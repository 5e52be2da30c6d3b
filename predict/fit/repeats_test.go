package fit

import (
	"math"
	"testing"
)

func TestRepeatsCheck(t *testing.T) {
	if (&repeats{SD: math.NaN(), Dof: 2}).Check() == nil || (&repeats{SD: 0.1, Dof: 2}).Check() != nil {
		t.Error("check")
	}
}
