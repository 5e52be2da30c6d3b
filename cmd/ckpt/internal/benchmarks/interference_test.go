package benchmarks

import "testing"

// TestPanelWithoutRatio draws a policy of which too little was measured for some ratios.
func TestPanelWithoutRatio(t *testing.T) {
	some := &spread{Median: 0.9, Low: 0.8, High: 1}
	s := &interferenceStorage{List: []interferenceLine{{Policy: "none"}, {Policy: "wsjf"}}}
	s.List[1].TotalRatio = some
	for _, bars := range [][]measure{measures[:2], measures[2:4]} {
		if _, err := s.panel(bars); err != nil {
			t.Error(err)
		}
	}
}
