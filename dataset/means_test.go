package dataset

import (
	"math"
	"testing"
)

// TestMeans: runs of the same size make one row, and a size that a run lacks does not
// count as zero.
func TestMeans(t *testing.T) {
	bt := Measurement{App: "bt", Class: "S", MPI: "mpich", NP: 4, PPN: 4}
	row := func(table string, np int, data, library float64) Measurement {
		m := bt
		m.Table, m.NP, m.Data, m.Library = table, np, data, library
		return m
	}
	got := Means([]Measurement{row("a", 4, 10, 0), row("b", 9, 5, 1), row("c", 4, 20, 3), row("c", 4, 60, 3)})
	if len(got) != 2 || got[0].NP != 4 || got[1].NP != 9 {
		t.Fatalf("%+v", got)
	}
	if m := got[0]; math.Abs(m.Data-30) > 1e-9 || m.Library != 3 || m.Table != "a, c" {
		t.Errorf("%+v", m)
	}
	if m := got[1]; m.Data != 5 || m.Library != 1 || m.Table != "b" {
		t.Errorf("%+v", m)
	}
}
