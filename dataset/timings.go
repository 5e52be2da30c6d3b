package dataset

import (
	"ckpt/internal/lazy"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An ImageFile is the size of one image file of a job that writes through
// MPI-IO (BT-IO): León (2022), Tables 5.8, 5.9 and 5.11.
type ImageFile struct {
	Table   string
	Line    int
	App     string
	Class   string
	MPI     string
	NP      int
	Mapping []int // ranks of each node
	Rank    int
	// Aggregator tells whether the rank writes for others. Aggregators is their number
	// in the job.
	Aggregator  bool
	Aggregators int
	MiB         float64
}

// Case names the job of a file; a validation leaves out a case as a whole.
func (f ImageFile) Case() string {
	return fmt.Sprintf("%s %s.%s.%d %s %v", f.Table, f.App, f.Class, f.NP, f.MPI, f.Mapping)
}

// ImageFiles returns the files of Tables 5.8 (MPICH, AFS-2), 5.9 (MPICH, AFS-1)
// and 5.11 (Open MPI, AFS-2).
func ImageFiles() ([]ImageFile, error) {
	var out []ImageFile
	for _, src := range []struct{ name, mpi string }{{"table_5_8", "mpich"}, {"table_5_9", "mpich"}, {"table_5_11", "openmpi"}} {
		t, err := LoadTable(src.name)
		if err != nil {
			return nil, err
		}
		begin := len(out)
		for i := range t.Rows {
			f := ImageFile{Table: tableNumberOf(t.Name), Line: t.lines[i], App: "bt", Class: t.Text(i, "class"), MPI: src.mpi,
				Aggregator: t.Text(i, "aggregator_inferred") == "yes"}
			if err := t.read(i, cell{npColumns, &f.NP}, cell{[]string{"ckpt_file_MiB"}, size{&f.MiB}}); err != nil {
				return nil, err
			}
			if f.Rank, err = strconv.Atoi(strings.TrimPrefix(t.Text(i, "file"), "F")); err != nil {
				return nil, t.bad(t.lines[i], "file", "is not F and a rank", "write F0, F1, …")
			}
			mapping := t.Text(i, "mapping")
			if strings.Contains(mapping, "printed") {
				// Table 5.8, BT.C.9: 3N x 3P is printed, the sizes are of
				// two nodes of four and one of one, as in BT.B.9.
				mapping = "2N x 4P + 1N x 1P"
			}
			if f.Mapping, err = parseNodes(mapping); err != nil {
				return nil, t.bad(t.lines[i], "mapping", err.Error(), "write 6N x 4P + 1N x 1P")
			}
			out = append(out, f)
		}
		aggregators := map[string]int{}
		for _, f := range out[begin:] {
			if f.Aggregator {
				aggregators[f.Case()]++
			}
		}
		for i := begin; i < len(out); i++ {
			out[i].Aggregators = aggregators[out[i].Case()]
		}
	}
	return out, nil
}

var nodesPattern = lazy.Regexp(`^(\d+)[Nn] x (\d+)[Pp]$`)

// parseNodes reads a mapping as the thesis prints it: 6N x 4P + 1N x 1P.
func parseNodes(s string) ([]int, error) {
	var out []int
	for _, part := range strings.Split(s, " + ") {
		m := nodesPattern().FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("%q is not a mapping", s)
		}
		nodes, _ := strconv.Atoi(m[1])
		procs, _ := strconv.Atoi(m[2])
		if nodes < 1 || nodes > 1<<16 || procs < 1 || procs > maxProcs {
			return nil, fmt.Errorf("%q is not a mapping", s)
		}
		for range nodes {
			out = append(out, procs)
		}
	}
	return out, nil
}

// A Latency is the duration of one coordinated checkpoint of a whole job.
type Latency struct {
	Table string
	Line  int
	App   string
	Class string
	MPI   string
	NP    int
	Codec string // none or gzip
	// Seconds is the checkpoint latency. StoredMiB is the size written by all ranks,
	// RawMiB their memory before compression, DataMiB and SharedMiB the parts in the
	// data and shared zones.
	Seconds                               float64
	StoredMiB, RawMiB, DataMiB, SharedMiB float64
	// AppSeconds is the time of the run with this one checkpoint.
	AppSeconds float64
}

// Latencies returns Tables 5.3-5.6 of León (2022): BT.C and BT.D on one node of
// 64 cores with a local disk, with and without gzip. Raw sizes are the files of
// Table 5.1, so that the misprint of Table 5.3 (BT.D.64, 47.02 for 61.42 GiB)
// does not enter.
func Latencies() ([]Latency, error) {
	zones, err := measurementsOf("table_5_1", Measurement{}, "")
	if err != nil {
		return nil, err
	}
	var out []Latency
	for _, name := range []string{"table_5_3", "table_5_4", "table_5_5", "table_5_6"} {
		t, err := LoadTable(name)
		if err != nil {
			return nil, err
		}
		for i := range t.Rows {
			l := Latency{Table: tableNumberOf(t.Name), Line: t.lines[i], App: strings.ToLower(t.Text(i, "app")), Class: t.Text(i, "class"), MPI: MPIName(t.Text(i, "mpi"))}
			if err := t.read(i, cell{npColumns, &l.NP}); err != nil {
				return nil, err
			}
			for _, m := range zones {
				if m.App == l.App && m.Class == l.Class && m.MPI == l.MPI && m.NP == l.NP {
					n := float64(m.NP)
					l.RawMiB, l.DataMiB, l.SharedMiB = n*m.File, n*m.Data, n*m.Shared
				}
			}
			for _, codec := range []string{"none", "gzip"} {
				c, suffix := l, codec
				if codec == "none" {
					suffix = "nogzip"
				}
				c.Codec = codec
				if err := t.read(i, cell{[]string{"lcckpt_" + suffix + "_s"}, &c.Seconds},
					cell{[]string{"tapp_ft_" + suffix + "_s"}, &c.AppSeconds},
					cell{[]string{"gstored_" + suffix + "_GiB"}, size{&c.StoredMiB}}); err != nil {
					return nil, err
				}
				if codec == "none" {
					c.StoredMiB = c.RawMiB
				}
				out = append(out, c)
			}
		}
	}
	return out, nil
}

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
	// BufferMiB is the collective buffer, 0 for the default of the library. Component is
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
	return t.read(row, cell{[]string{"cb_buffer_size_MiB"}, &c.BufferMiB}, cell{[]string{"ckpt_time_s"}, &c.Seconds},
		cell{[]string{"app_time_s"}, &c.AppSeconds}, cell{[]string{"app_plus_ckpt_time_s"}, &c.TotalSeconds})
}

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

func (t *Table) runTime(row int, np string) (RunTime, error) {
	m := Measurement{Line: t.lines[row]}
	if np == "" {
		nodes, err := parseNodes(t.Text(row, "mapping"))
		if err != nil || slices.Min(nodes) != slices.Max(nodes) {
			return RunTime{}, t.bad(m.Line, "mapping", fmt.Sprintf("%q is not a mapping of equal nodes", t.Text(row, "mapping")), "write 2n x 8p")
		}
		m.NP, m.PPN = len(nodes)*nodes[0], nodes[0]
	} else if err := t.fillCounts(&m, row); err != nil {
		return RunTime{}, err
	}
	r := RunTime{NP: m.NP, Nodes: (m.NP + m.PPN - 1) / m.PPN}
	err := t.read(row, cell{[]string{"app_time_s"}, &r.Seconds}, cell{[]string{"cb_buffer_size_MiB"}, size{&r.BufferMiB}})
	if err == nil && !(r.Seconds > 0 && r.Seconds <= 1e10) {
		err = t.bad(m.Line, "app_time_s", fmt.Sprintf("%q is not a time", t.Text(row, "app_time_s")), "write seconds, more than 0")
	}
	return r, err
}
