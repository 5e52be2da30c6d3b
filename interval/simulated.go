package interval

// Simulated is what a simulation found, in seconds, with what it was asked.
type Simulated struct {
	Runs     int      `json:"runs"`
	Seed     uint64   `json:"seed"`
	Shape    float64  `json:"shape"`
	Steady   bool     `json:"steady"`
	Mean     float64  `json:"mean_s"`
	Low      float64  `json:"low_s"` // 95 % confidence interval of the mean
	High     float64  `json:"high_s"`
	StdDev   float64  `json:"stddev_s"`
	Min      float64  `json:"min_s"`
	Max      float64  `json:"max_s"`
	P5       float64  `json:"run_p5_s"` // 90 of 100 runs take a time between these
	P95      float64  `json:"run_p95_s"`
	Failures float64  `json:"mean_failures"`
	Waste    float64  `json:"waste"`
	Expected *float64 `json:"expected_s"` // of the same runs; null unless failures are exponential
	Agrees   *bool    `json:"agrees"`     // whether low_s ≤ expected_s ≤ high_s
}

// Seconds gives the estimate of a simulation with these settings in seconds.
func (e *Estimate) Seconds(shape float64, seed uint64, steady bool) *Simulated {
	s := &Simulated{
		Runs: e.Runs, Seed: seed, Shape: shape, Steady: steady, Mean: e.Mean.Seconds(), Low: e.Low.Seconds(), High: e.High.Seconds(),
		StdDev: e.StdDev.Seconds(), Min: e.Min.Seconds(), Max: e.Max.Seconds(), P5: e.P5.Seconds(), P95: e.P95.Seconds(), Failures: e.Failures, Waste: e.Waste,
	}
	if shape == 1 {
		seconds, agrees := e.Expected.Seconds(), e.Low <= e.Expected && e.Expected <= e.High
		s.Expected, s.Agrees = &seconds, &agrees
	}
	return s
}
