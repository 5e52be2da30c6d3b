package dataset

import (
	"math"
	"slices"
	"strings"
)

// Scatter is the standard deviation of each size between runs of the same job, in MiB. It
// is 0 for a size that fewer than two runs have.
type Scatter struct {
	Data    float64 `json:"data_mib,omitempty"`
	Library float64 `json:"library_mib,omitempty"`
	Shared  float64 `json:"shared_mib,omitempty"`
	File    float64 `json:"file_mib,omitempty"`
	Stored  float64 `json:"stored_mib,omitempty"`
}

// sameRun names the measurements that [Means] merges.
type sameRun struct {
	series, codec string
	np, ppn       int
	doubtful      bool
}

func (m *Measurement) run() sameRun {
	return sameRun{m.Series(), m.Codec, m.NP, m.PPN, m.SharedDoubtful}
}

// Means merges measurements of the same application, MPI library, codec, number of
// processes and processes per node into one: the mean, the number of runs, and how they
// scatter. Sizes that a row lacks do not count.
func Means(rows []Measurement) []Measurement {
	var order []sameRun
	runs := make(map[sameRun][]Measurement)
	for _, m := range rows {
		k := m.run()
		if runs[k] == nil {
			order = append(order, k)
		}
		runs[k] = append(runs[k], m)
	}
	out := make([]Measurement, 0, len(order))
	for _, k := range order {
		out = append(out, meanOf(runs[k]))
	}
	return out
}

// meanOf returns the mean of runs of the same job.
func meanOf(runs []Measurement) Measurement {
	mean := runs[0]
	if len(runs) == 1 {
		return mean
	}
	mean.Runs = 0
	for i, m := range runs {
		mean.Runs += max(1, m.Runs)
		if i > 0 && !slices.Contains(strings.Split(mean.Table, ", "), m.Table) {
			mean.Table += ", " + m.Table
		}
	}
	for _, z := range []struct {
		of      func(*Measurement) *float64
		scatter func(*Measurement) *float64
	}{
		{func(m *Measurement) *float64 { return &m.Data }, func(m *Measurement) *float64 { return &m.Scatter.Data }},
		{func(m *Measurement) *float64 { return &m.Library }, func(m *Measurement) *float64 { return &m.Scatter.Library }},
		{func(m *Measurement) *float64 { return &m.Shared }, func(m *Measurement) *float64 { return &m.Scatter.Shared }},
		{func(m *Measurement) *float64 { return &m.File }, func(m *Measurement) *float64 { return &m.Scatter.File }},
		{func(m *Measurement) *float64 { return &m.Stored }, func(m *Measurement) *float64 { return &m.Scatter.Stored }},
	} {
		*z.of(&mean), *z.scatter(&mean) = pooled(runs, z.of, z.scatter)
	}
	return mean
}

// pooled returns the mean of a size over runs and its standard deviation. A run that is
// itself a mean counts as often as it has runs.
func pooled(runs []Measurement, of, scatter func(*Measurement) *float64) (mean, sd float64) {
	var n, squares float64
	for i := range runs {
		v, k, s := *of(&runs[i]), float64(max(1, runs[i].Runs)), *scatter(&runs[i])
		if v == 0 {
			continue
		}
		d := v - mean
		mean += d * k / (n + k)
		squares += d*d*n*k/(n+k) + s*s*(k-1)
		n += k
	}
	if n < 2 {
		return mean, 0
	}
	return mean, math.Sqrt(squares / (n - 1))
}
