package predict

import "ckpt/predict/fit"

// A FitRow describes the fit of one series, for tables.
type FitRow struct {
	Series string  `json:"series"`
	Law    string  `json:"law"`
	Points int     `json:"points"`
	Low    float64 `json:"low_np"`
	High   float64 `json:"high_np"`
	// Coefficients are in MiB, in the order of the law's name.
	Coefficients []float64 `json:"coefficients"`
	Exponent     float64   `json:"exponent,omitempty"`
	// LOO is the relative leave-one-out error, 0 if there are too few points.
	LOO    float64 `json:"loo"`
	AICc   float64 `json:"aicc"`
	Weight float64 `json:"weight"`
}

// Fits lists the fits of all series and zones, in the order of the measurements.
func (m *Model) Fits() []FitRow {
	var out []FitRow
	for _, s := range m.Series {
		if f, _ := m.variedOf(App{Name: s.App, Class: s.Class}, s.MPI); f != nil {
			continue // the laws of all problem sizes are used
		}
		low, high := fit.Span(s.Points)
		if s.Drift != nil {
			name, coefficients := s.Drift.Form()
			out = append(out, FitRow{Series: s.Name(), Law: "structural: " + name, Points: len(s.Points), Low: low, High: high,
				Coefficients: coefficients, LOO: s.Drift.Missed(), Weight: 1})
		}
		if s.Laws == nil {
			continue
		}
		for _, f := range s.Laws.Fits {
			out = append(out, FitRow{Series: s.Name(), Law: string(f.Law), Points: len(s.Points), Low: low, High: high,
				Coefficients: f.Coef, Exponent: f.Exponent, LOO: f.LOO, AICc: f.AICc, Weight: f.Weight})
		}
	}
	for _, f := range m.Varied {
		out = append(out, variedRows(f, "")...)
	}
	for _, f := range m.Whole {
		out = append(out, variedRows(f, "file ")...)
	}
	for _, mpi := range []string{"mpich", "openmpi"} {
		if c := m.Library[mpi]; c != nil {
			out = append(out, FitRow{Series: "library " + mpi, Law: "constant", Points: c.N, Coefficients: []float64{c.Mean}, Weight: 1})
		}
		if f := m.Shared[mpi]; f != nil {
			out = append(out, FitRow{Series: "shared " + mpi + " by ranks/node", Law: f.Law, Points: f.N, Low: f.Low, High: f.High, Coefficients: f.Coef, Weight: 1})
		}
	}
	return out
}

// variedRows describes the laws of a problem size, or of whole files.
func variedRows(f *fit.Varied, prefix string) (out []FitRow) {
	_, p := f.Spans()
	for _, l := range f.Laws {
		var coef []float64
		for _, c := range l.Coef {
			if c != 0 {
				coef = append(coef, c)
			}
		}
		out = append(out, FitRow{Series: prefix + f.Name(), Law: l.String(), Points: len(f.Points), Low: p[0], High: p[1],
			Coefficients: coef, LOO: l.LOO, Weight: l.Weight})
	}
	return out
}
