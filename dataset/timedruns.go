package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/zones"
)

// A phase is a part of the time of a checkpoint that a table may have: in a column of its own,
// storage_s, or as a word of the column phase beside a column time_s.
type phase string

// The phases. The latency is the sum of the first three, the pause what of it the application
// stood still; a restart is no part of a checkpoint.
const (
	coordination phase = "coordination"
	management   phase = "management"
	storage      phase = "storage"
	latency      phase = "latency"
	pause        phase = "pause"
	restart      phase = "restart"
)

var phases = []phase{coordination, management, storage, latency, pause, restart}

const (
	phaseColumn = "phase"
	timeColumn  = "time_s"
)

// columns are the names of a phase's column, the best first.
func (p phase) columns() []string {
	if p == latency {
		return []string{"latency_s", "ckpt_time_s", "lcckpt_s", "checkpoint_s"}
	}
	return []string{string(p) + "_s"}
}

// timeColumns lists the columns of times that a table of measurements may have.
func timeColumns() []string {
	known := []string{phaseColumn, timeColumn}
	for _, p := range phases {
		known = append(known, p.columns()...)
	}
	return known
}

// TimedRunsOf reads the times of a user's table, whose rows of sizes were read before: a run of
// whole images for each configuration. It returns nothing if the table has no times.
//
// A row has a time of a phase in the column of that phase, or in time_s with the phase in the
// column phase. Rows of one configuration are checkpoints of it: the n-th time of a phase is of
// the n-th checkpoint.
func TimedRunsOf(t *Table, rows []Measurement) ([]JobRun, error) {
	if len(rows) != len(t.Rows) || t.first(timeColumns()) == "" {
		return nil, nil
	}
	if (t.column(phaseColumn) >= 0) != (t.column(timeColumn) >= 0) {
		return nil, t.bad(1, t.first([]string{phaseColumn, timeColumn}), "needs the other of the columns phase and time_s",
			"write the phase of each time: "+words(phases))
	}
	times := make(map[sameRun][]phaseTimes)
	var order []Measurement
	for i := range rows {
		m := &rows[i]
		of, err := t.phaseTimes(i)
		if err != nil {
			return nil, err
		}
		if len(of) == 0 {
			continue
		}
		k := m.run()
		if times[k] == nil {
			order = append(order, *m)
		}
		times[k] = append(times[k], of)
	}
	var runs []JobRun
	for _, m := range order {
		run, err := t.timedRun(&m, times[m.run()], rows)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return wholeLatencies(runs), nil
}

// phaseTimes are times in seconds of a row, or of a checkpoint.
type phaseTimes map[phase]float64

func (t *Table) phaseTimes(row int) (phaseTimes, error) {
	of := phaseTimes{}
	read := func(p phase, columns []string) error {
		v := math.NaN()
		if err := t.read(row, cell{columns, &v}); err != nil {
			return err
		}
		if math.IsNaN(v) {
			return nil
		}
		if v < 0 || v > 1e9 || v == 0 && (p == latency || p == restart) {
			return t.bad(t.lines[row], t.first(columns), fmt.Sprintf("%g s is not a time of a %s", v, p), "write seconds; leave the cell empty where nothing was measured")
		}
		of[p] = v
		return nil
	}
	for _, p := range phases {
		filled := slices.DeleteFunc(p.columns(), func(c string) bool { return t.Text(row, c) == "" })
		if len(filled) > 1 {
			return nil, t.bad(t.lines[row], filled[1], "is filled in beside "+filled[0], "give one of them")
		}
		if err := read(p, p.columns()); err != nil {
			return nil, err
		}
	}
	if name := strings.ToLower(t.Text(row, phaseColumn)); name != "" {
		p := phase(name)
		if name == "total" || name == "checkpoint" {
			p = latency
		}
		if !slices.Contains(phases, p) {
			return nil, t.bad(t.lines[row], phaseColumn, fmt.Sprintf("%q is unknown", name), "write one of "+words(phases))
		}
		if err := read(p, []string{timeColumn}); err != nil {
			return nil, err
		}
	} else if t.Text(row, timeColumn) != "" {
		return nil, t.bad(t.lines[row], phaseColumn, "is empty beside a time", "write one of "+words(phases))
	}
	return of, nil
}

// timedRun makes a run of the times of a configuration, which rows give the size of.
func (t *Table) timedRun(m *Measurement, list []phaseTimes, rows []Measurement) (JobRun, error) {
	mib := 0.0
	for i := range rows {
		if rows[i].run() != m.run() || imageOf(&rows[i]) == 0 {
			continue
		}
		switch other := imageOf(&rows[i]); {
		case mib == 0:
			mib = other
		case math.Abs(other-mib) > 0.1*mib:
			return JobRun{}, t.bad(rows[i].Line, "ckpt_file_MiB", fmt.Sprintf("%g MiB beside %g MiB of the same configuration: whose time is it?", other, mib),
				"give rows of other sizes another class")
		}
	}
	if mib == 0 {
		return JobRun{}, t.bad(m.Line, "ckpt_file_MiB", "is needed beside a time: the size of what was written", "add the size of an image, or of its zones")
	}
	run := JobRun{Job: fmt.Sprintf("%s:%d", t.Name, m.Line), App: m.App, Class: m.Class, Engine: DMTCP, MPI: m.MPI, NP: m.NP,
		Mapping: blocksOf(m.NP, m.PPN), Mode: "coordinated", Codec: m.Codec, Storage: t.Name}
	for i, of := range merged(list) {
		bytes := int64(mib * float64(m.NP) * (1 << 20))
		if s, ok := of[restart]; ok {
			run.Restarts = append(run.Restarts, JobRestart{Groups: 1, Ranks: m.NP, TotalS: s, ReadS: s, ReadBytes: bytes})
			delete(of, restart)
		}
		if len(of) == 0 {
			continue
		}
		c := JobCheckpoint{Number: i + 1, Ranks: m.NP, Full: true, StoredBytes: bytes, Files: m.NP}
		if err := c.take(of); err != "" {
			return run, t.bad(m.Line, t.first(timeColumns()), err, "write the latency, or the phases that add up to it")
		}
		run.Checkpoints = append(run.Checkpoints, c)
	}
	return run, nil
}

// take fills in the parts of a latency, or says why it cannot.
func (c *JobCheckpoint) take(of phaseTimes) (problem string) {
	sum := of[coordination] + of[management] + of[storage]
	whole, known := of[latency]
	if _, ok := of[storage]; !ok && !known {
		return "has no storage and no latency"
	}
	if known && whole < sum*0.99 {
		return fmt.Sprintf("has a latency of %g s and phases of %g s", whole, sum)
	}
	c.CoordinationS, c.ManagementS, c.StorageS = of[coordination], of[management], of[storage]
	if known {
		c.StorageS += max(0, whole-sum)
	}
	c.PauseS = c.LatencyS()
	if p, ok := of[pause]; ok {
		c.PauseS = p
	}
	return ""
}

// merged puts the n-th times of all phases together.
func merged(list []phaseTimes) (out []phaseTimes) {
	count := make(map[phase]int)
	for _, of := range list {
		for p, v := range of {
			n := count[p]
			count[p]++
			for len(out) <= n {
				out = append(out, phaseTimes{})
			}
			out[n][p] = v
		}
	}
	return out
}

// wholeLatencies leaves all of the latencies to storage, if some rows have no other phases.
func wholeLatencies(runs []JobRun) []JobRun {
	parts := func(c *JobCheckpoint) bool { return c.CoordinationS+c.ManagementS > 0 }
	whole := false
	for i := range runs {
		for k := range runs[i].Checkpoints {
			whole = whole || !parts(&runs[i].Checkpoints[k])
		}
	}
	for i := range runs {
		for k := range runs[i].Checkpoints {
			if c := &runs[i].Checkpoints[k]; whole {
				c.StorageS, c.CoordinationS, c.ManagementS = c.LatencyS(), 0, 0
			}
		}
	}
	return runs
}

// imageOf is what a rank wrote, in MiB, 0 if the row does not tell.
func imageOf(m *Measurement) float64 {
	switch {
	case m.Stored > 0:
		return m.Stored
	case m.File > 0:
		return m.File
	}
	return m.Data + m.Library + m.Shared
}

// blocksOf fills nodes with ppn processes each, the last with the rest.
func blocksOf(np, ppn int) (mapping []int) {
	for ; np > 0; np -= ppn {
		mapping = append(mapping, min(ppn, np))
	}
	return mapping
}

func words(list []phase) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

// An Engine is the checkpointer whose files are measured or predicted.
type Engine string

// The engines. DMTCP writes an image of each process with everything in it. Ckpt stores
// the library once for a job and the segment once for a node, and leaves out zeros and
// what has not changed.
const (
	DMTCP Engine = "dmtcp"
	Ckpt  Engine = "ckpt"
)

// A JobRun is what one job has measured: how it ran, and what its checkpoints stored and
// cost. Sizes are in bytes, times in seconds, of all ranks together.
type JobRun struct {
	Job    string `json:"job"`
	App    string `json:"app"` // as in workload names: bt
	Class  string `json:"class"`
	Engine Engine `json:"engine"`
	MPI    string `json:"mpi"` // mpich or openmpi
	NP     int    `json:"np"`
	// Mapping is the number of ranks of each node, in blocks.
	Mapping     []int  `json:"mapping"`
	Mode        string `json:"mode"`
	Log         string `json:"log,omitempty"` // of messages between groups
	GroupSize   int    `json:"group_size,omitempty"`
	Codec       string `json:"codec"`
	Layout      string `json:"layout"`
	Aggregators int    `json:"aggregators,omitempty"` // 0: the usual number
	Incremental bool   `json:"incremental"`
	Async       bool   `json:"async,omitempty"`
	// Saved says that checkpoints hold only the arrays that have to be saved.
	Saved bool `json:"saved,omitempty"`
	// Workload is the workload spec that the job ran, as YAML; empty if unknown.
	Workload string `json:"workload,omitempty"`
	// Program says that it was a program of a user: no library is stored, and what it
	// computes is unknown.
	Program bool `json:"program,omitempty"`
	// Storage is the directory of the store.
	Storage string `json:"storage"`

	Checkpoints []JobCheckpoint `json:"checkpoints"` // oldest first
	// Logs is what the ranks logged of messages between groups, nil without groups.
	Logs *JobLogs `json:"logs,omitempty"`
	// Restarts of all runs of the job, oldest first.
	Restarts []JobRestart `json:"restarts,omitempty"`
}

// JobLogs is what the message logs of all ranks cost, added up over all runs of a job as
// far as its journal knows.
type JobLogs struct {
	// Iterations is for how many iterations of the whole job, on average of the ranks.
	Iterations float64 `json:"iterations"`
	Bytes      int64   `json:"bytes"`   // of frames, heads and padding included
	Commits    int64   `json:"commits"` // to the disk, each with all frames that waited
	Seconds    float64 `json:"seconds"` // that the ranks waited for them, together
}

// A JobRestart is what a restart of a job, or of some of its groups, cost.
type JobRestart struct {
	// Failed says that ranks had died; else a user restarted the job.
	Failed bool `json:"failed"`
	// Groups and Ranks were restarted. A coordinated job has one group.
	Groups int `json:"groups"`
	Ranks  int `json:"ranks"`
	// TotalS is the time from the failure, or from the start of the run, until all ranks
	// compute. ReadS of it was reading and unpacking images, in the slowest rank, and
	// LogS reading message logs.
	TotalS float64 `json:"total_s"`
	ReadS  float64 `json:"read_s"`
	LogS   float64 `json:"log_s,omitempty"`
	// ReadBytes are read from images by all ranks, unpacked, LogBytes from logs.
	ReadBytes int64 `json:"read_bytes"`
	LogBytes  int64 `json:"log_bytes,omitempty"`
	// LostIterations is how many iterations each of them repeats, on average. LostS is
	// the time that these took at first and ReplayS the time of repeating them; ReplayS is
	// nil if the ranks never came as far again.
	LostIterations float64  `json:"lost_iterations"`
	LostS          float64  `json:"lost_s,omitempty"`
	ReplayS        *float64 `json:"replay_s,omitempty"`
}

// A JobCheckpoint is what one checkpoint stored and cost. In a job of several groups it
// is of the ranks of one group.
type JobCheckpoint struct {
	Number int `json:"number"`
	Group  int `json:"group,omitempty"`
	Ranks  int `json:"ranks"`
	// Iterations is how many the ranks computed since their checkpoint before, or since
	// the beginning.
	Iterations int `json:"iterations"`
	// Full says that nothing of it is in the files of earlier checkpoints, but for the
	// library.
	Full bool `json:"full"`
	// Memory is what the ranks occupied, with the segment once for each node and the
	// library once. Images of DMTCP have both once for each rank.
	Memory zones.Sizes `json:"memory"`
	// Unpacked is what of it was stored, Stored the bytes that this took in files. The
	// library counts where it was stored, in the first checkpoint of a job. Regions have
	// the same by region of the memory.
	Unpacked zones.Sizes `json:"unpacked"`
	Stored   zones.Sizes `json:"stored"`
	Regions  []JobRegion `json:"regions,omitempty"`
	// Overhead is the headers and indexes of the files. StoredBytes is what the
	// checkpoint added to the store, without the library.
	Overhead    int64 `json:"overhead"`
	StoredBytes int64 `json:"stored_bytes"`
	Files       int   `json:"files"` // that it added, without the library and the manifest

	CoordinationS float64 `json:"coordination_s"`
	ManagementS   float64 `json:"management_s"`
	StorageS      float64 `json:"storage_s"`
	PauseS        float64 `json:"pause_s"`
	// LogBytes and LogMessages are what the ranks logged since the checkpoint before.
	LogBytes    int64 `json:"log_bytes,omitempty"`
	LogMessages int64 `json:"log_messages,omitempty"`
}

// LatencyS is the time of the checkpoint.
func (c *JobCheckpoint) LatencyS() float64 { return c.CoordinationS + c.ManagementS + c.StorageS }

// A JobRegion is a region of the memory, such as an array, of all ranks together.
type JobRegion struct {
	Name string     `json:"name"`
	Zone zones.Zone `json:"zone"`
	// Memory is what it occupied, Zeros what of it were zeros; Unpacked was stored in
	// this checkpoint and took Stored bytes. The rest was stored before.
	Memory   int64 `json:"memory"`
	Zeros    int64 `json:"zeros"`
	Unpacked int64 `json:"unpacked"`
	Stored   int64 `json:"stored"`
}
