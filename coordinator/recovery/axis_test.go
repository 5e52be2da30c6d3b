package recovery

import (
	"testing"
)

// TestAxis puts states by the best measure that there is.
func TestAxis(t *testing.T) {
	at := func(k int, states ...State) float64 {
		a := newAxis(&History{Ranks: []Rank{{Checkpoints: states}}})
		return a.at(0, k)
	}
	if x := at(1, State{}, State{Iteration: 7}); x != 7 {
		t.Errorf("by iteration: %v", x)
	}
	if x := at(2, State{}, State{}, State{}); x != 2 {
		t.Errorf("by order: %v", x)
	}
	a := axis{min: 0, max: 2604}
	if got := a.ticks(); len(got) != 6 || got[5] != 2500 {
		t.Errorf("ticks %v", got)
	}
}
