package dataset

import (
	"errors"
	"fmt"
	"math"
)

// A CollectiveTime is the time of one checkpoint of a job that writes through MPI-IO,
// so that its nodes share the file system: León (2022), Tables 5.13 and 5.14.
type CollectiveTime struct {
	Table string
	Line  int
	App   string
	Class string
	MPI   string
	// System names the cluster, whose file system determines the times.
	System      string
	NP          int
	Mapping     []int // ranks of each node
	Aggregators int
	// BufferMiB is the collective buffer, 0 for that of the library. Component is
	// the part of Open MPI that wrote, "" under MPICH.
	BufferMiB float64
	Component string
	// Seconds is the checkpoint latency. AppSeconds is the run without the
	// checkpoint, 0 if it is not printed, TotalSeconds the run with it.
	Seconds, AppSeconds, TotalSeconds float64
}

// Name describes the job in a few words.
func (c CollectiveTime) Name() string {
	if c.Component != "" {
		return fmt.Sprintf("%s.%s.%d %v %s", c.App, c.Class, c.NP, c.Mapping, c.Component)
	}
	return fmt.Sprintf("%s.%s.%d %v %g MiB", c.App, c.Class, c.NP, c.Mapping, c.BufferMiB)
}

// CollectiveTimes returns Tables 5.13 (Open MPI, AFS-2) and 5.14 (MPICH, AFS-1) of
// León (2022): BT-IO FULL, class B, on 16 processes.
func CollectiveTimes() ([]CollectiveTime, error) {
	var out []CollectiveTime
	for _, job := range []CollectiveTime{
		{Table: "5.13", MPI: "openmpi", System: "AFS-2", Mapping: []int{4, 4, 4, 4}, Aggregators: 4},
		{Table: "5.14", MPI: "mpich", System: "AFS-1"},
	} {
		t, err := LoadTable(job.Table)
		if err != nil {
			return nil, err
		}
		for i := range t.Rows {
			c := job
			c.App, c.Class, c.NP, c.Line, c.Component = "bt", "B", 16, t.lines[i], t.Text(i, "fcoll_component")
			if err := c.read(t, i); err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// read takes the numbers of one row; a table without a column leaves 0.
func (c *CollectiveTime) read(t *Table, row int) error {
	if text := t.Text(row, "mapping"); text != "" {
		nodes, err := parseNodes(text)
		if err != nil {
			return t.bad(c.Line, "mapping", err.Error(), "write 2n x 8p")
		}
		c.Mapping, c.Aggregators = nodes, len(nodes) // as n_aggregators says
	}
	var failed error
	for column, to := range map[string]*float64{"cb_buffer_size_MiB": &c.BufferMiB, "ckpt_time_s": &c.Seconds,
		"app_time_s": &c.AppSeconds, "app_plus_ckpt_time_s": &c.TotalSeconds} {
		v, err := t.Number(row, column)
		if failed = errors.Join(failed, err); !math.IsNaN(v) {
			*to = v
		}
	}
	return failed
}
