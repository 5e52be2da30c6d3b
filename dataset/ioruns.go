package dataset

import (
	"fmt"
	"regexp"
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
			if f.NP, err = t.count(i, "n_processes", true); err != nil {
				return nil, err
			}
			if f.MiB, err = t.size(i, "ckpt_file_MiB"); err != nil {
				return nil, err
			}
			if f.Rank, err = strconv.Atoi(strings.TrimPrefix(t.Text(i, "file"), "F")); err != nil {
				return nil, t.bad(t.lines[i], "file", "is not F and a rank", "write F0, F1, …")
			}
			mapping := t.Text(i, "mapping")
			if strings.Contains(mapping, "printed") {
				// Table 5.8, BT.C.9: 3N x 3P is printed, the sizes are those of
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

var nodesPattern = regexp.MustCompile(`^(\d+)[Nn] x (\d+)[Pp]$`)

// parseNodes reads a mapping as the thesis prints it: 6N x 4P + 1N x 1P.
func parseNodes(s string) ([]int, error) {
	var out []int
	for _, part := range strings.Split(s, " + ") {
		m := nodesPattern.FindStringSubmatch(part)
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
			if l.NP, err = t.count(i, "n_processes", true); err != nil {
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
				for column, to := range map[string]*float64{"lcckpt_" + suffix + "_s": &c.Seconds, "tapp_ft_" + suffix + "_s": &c.AppSeconds, "gstored_" + suffix + "_GiB": &c.StoredMiB} {
					if *to, err = t.Number(i, column); err != nil {
						return nil, err
					}
				}
				c.StoredMiB *= 1024
				if codec == "none" {
					c.StoredMiB = c.RawMiB
				}
				out = append(out, c)
			}
		}
	}
	return out, nil
}
