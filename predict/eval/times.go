package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// example is a worked example for the number of checkpoints.
func (ev *evaluator) example(t *sheet) {
	e := exampleOf(t)
	row := fmt.Sprintf("%s.%s.%d, %d nodes", e.app, e.class, e.np, e.nodes)
	z := ev.heldOut(e.app, e.class, "mpich", e.np, e.pn)
	note := ""
	if e.np == 16 {
		note = "the same process count calibrated the data zone, as 1626.72 MiB in Table 4.1"
	}
	ev.add(t.label, row, "data", e.measured.Data, e.estimated.Data, z.data, note)
	ev.add(t.label, row, "library", e.measured.Library, e.estimated.Library, z.library, "")
	ev.add(t.label, row, "shared", e.measured.Shared, e.estimated.Shared, z.shared, "")
	ev.add(t.label, row, "file", e.measured.total(), e.estimated.total(), z.file(), "measured: sum of the zones")
	r := predict.Request{App: predict.App{Name: e.app, Class: e.class, NP: e.np}, Mapping: slices.Repeat([]int{e.pn}, e.nodes), MPI: "mpich", IO: predict.NoIO}
	size, err := ev.base.Assemble(r, fit.Zone{Estimate: z.data})
	if ev.note(err); err != nil {
		return
	}
	p, err := ev.base.TimeOf(size, predict.Request{}, "none", nil)
	if ev.note(err); err != nil {
		return
	}
	ev.add(t.label, row+", one checkpoint", "time", e.measCheckpoint, e.estCheckpoint, fit.Between(p.Latency.Total, p.LowS, p.HighS, 0),
		"measured: sum of the times of the zones")
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	b := interval.Budget{Overhead: e.overhead, App: seconds(e.appTime), Checkpoint: seconds(e.estCheckpoint)}
	s, err := b.Schedule()
	ev.note(err)
	exact := func(v float64) fit.Estimate { return fit.Between(v, v, v, 0) }
	const from = "from the checkpoint time of the thesis"
	ev.add(t.label, row, "count", float64(e.count), float64(e.count), exact(float64(s.Count)), from)
	ev.add(t.label, row+", interval", "time", 0, e.interval, exact(s.Interval.Seconds()), from)
	ev.add(t.label, row+", whole run", "time", e.measTotal, e.estTotal, exact(s.Total.Seconds()), from)
}

// latency are Tables 5.3-5.6, each row predicted from the others.
func (ev *evaluator) latency(*sheet) {
	for i, l := range ev.latencies {
		ours, err := predict.LatencyWithout(ev.latencies, i)
		ev.note(err)
		thesis := 0.
		if l.Codec == "none" {
			thesis = thesisLatency(l)
		}
		ev.add(l.Table, fmt.Sprintf("%s.%s.%d %s %s", l.App, l.Class, l.NP, l.MPI, l.Codec), "time", l.Seconds, thesis, ours, "")
	}
}

// thesisLatency computes Eq 5.1-5.3.
func thesisLatency(l dataset.Latency) float64 {
	n := float64(l.NP)
	data, library, shared := fit.ThesisSeconds(l.DataMiB/n, fit.ThesisLibrary(l.MPI), l.SharedMiB/n)
	return data + library + shared
}

// volumes are what they store under gzip.
func (ev *evaluator) volumes(*sheet) {
	for i, l := range ev.latencies {
		if l.Codec == "gzip" {
			ours, err := predict.VolumeWithout(ev.latencies, i)
			ev.note(err)
			ev.add(l.Table, fmt.Sprintf("%s.%s.%d %s gzip", l.App, l.Class, l.NP, l.MPI), "total", l.StoredMiB, 0, ours, "")
		}
	}
}

// collectives are the times on shared file systems, Tables 5.13 and 5.14, each row
// predicted from the others.
func (ev *evaluator) collectives(*sheet) {
	for i, c := range ev.times {
		ours, err := predict.CollectiveWithout(ev.base, ev.times, i, false)
		ev.note(err)
		r, err := ev.base.RequestFor(c)
		ev.note(err)
		r.Law = fit.Thesis
		thesis := ev.time(r).Latency.Total
		ev.add(c.Table, c.Name(), "time", c.Seconds, thesis, ours, "shared file system of "+c.System)
		if a := c.AppSeconds; a > 0 {
			ev.add(c.Table, c.Name()+", whole run", "time", c.TotalSeconds, a+thesis, fit.Between(a+ours.Value, a+ours.Low, a+ours.High, ours.Extrapolation), "")
		}
	}
}

// tracedTimes is a latency with its row of Table 5.3 left out.
func (ev *evaluator) tracedTimes(t *sheet) {
	for i, l := range ev.latencies {
		if l.Class != "D" || l.NP != 25 || l.MPI != "mpich" || l.Codec != "none" {
			continue
		}
		ours, err := predict.LatencyWithout(ev.latencies, i)
		ev.note(err)
		for j := range t.Rows {
			if t.Text(j, "quantity") == "checkpoint storage time" {
				ev.add(t.label, "bt.D.25 by dmtcp", "time", t.value(j, "dmtcp"), thesisLatency(l), ours, "")
				ev.add(t.label, "bt.D.25 by piom", "time", t.value(j, "piom"), thesisLatency(l), ours, "the sum over the zones")
			}
		}
	}
}

// A repeated value is the mean of ten runs, with the standard deviation of one.
type repeated struct{ mean, sd float64 }

// tenRunsFactor is Student's for means of ten runs.
const tenRunsFactor = 2.26

// tenRuns averages the columns run1_s to run10_s: the means printed have misprints.
func (s *sheet) tenRuns(row int) (r repeated) {
	var values []float64
	for i := range 10 {
		values = append(values, s.value(row, fmt.Sprintf("run%d_s", i+1)))
	}
	r.mean = fit.Mean(values)
	for _, v := range values {
		r.sd += (v - r.mean) * (v - r.mean) / 9
	}
	r.sd = math.Sqrt(r.sd)
	return r
}

// runs are whole runs with one checkpoint, predicted from those without. The clock is that of
// the system.
func (ev *evaluator) runs(t *sheet) {
	system := map[string]string{"5.22": "platform", "5.23": "instance"}[t.label]
	alone := map[string]repeated{}
	for i := range t.Rows {
		if t.Text(i, "clock") != "linux time" {
			continue
		}
		nodes, pn := t.nodesOf(i, "mapping")
		where, _, _ := strings.Cut(t.Text(i, system), " (")
		row := fmt.Sprintf("bt.C.%d %dx%d, %s", nodes*pn, nodes, pn, where)
		run := t.tenRuns(i)
		if t.Text(i, "what") == "app" {
			alone[row] = run
			continue
		}
		app := alone[row]
		noise := tenRunsFactor * math.Sqrt((app.sd*app.sd+run.sd*run.sd)/10)
		ev.wholeRun(t.label, row, nodes, pn, app.mean, noise, run.mean)
	}
}

// wholeRun predicts a run of bt.C with one checkpoint, app seconds long without.
func (ev *evaluator) wholeRun(table, row string, nodes, pn int, app, noise, measured float64) {
	r := predict.Request{App: ev.app(fmt.Sprintf("bt.C.%d", nodes*pn)), Mapping: predict.Blocks(nodes*pn, pn)}
	t := ev.time(r)
	r.Law = fit.Thesis
	thesis := ev.time(r)
	half, note := t.HighS-t.Latency.Total, "app measured alone, checkpoint predicted for the disks of AFS-1"
	if table != "5.22" {
		// Disks of the cloud are faster; how much faster is not known.
		half, note = max(half, t.Latency.Total), note+"; this machine has others"
	}
	ev.add(table, row+", whole run", "time", measured, app+thesis.Latency.Total, fit.Around(app+t.Latency.Total, math.Hypot(noise, half), t.Extrapolation), note)
}

// increases are whole runs again, as the thesis sums up Table 5.23.
func (ev *evaluator) increases(t *sheet) {
	for i := range t.Rows {
		nodes, pn := t.nodesOf(i, "mapping")
		app := t.value(i, "app_time_s")
		measured := app * (1 + t.value(i, "app_plus_ft_minus_app_pct")/100)
		row := fmt.Sprintf("bt.C.%d %dx%d, %s", nodes*pn, nodes, pn, t.Text(i, "instance"))
		ev.wholeRun(t.label, row, nodes, pn, app, 0.02*app, measured)
	}
}
