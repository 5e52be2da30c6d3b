package predict

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// TestDriftTrend recomputes driftTrend: the mean over the series of the slope
// of the runtime constant over ln p, in units of the constant. The series
// differ by more than their noise, hence each counts once. Leaving any one of
// them out must not change what is concluded.
func TestDriftTrend(t *testing.T) {
	const trend = -0.03
	rows, err := dataset.Measurements()
	if err != nil {
		t.Fatal(err)
	}
	m, err := Fit(rows)
	if err != nil {
		t.Fatal(err)
	}
	var slopes []float64
	for _, s := range m.Series {
		if s.Drift == nil || fit.Distinct(s.Points) < 3 {
			continue
		}
		_, slope := stat.LinearRegression(s.Drift.X, s.Drift.R, nil, false)
		slopes = append(slopes, slope/stat.Mean(s.Drift.R, nil))
		t.Logf("%-16s %+.3f", s.Name(), slopes[len(slopes)-1])
	}
	mean, sd := stat.MeanStdDev(slopes, nil)
	se := sd / math.Sqrt(float64(len(slopes)))
	low, high := math.Inf(1), math.Inf(-1)
	for i := range slopes {
		rest := append(append([]float64(nil), slopes[:i]...), slopes[i+1:]...)
		low, high = min(low, stat.Mean(rest, nil)), max(high, stat.Mean(rest, nil))
	}
	t.Logf("%d series: mean %+.4f, standard error %.4f; leaving one out %+.4f to %+.4f", len(slopes), mean, se, low, high)
	if math.Abs(mean-trend) > se/2 {
		t.Errorf("the trend is %v, the tables say %.4f ± %.4f", trend, mean, se)
	}
}
