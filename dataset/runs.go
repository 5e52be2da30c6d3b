package dataset

import (
	"fmt"
	"math"
	"slices"
)

// A RunTime is how long a run without checkpoints took.
type RunTime struct {
	NP, Nodes int
	Seconds   float64
}

// RunTimesOf reads run times from a user's table: columns n_processes and app_time_s,
// and n_nodes or processes_per_node if nodes are not one.
func RunTimesOf(t *Table) ([]RunTime, error) {
	if err := t.checkColumns(slices.Concat([]string{"app_time_s", "app", "class", "mpi", "note"}, npColumns, ppnColumns, nodesColumns)); err != nil {
		return nil, err
	}
	np := t.first(npColumns)
	if np == "" {
		return nil, t.bad(0, "n_processes", "the column is missing", "add a column n_processes: the number of processes")
	}
	if t.column("app_time_s") < 0 {
		return nil, t.bad(0, "app_time_s", "the column is missing", "add a column app_time_s: the run time without checkpoints, in seconds")
	}
	seen := make(map[int]int)
	var out []RunTime
	for i := range t.Rows {
		var m Measurement
		m.Table, m.Line, m.App, m.MPI = t.Name, t.lines[i], "run", "mpich"
		if err := t.fillCounts(&m, i, np); err != nil {
			return nil, err
		}
		v, err := t.Number(i, "app_time_s")
		if err != nil {
			return nil, err
		}
		if math.IsNaN(v) || v <= 0 || v > 1e10 {
			return nil, t.bad(m.Line, "app_time_s", fmt.Sprintf("%q is not a time", t.Text(i, "app_time_s")), "write seconds, more than 0")
		}
		if line, ok := seen[m.NP]; ok {
			return nil, t.bad(m.Line, np, fmt.Sprintf("repeats line %d: %d processes", line, m.NP), "give the mean of repeated runs as one row")
		}
		seen[m.NP] = m.Line
		out = append(out, RunTime{m.NP, (m.NP + m.PPN - 1) / m.PPN, v})
	}
	if len(out) == 0 {
		return nil, t.bad(0, "", "has a header but no rows", "add a line for each run")
	}
	return out, nil
}
