package dataset

import (
	"math"
	"testing"
)

var btRun = Measurement{App: "bt", Class: "S", MPI: "mpich", NP: 4, PPN: 4}

func runOf(table string, np int, data, library float64) Measurement {
	m := btRun
	m.Table, m.NP, m.Data, m.Library = table, np, data, library
	return m
}

// TestMeans: runs of the same size make one row, and a size that a run lacks does not
// count as zero.
func TestMeans(t *testing.T) {
	got := Means([]Measurement{runOf("a", 4, 10, 0), runOf("b", 9, 5, 1), runOf("c", 4, 20, 3), runOf("c", 4, 60, 3)})
	if len(got) != 2 || got[0].NP != 4 || got[1].NP != 9 {
		t.Fatalf("%+v", got)
	}
	if m := got[0]; math.Abs(m.Data-30) > 1e-9 || m.Library != 3 || m.Table != "a, c" || m.Runs != 3 {
		t.Errorf("%+v", m)
	}
	// 10, 20 and 60 lie 20, 10 and 30 from their mean.
	if s := got[0].Scatter; math.Abs(s.Data-math.Sqrt(1400./2)) > 1e-9 || s.Library != 0 {
		t.Errorf("scatter %+v", s)
	}
	if m := got[1]; m.Data != 5 || m.Library != 1 || m.Table != "b" || m.Runs != 0 {
		t.Errorf("%+v", m)
	}
}

// TestMeansOfMeans: it does not matter in which order runs are merged.
func TestMeansOfMeans(t *testing.T) {
	rows := []Measurement{runOf("a", 4, 10, 2), runOf("a", 4, 13, 0), runOf("a", 4, 11, 2.5), runOf("a", 4, 17, 2.5), runOf("a", 4, 12, 2.4)}
	once := Means(rows)[0]
	first := Means(rows[:3])
	twice := Means(append(first, Means(rows[3:])...))[0]
	if once.Runs != 5 || twice.Runs != 5 || math.Abs(once.Data-twice.Data) > 1e-9 || math.Abs(once.Scatter.Data-twice.Scatter.Data) > 1e-9 {
		t.Errorf("%+v\n%+v", once, twice)
	}
}

// TestMeansApart: runs under a codec, on other nodes, or with a doubtful zone are not
// those of another row.
func TestMeansApart(t *testing.T) {
	packed, spread, doubtful := btRun, btRun, btRun
	packed.Codec, spread.PPN, doubtful.SharedDoubtful = "gzip", 2, true
	if got := Means([]Measurement{btRun, packed, spread, doubtful}); len(got) != 4 {
		t.Errorf("%d rows", len(got))
	}
}
