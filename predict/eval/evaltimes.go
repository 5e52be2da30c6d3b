package eval

import (
	"fmt"
	"math"
	"strings"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// volumes are what Tables 5.3-5.6 store under gzip, each row predicted from the others.
func (ev *evaluator) volumes() error {
	rows, err := dataset.Latencies()
	if err != nil {
		return err
	}
	for i, l := range rows {
		if l.Codec != "gzip" {
			continue
		}
		ours, err := predict.VolumeWithout(rows, i)
		if err != nil {
			return err
		}
		ev.add(l.Table, fmt.Sprintf("%s.%s.%d %s gzip", l.App, l.Class, l.NP, l.MPI), "total", l.StoredMiB, 0, ours, "")
	}
	return nil
}

// collectives are the times on shared file systems, Tables 5.13 and 5.14, each row
// predicted from the others.
func (ev *evaluator) collectives() error {
	rows, err := dataset.CollectiveTimes()
	if err != nil {
		return err
	}
	for i, c := range rows {
		ours, err := predict.CollectiveWithout(ev.base, rows, i, false)
		if err != nil {
			return err
		}
		thesis, err := ev.thesisTime(c)
		if err != nil {
			return err
		}
		ev.add(c.Table, c.Name(), "time", c.Seconds, thesis, ours, "shared file system of "+c.System)
		if c.AppSeconds > 0 {
			ev.add(c.Table, c.Name()+", whole run", "time", c.TotalSeconds, c.AppSeconds+thesis, plus(c.AppSeconds, ours), "")
		}
	}
	return nil
}

// thesisTime is the latency that Eq 5.1-5.3 give, in seconds.
func (ev *evaluator) thesisTime(c dataset.CollectiveTime) (float64, error) {
	r, err := ev.base.RequestFor(c)
	if err != nil {
		return 0, err
	}
	r.Law = fit.Thesis
	t, err := ev.base.Time(r, "none", nil)
	if err != nil {
		return 0, err
	}
	return t.Latency.Total, nil
}

// plus adds a time known exactly.
func plus(seconds float64, e fit.Estimate) fit.Estimate {
	return fit.Between(seconds+e.Value, seconds+e.Low, seconds+e.High, e.Extrapolation)
}

// tracedTime is the latency of Figure 5.10, with its row of Table 5.3 left out.
func (ev *evaluator) tracedTime() error {
	t, err := openSheet("fig_5_10")
	if err != nil {
		return err
	}
	rows, err := dataset.Latencies()
	if err != nil {
		return err
	}
	for i, l := range rows {
		if l.Class != "D" || l.NP != 25 || l.MPI != "mpich" || l.Codec != "none" {
			continue
		}
		ours, err := predict.LatencyWithout(rows, i)
		if err != nil {
			return err
		}
		n := float64(l.NP)
		d, lib, s := fit.ThesisSeconds(l.DataMiB/n, fit.ThesisLibrary(l.MPI), l.SharedMiB/n)
		for j := range t.Rows {
			if t.Text(j, "quantity") == "checkpoint storage time" {
				ev.add("fig 5.10", "bt.D.25 by dmtcp", "time", t.value(j, "dmtcp"), d+lib+s, ours, "")
				ev.add("fig 5.10", "bt.D.25 by piom", "time", t.value(j, "piom"), d+lib+s, ours, "the sum over the zones")
			}
		}
	}
	return t.err
}

// A repeated value is the mean of runs, with the standard deviation of one run.
type repeated struct {
	mean, sd float64
	n        int
}

// runs are whole runs with one checkpoint, predicted from those without: Tables 5.22 and
// 5.23. They calibrate nothing. The clock is that of the system.
func (ev *evaluator) runs() error {
	for _, src := range []struct{ table, system string }{{"5.22", "platform"}, {"5.23", "instance"}} {
		t, err := openSheet(src.table)
		if err != nil {
			return err
		}
		alone := map[string]repeated{}
		for i := range t.Rows {
			if t.Text(i, "clock") != "linux time" {
				continue
			}
			nodes, pn := t.nodesOf(i, "mapping")
			where, _, _ := strings.Cut(t.Text(i, src.system), " (")
			row := fmt.Sprintf("bt.C.%d %dx%d, %s", nodes*pn, nodes, pn, where)
			run := t.tenRuns(i)
			if t.Text(i, "what") == "app" {
				alone[row] = run
				continue
			}
			app := alone[row]
			noise := tenRunsFactor * math.Sqrt((app.sd*app.sd+run.sd*run.sd)/float64(run.n))
			if err := ev.wholeRun(src.table, row, nodes, pn, app.mean, noise, run.mean); err != nil {
				return err
			}
		}
		if t.err != nil {
			return t.err
		}
	}
	return nil
}

// tenRunsFactor is Student's for means of ten runs.
const tenRunsFactor = 2.26

// tenRuns averages the columns run1_s to run10_s: the means printed have misprints.
func (s *sheet) tenRuns(row int) repeated {
	r := repeated{n: 10}
	var values []float64
	for i := range r.n {
		values = append(values, s.value(row, fmt.Sprintf("run%d_s", i+1)))
	}
	r.mean = fit.Mean(values)
	for _, v := range values {
		r.sd += (v - r.mean) * (v - r.mean) / float64(r.n-1)
	}
	r.sd = math.Sqrt(r.sd)
	return r
}

// wholeRun predicts a run of bt.C with one checkpoint, app seconds long without.
func (ev *evaluator) wholeRun(table, row string, nodes, pn int, app, noise, measured float64) error {
	a, err := ev.base.Application(fmt.Sprintf("bt.C.%d", nodes*pn), 0)
	if err != nil {
		return err
	}
	r := predict.Request{App: a, Mapping: predict.Blocks(nodes*pn, pn)}
	t, err := ev.base.Time(r, "none", nil)
	if err != nil {
		return err
	}
	r.Law = fit.Thesis
	thesis, err := ev.base.Time(r, "none", nil)
	if err != nil {
		return err
	}
	half, note := t.HighS-t.Latency.Total, "app measured alone, checkpoint predicted for the disks of AFS-1"
	if table != "5.22" {
		// Disks of the cloud are faster; how much faster is not known.
		half, note = max(half, t.Latency.Total), note+"; this machine has others"
	}
	ev.add(table, row+", whole run", "time", measured, app+thesis.Latency.Total, fit.Around(app+t.Latency.Total, math.Hypot(noise, half), t.Extrapolation), note)
	return nil
}

// increases is Table 5.24: whole runs again, as the thesis sums up Table 5.23.
func (ev *evaluator) increases() error {
	t, err := openSheet("5.24")
	if err != nil {
		return err
	}
	for i := range t.Rows {
		nodes, pn := t.nodesOf(i, "mapping")
		app := t.value(i, "app_time_s")
		measured := app * (1 + t.value(i, "app_plus_ft_minus_app_pct")/100)
		row := fmt.Sprintf("bt.C.%d %dx%d, %s", nodes*pn, nodes, pn, t.Text(i, "instance"))
		if err := ev.wholeRun("5.24", row, nodes, pn, app, 0.02*app, measured); err != nil {
			return err
		}
	}
	return t.err
}
