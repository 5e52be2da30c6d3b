package dataset

import "strings"

// Means merges measurements of the same application, MPI library, number of processes
// and processes per node into one, the mean. Sizes that a row lacks do not count.
func Means(rows []Measurement) []Measurement {
	type key struct {
		series  string
		np, ppn int
	}
	var out []Measurement
	at := make(map[key]int)
	counts := make(map[key][4]float64)
	for _, m := range rows {
		k := key{m.Series(), m.NP, m.PPN}
		i, ok := at[k]
		if !ok {
			at[k] = len(out)
			i = len(out)
			first := m
			first.Data, first.Library, first.Shared, first.File = 0, 0, 0, 0
			out = append(out, first)
		} else if sources := strings.Split(out[i].Table, ", "); sources[len(sources)-1] != m.Table {
			out[i].Table += ", " + m.Table
		}
		n := counts[k]
		mean := &out[i]
		for z, v := range []struct {
			sum *float64
			add float64
		}{{&mean.Data, m.Data}, {&mean.Library, m.Library}, {&mean.Shared, m.Shared}, {&mean.File, m.File}} {
			if v.add > 0 {
				n[z]++
				*v.sum += (v.add - *v.sum) / n[z]
			}
		}
		counts[k] = n
	}
	return out
}
