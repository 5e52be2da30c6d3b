package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"
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
