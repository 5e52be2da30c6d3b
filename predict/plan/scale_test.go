package plan

import (
	"ckpt/predict"
	"fmt"
	"testing"
)

// TestInflection: protection moves the fastest number of ranks, as the thesis asks in
// section 3.3.3 and its Tables 5.3-5.6 answer.
func TestInflection(t *testing.T) {
	for _, c := range []struct {
		class, mpi string
		want       Fastest
	}{
		{"C", "mpich", Fastest{64, 25, 49}},
		{"C", "openmpi", Fastest{64, 49, 49}},
		{"D", "mpich", Fastest{64, 64, 64}},
	} {
		s, err := MeasuredScale("bt", c.class, c.mpi, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		if s.Fastest != c.want {
			t.Errorf("bt.%s %s: %+v, want %+v", c.class, c.mpi, s.Fastest, c.want)
		}
	}
	s, err := MeasuredScale("bt", "C", "mpich", []int{16, 64}, 1)
	if err != nil || len(s.Points) != 2 {
		t.Fatal(s, err)
	}
	// 193.1 s alone, 217.0 with a checkpoint, 200.7 with a compressed one; 110 % on 64.
	p := s.Points[0]
	if got := fmt.Sprintf("%.1f %.1f %.1f %.0f %%", p.Alone, p.Protected.Seconds, p.Compressed.Seconds, 100*s.Points[1].Overhead); got != "193.1 217.0 200.7 110 %" {
		t.Error(got)
	}
	if _, err := MeasuredScale("bt", "C", "mpich", []int{17}, 1); err == nil {
		t.Error("a run of 17 ranks was not measured")
	}
	if _, err := MeasuredScale("bt", "C", "mpich", nil, 0); err == nil {
		t.Error("no checkpoint is no protection")
	}
}

// TestScale: the measured times alone, with predicted checkpoints, give the same
// answer where the intervals can tell the numbers of ranks apart.
func TestScale(t *testing.T) {
	m, err := predict.Default()
	if err != nil {
		t.Fatal(err)
	}
	measured, err := MeasuredScale("bt", "C", "mpich", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	var runs []Run
	for _, p := range measured.Points {
		runs = append(runs, Run{p.Mapping, p.Alone})
	}
	s, err := PredictedScale(m, Way{}, "bt.C", "mpich", runs, 1, "gzip")
	if err != nil {
		t.Fatal(err)
	}
	if s.Fastest.Alone != 64 || s.Fastest.Protected == 64 {
		t.Errorf("%+v", s.Fastest)
	}
	inside := 0
	for i, p := range s.Points {
		if got := measured.Points[i].Protected.Seconds; p.Protected.Low <= got && got <= p.Protected.High {
			inside++
		}
		if p.Protected.Seconds <= p.Alone || p.Protected.Low > p.Protected.Seconds || p.Protected.High < p.Protected.Seconds {
			t.Errorf("%d ranks: %+v", p.NP, p)
		}
	}
	if inside < len(s.Points)-1 {
		t.Errorf("%d of %d measured times are inside the intervals", inside, len(s.Points))
	}
	protected := func(p ScalePoint) TimeRange { return p.Protected }
	if !s.Open(s.Fastest.Protected, protected) {
		t.Error("the intervals of this curve overlap")
	}
	if measured.Open(25, protected) {
		t.Error("a measured time is its own interval")
	}
	if _, err := PredictedScale(m, Way{}, "bt.C", "mpich", nil, 1, "gzip"); err == nil {
		t.Error("a curve without runs")
	}
}
