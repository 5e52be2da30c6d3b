package benchmarks

import (
	"fmt"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/predict/service"
)

// predict fills in the predictions of all modes.
func (b *benchModes) predict(base *job.Spec) error {
	inst, err := dataset.ParseApp(base.App, 0)
	if err != nil {
		return err
	}
	for i := range b.Modes {
		r := &b.Modes[i]
		groups, err := service.Groups(service.Mode(r.Mode), base.Mapping, base.GroupSize)
		if err != nil {
			return err
		}
		traffic := service.CountTraffic(inst, groups)
		r.PredictedLog = int64(float64(b.Iterations) * traffic.Logged(service.Log(r.Log)).Bytes)
		r.PredictedRestart = b.restartFromOthers(i)
	}
	return nil
}

// restartFromOthers predicts a restart of a mode from the restarts of all others: a time for any
// restart, a time for each rank, and the rate of reading. Ranks that restarted from the
// beginning read nothing, but compute their first state: they are left out.
func (b *benchModes) restartFromOthers(i int) *float64 {
	var known []dataset.JobRestart
	sizes := map[int]bool{}
	for k := range b.Modes {
		for _, r := range b.Modes[k].restarts {
			if k != i && r.ReadBytes > 0 {
				known = append(known, r)
				sizes[r.Ranks] = true
			}
		}
	}
	own := b.Modes[i].restarts
	if len(sizes) < 2 || len(own) == 0 {
		return nil
	}
	var m service.Machine
	m.FitRestarts(known)
	var measured, predicted []float64
	for _, r := range own {
		if r.ReadBytes == 0 {
			return nil
		}
		measured = append(measured, r.TotalS)
		predicted = append(predicted, m.Restart(r.Ranks, float64(r.ReadBytes)/(1<<20)).Value)
	}
	p := service.Median(predicted)
	b.Modes[i].MedianRestart = service.Median(measured)
	return &p
}

// printModes prints two tables of the same rows: the cost of the checkpoints, and
// the cost of the failures.
func printModes(g *ui.Globals, b *benchModes, o *benchModesOptions) error {
	if g.JSON {
		return g.PrintJSON(b)
	}
	injected := "no failures"
	if len(b.Failures) > 0 {
		injected = "failures: " + strings.Join(b.Failures, ", ")
	}
	g.Printf("%s on nodes %s, %s, a checkpoint every %d\n%s\nwithout checkpoints and failures: %s; the same digest in all %s\n\n",
		b.App, b.Mapping, ui.Count(b.Iterations, "iteration"), b.Every, injected, ui.Seconds(b.Base), ui.Count(o.runs*(len(b.Modes)+1), "run"))
	var costs, failures, predicted [][]string
	for _, r := range b.Modes {
		costs = append(costs, []string{shortName(&r), fmt.Sprint(r.Checkpoints), ui.Seconds(r.Latency), ui.Seconds(r.Pause),
			ui.MiB(r.Stored), ui.MiB(r.LogBytes), fmt.Sprint(r.LogFsyncs)})
		failures = append(failures, []string{shortName(&r), fmt.Sprint(r.Failures), fmt.Sprint(r.Restarted), fmt.Sprint(r.WorkLost),
			ui.Seconds(r.Restart), ui.Seconds(r.Total), fmt.Sprintf("%.1f %%", 100*r.Overhead)})
		if row := comparison(&r); row != nil {
			predicted = append(predicted, row)
		}
	}
	g.Table([]string{"mode, log", "|ckpts", "|latency", "|pause", "|stored MiB", "|log MiB", "|fsyncs"}, costs)
	g.Printf("\n")
	g.Table([]string{"mode, log", "|failures", "|restarted", "|work lost", "|restart", "|total", "|overhead"}, failures)
	if len(predicted) > 0 {
		g.Printf("\n")
		g.Table([]string{"mode, log", "|log MiB", "|predicted", "|error", "|a restart", "|predicted", "|error"}, predicted)
	}
	if !o.failOne || o.mtbf != "" || b.Modes[0].Restart == 0 {
		return nil
	}
	g.Printf("\nrestart, as a share of the coordinated one of all %s:\n", ui.Count(b.NP, "rank"))
	for _, r := range b.Modes[1:] {
		g.Printf("  %-24s %.2f\n", shortName(&r), r.Faster)
	}
	return nil
}

// comparison puts predictions beside what was measured; nil without predictions.
func comparison(r *benchRow) []string {
	if r.LogBytes == 0 && r.PredictedRestart == nil {
		return nil
	}
	row := []string{shortName(r), "", "", "", "", "", ""}
	if r.LogBytes > 0 {
		copy(row[1:], []string{ui.MiB(r.LogBytes), ui.MiB(r.PredictedLog), off(float64(r.PredictedLog), float64(r.LogBytes))})
	}
	if p := r.PredictedRestart; p != nil {
		copy(row[4:], []string{ui.Seconds(r.MedianRestart), ui.Seconds(*p), off(*p, r.MedianRestart)})
	}
	return row
}

// off is the relative error of a prediction.
func off(predicted, measured float64) string {
	percent := 100 * (predicted/measured - 1)
	if percent >= 100 { // three digits leave space for the others in 80 columns
		return fmt.Sprintf("%+.0f %%", percent)
	}
	return fmt.Sprintf("%+.1f %%", percent)
}

// shortName leaves space for the numbers in 80 columns.
func shortName(r *benchRow) string {
	return strings.NewReplacer("uncoordinated", "uncoord.", "pessimistic-", "").Replace(r.name())
}
