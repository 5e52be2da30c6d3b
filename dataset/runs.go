package dataset

import (
	"fmt"
	"math"
	"slices"
)

// A RunTime is how long a run without checkpoints took.
type RunTime struct {
	NP, Nodes int
	// BufferMiB is the collective buffer of the run, 0 if the table does not say.
	BufferMiB float64
	Seconds   float64
}

// RunTimesOf reads run times from a user's table: columns n_processes and app_time_s,
// and n_nodes or processes_per_node if nodes are not one. Each number of processes has
// one row.
func RunTimesOf(t *Table) ([]RunTime, error) {
	return t.runTimes(func(r RunTime) string { return fmt.Sprintf("%d processes", r.NP) })
}

// MappedRunsOf reads run times of several mappings and buffers: also the columns mapping
// (2n x 8p, in place of n_processes) and cb_buffer_size_MiB. Table 5.14 has such rows.
func MappedRunsOf(t *Table) ([]RunTime, error) {
	return t.runTimes(func(r RunTime) string {
		return fmt.Sprintf("%d processes on %d nodes, buffer %g MiB", r.NP, r.Nodes, r.BufferMiB)
	}, "mapping", "cb_buffer_size_MiB", "n_aggregators", "ckpt_time_s", "app_plus_ckpt_time_s")
}

// runTimes reads the rows; key names what may appear once, more are further columns.
func (t *Table) runTimes(key func(RunTime) string, more ...string) ([]RunTime, error) {
	if err := t.checkColumns(slices.Concat([]string{"app_time_s", "app", "class", "mpi", "note"}, npColumns, ppnColumns, nodesColumns, more)); err != nil {
		return nil, err
	}
	np := t.first(npColumns)
	if np == "" && !(slices.Contains(more, "mapping") && t.column("mapping") >= 0) {
		return nil, t.bad(0, "n_processes", "the column is missing", "add a column n_processes: the number of processes")
	}
	if t.column("app_time_s") < 0 {
		return nil, t.bad(0, "app_time_s", "the column is missing", "add a column app_time_s: the run time without checkpoints, in seconds")
	}
	seen := make(map[string]int)
	var out []RunTime
	for i := range t.Rows {
		r, err := t.runTime(i, np)
		if err != nil {
			return nil, err
		}
		if line, ok := seen[key(r)]; ok {
			return nil, t.bad(t.lines[i], np, fmt.Sprintf("repeats line %d: %s", line, key(r)), "give the mean of repeated runs as one row")
		}
		seen[key(r)] = t.lines[i]
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, t.bad(0, "", "has a header but no rows", "add a line for each run")
	}
	return out, nil
}

// runTime reads one row.
func (t *Table) runTime(row int, np string) (RunTime, error) {
	m := Measurement{Line: t.lines[row]}
	if np == "" {
		nodes, err := parseNodes(t.Text(row, "mapping"))
		if err != nil || slices.Min(nodes) != slices.Max(nodes) {
			return RunTime{}, t.bad(m.Line, "mapping", fmt.Sprintf("%q is not a mapping of equal nodes", t.Text(row, "mapping")), "write 2n x 8p")
		}
		m.NP, m.PPN = len(nodes)*nodes[0], nodes[0]
	} else if err := t.fillCounts(&m, row, np); err != nil {
		return RunTime{}, err
	}
	v, err := t.Number(row, "app_time_s")
	if err != nil {
		return RunTime{}, err
	}
	if math.IsNaN(v) || v <= 0 || v > 1e10 {
		return RunTime{}, t.bad(m.Line, "app_time_s", fmt.Sprintf("%q is not a time", t.Text(row, "app_time_s")), "write seconds, more than 0")
	}
	buffer := 0.
	if t.column("cb_buffer_size_MiB") >= 0 {
		if buffer, err = t.size(row, "cb_buffer_size_MiB"); err != nil {
			return RunTime{}, err
		}
	}
	return RunTime{m.NP, (m.NP + m.PPN - 1) / m.PPN, buffer, v}, nil
}
