package finding

import "testing"

// TestSumOfGains: later findings share what earlier ones leave of the run.
func TestSumOfGains(t *testing.T) {
	s := &search{Run: &Run{Time: 10, Timed: true}, t: &Thresholds{GainSeconds: 0.001, GainShare: 0.02}}
	for _, g := range []float64{7, 5, 1} {
		s.add(&Finding{Gain: &g})
	}
	if len(s.out) != 2 || *s.out[0].Gain != 7 || *s.out[1].Gain != 3 {
		t.Errorf("of 7, 5 and 1 s in a run of 10 s there are %d findings, %+v", len(s.out), s.out)
	}
}
