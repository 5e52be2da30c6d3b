package benchmarks

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/plan"
	"ckpt/predict/service"
)

// A sizeBeside is a predicted size beside the measured one.
type sizeBeside struct {
	Measured int64 `json:"measured_bytes"`
	predict.BytesBeside
}

// predict fills in the predictions of all modes, each from a model of the others.
func (b *benchModes) predict(base *job.Spec) error {
	for i := range b.Modes {
		if err := b.predictMode(i, base); err != nil {
			return err
		}
	}
	b.sum()
	return nil
}

func (b *benchModes) predictMode(i int, base *job.Spec) error {
	r := &b.Modes[i]
	m, err := b.modelWithout(i)
	if err != nil {
		return err
	}
	o, err := b.option(m, r, base)
	if err != nil {
		return err
	}
	logged := float64(b.Iterations) * o.Iteration
	if r.PredictedLog = int64(logged); r.LogBytes >= leastLog && logged > 0 {
		r.Logged = &sizeBeside{r.LogBytes, predict.BesideBytes(float64(r.LogBytes), r.logRange(logged, b))}
	}
	if m.Service != nil {
		if r.Added, err = b.added(i, m, o, base); err != nil {
			return err
		}
	}
	b.restart(i, m.Modes)
	return nil
}

// leastLog is the least log that is compared: of less, frames and pages are most.
const leastLog = 10 << 10

// modelWithout fits a model to the runs of all modes but one, as ckpt predict fit does to jobs.
func (b *benchModes) modelWithout(i int) (*predict.Model, error) {
	builtIn, err := predict.BuiltIn()
	if err != nil {
		return nil, err
	}
	m := *builtIn
	var runs []dataset.JobRun
	var restarts []dataset.JobRestart
	for k := range b.Modes {
		if k == i {
			continue
		}
		for _, x := range b.Modes[k].measured {
			if len(x.job.Checkpoints) > 0 {
				x.job.Restarts = nil
				runs = append(runs, x.job)
			}
		}
		restarts = append(restarts, b.Modes[k].restartsOfImages()...)
	}
	if err := m.AddRuns(runs); err != nil {
		return nil, err
	}
	if m.Modes = service.FitMachine(runs); m.Modes == nil {
		m.Modes = &service.Machine{}
	}
	m.Modes.LogBytes = nil // another log is no measurement of this one
	m.Modes.FitRestarts(restarts)
	return &m, nil
}

// restartsOfImages leaves out ranks that restarted from the beginning: they read nothing, but
// compute their first state.
func (r *benchRow) restartsOfImages() []dataset.JobRestart {
	return slices.DeleteFunc(slices.Clone(r.restarts), func(r dataset.JobRestart) bool { return r.ReadBytes == 0 })
}

// option is what ckpt predict plan --mtbf says of a mode at the interval of the comparison.
func (b *benchModes) option(m *predict.Model, r *benchRow, base *job.Spec) (*plan.Option, error) {
	app, err := m.Application(base.App, 0)
	if err != nil {
		return nil, err
	}
	p := plan.Planning{App: app, MPI: []string{dataset.MPIName(base.MPI)}, IO: predict.NoIO, Mapping: base.Mapping, Codecs: []string{""},
		Modes: []service.Mode{service.Mode(r.Mode)}, GroupSize: base.GroupSize, MTBFS: 1e9}
	p.Engine = dataset.Ckpt
	if r.Log != "" {
		p.Logs = []service.Log{service.Log(r.Log)}
	}
	iteration := b.Base / float64(b.Iterations)
	p.AppSeconds, p.IntervalS = iteration*float64(app.Instance().Iterations), iteration*float64(b.Every)
	options, err := plan.Compare(m, p)
	if err != nil {
		return nil, err
	}
	return &options[0], nil
}

// added compares what a round of checkpoints of all groups adds to the run: the difference of two
// runs, less what failures cost, and so as uncertain as their times.
func (b *benchModes) added(i int, m *predict.Model, o *plan.Option, base *job.Spec) (*predict.SecondsBeside, error) {
	measured := b.Modes[i].added()
	if len(measured) == 0 {
		return nil, nil
	}
	costs := roundCost(o)
	if o.GroupCount > 1 {
		share, err := b.lostShare(i, m, base)
		if err != nil {
			return nil, err
		}
		if share != nil {
			costs = costs.Times(*share)
		}
	}
	var rounds []float64
	for _, x := range b.Modes[i].measured {
		if x.rounds > 0 {
			rounds = append(rounds, x.rounds)
		}
	}
	noise := 2 * b.noise() * math.Sqrt(2/float64(len(measured))) / medianOf(rounds)
	beside := predict.BesideSeconds(max(fastestRound, medianOf(measured)),
		fit.Range{Value: max(fastestRound, costs.Value), Low: max(fastestRound, costs.Low-noise), High: costs.High + noise})
	return &beside, nil
}

// roundCost is what plan says that a round costs: the checkpoints of all groups, with the
// messages that senders keep, and the log of an interval. Where ranks share processors, others compute while one waits for its log: half of the
// waits hide.
func roundCost(o *plan.Option) fit.Range {
	logs := fit.Range{Value: o.LogS, Low: o.LogLowS, High: o.LogHighS}
	if o.GroupCount*o.GroupRanks > runtime.NumCPU() {
		logs = fit.Range{Value: logs.Value / 2, High: logs.High}
	}
	return o.ModeCosts.Round(o.IntervalS).Plus(logs)
}

// added is what a round added to each run.
func (r *benchRow) added() (list []float64) {
	for _, x := range r.measured {
		if x.rounds > 0 {
			list = append(list, (x.total-x.base-x.failures)/x.rounds)
		}
	}
	return list
}

// fastestRound is what a round adds at least, in seconds: a difference of two runs may be less.
const fastestRound = 1e-3

// lostShare is how much of the cost of the groups a job loses, of what other logs show in the same
// mode, or else other modes: while a group stores the others compute, until they wait for its
// messages. Nil if none tells.
func (b *benchModes) lostShare(i int, m *predict.Model, base *job.Spec) (*fit.Range, error) {
	var same, all []float64
	for k := range b.Modes {
		r := &b.Modes[k]
		if k == i || r.Mode == job.Coordinated {
			continue
		}
		o, err := b.option(m, r, base)
		if err != nil {
			return nil, err
		}
		for _, s := range r.added() {
			share := max(leastShare, s/roundCost(o).Value)
			if all = append(all, share); r.Mode == b.Modes[i].Mode {
				same = append(same, share)
			}
		}
	}
	if len(same) == 0 {
		same = all
	}
	if len(same) == 0 {
		return nil, nil
	}
	v := medianOf(same)
	return &fit.Range{Value: v, Low: min(v/shareDoubt, slices.Min(same)), High: max(v*shareDoubt, slices.Max(same))}, nil
}

// The least share of pauses that a job loses, and how far the share differs between modes.
const (
	leastShare = 0.05
	shareDoubt = 1.5
)

// noise returns the standard deviation of run times, as the runs without checkpoints show it.
// Equal runs differ by 3 % even on a quiet machine, so it returns at least that; fewer than
// three runs say too little, and count as 8 %.
func (b *benchModes) noise() float64 {
	least := 0.03 * b.Base
	if len(b.bases) < 3 {
		return max(least, 0.08*b.Base)
	}
	squares := 0.0
	for _, v := range b.bases {
		squares += (v - b.Base) * (v - b.Base) / float64(len(b.bases)-1)
	}
	return max(least, math.Sqrt(squares))
}

// logRange returns an interval around predicted bytes of the log. It reaches below them: an
// optimistic log may miss its last messages, and a rank that dies loses the messages that it
// logged since its last checkpoint.
func (r *benchRow) logRange(bytes float64, b *benchModes) fit.Range {
	least := 0.97
	if service.Log(r.Log) == service.Optimistic {
		least = 0.92
	}
	lost := min(0.9, float64(r.WorkLost)/float64(b.NP*b.Iterations))
	return fit.Range{Value: bytes, Low: bytes * (least - lost), High: bytes * (1.03 + lost)}
}

// restart compares the measured restarts of mode i with those predicted from the other modes.
// It leaves them uncompared if no other mode restarted.
func (b *benchModes) restart(i int, m *service.Machine) {
	r := &b.Modes[i]
	own := r.restartsOfImages()
	if len(own) == 0 || len(own) < len(r.restarts) || m.RestartTimes == nil {
		return
	}
	var measured, predicted, low, high []float64
	for _, x := range own {
		t := m.Restart(x.Ranks, float64(x.ReadBytes)/(1<<20)).Total
		measured, predicted = append(measured, x.TotalS), append(predicted, t.Value)
		low, high = append(low, t.Low), append(high, t.High)
	}
	p := service.Median(predicted)
	r.MedianRestart, r.PredictedRestart = service.Median(measured), &p
	beside := predict.BesideSeconds(r.MedianRestart, fit.Range{Value: p, Low: service.Median(low), High: service.Median(high)})
	r.Restarts = &beside
}

// sum counts what lies in its interval.
func (b *benchModes) sum() {
	var added, logged, restarted, widths []float64
	inside := 0.0
	count := func(list *[]float64, difference, width float64, in bool) {
		*list, widths = append(*list, math.Abs(difference)), append(widths, width)
		if in {
			inside++
		}
	}
	for i := range b.Modes {
		r := &b.Modes[i]
		if a := r.Added; a != nil {
			count(&added, a.Error, (a.High-a.Low)/2/a.Measured, a.Inside)
		}
		if l := r.Logged; l != nil {
			count(&logged, l.Error, float64(l.High-l.Low)/2/float64(l.Measured), l.Inside)
		}
		if s := r.Restarts; s != nil {
			count(&restarted, s.Error, (s.High-s.Low)/2/s.Measured, s.Inside)
		}
	}
	middle := func(list []float64) *float64 {
		if len(list) == 0 {
			return nil
		}
		v := medianOf(list)
		return &v
	}
	b.Added, b.Logged, b.Restart = middle(added), middle(logged), middle(restarted)
	if len(widths) > 0 {
		share := inside / float64(len(widths))
		b.Inside, b.Width = &share, middle(widths)
	}
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
	var costs, failures [][]string
	for _, r := range b.Modes {
		costs = append(costs, []string{shortName(&r), fmt.Sprint(r.Checkpoints), ui.Seconds(r.Latency), ui.Seconds(r.Pause),
			ui.MiB(r.Stored), ui.MiB(r.LogBytes), fmt.Sprint(r.LogFsyncs)})
		failures = append(failures, []string{shortName(&r), fmt.Sprint(r.Failures), fmt.Sprint(r.Restarted), fmt.Sprint(r.WorkLost),
			ui.Seconds(r.Restart), ui.Seconds(r.Total), fmt.Sprintf("%.1f %%", 100*r.Overhead)})
	}
	g.Table([]string{"mode, log", "|ckpts", "|latency", "|pause", "|stored MiB", "|log MiB", "|fsyncs"}, costs)
	g.Printf("\n")
	g.Table([]string{"mode, log", "|failures", "|restarted", "|work lost", "|restart", "|total", "|overhead"}, failures)
	b.printPredictions(g)
	if !o.failOne || o.mtbf != "" || b.Modes[0].Restart == 0 {
		return nil
	}
	g.Printf("\nrestart, as a share of the coordinated one of all %s:\n", ui.Count(b.NP, "rank"))
	for _, r := range b.Modes[1:] {
		g.Printf("  %-24s %.2f\n", shortName(&r), r.Faster)
	}
	return nil
}

// printPredictions prints a table for each quantity that is predicted, and how good all are.
func (b *benchModes) printPredictions(g *ui.Globals) {
	var added, logged, restarted [][]string
	for i := range b.Modes {
		r := &b.Modes[i]
		if a := r.Added; a != nil {
			added = append(added, besideRow(r, a))
		}
		if l := r.Logged; l != nil {
			between := ui.MiB(l.Low) + " to " + ui.MiB(l.High)
			logged = append(logged, []string{shortName(r), ui.MiB(l.Measured), ui.MiB(l.Predicted), between, off(l.Error), within(l.Inside)})
		}
		if s := r.Restarts; s != nil {
			restarted = append(restarted, besideRow(r, s))
		}
	}
	text := ""
	for _, of := range []struct {
		name   string
		what   string
		rows   [][]string
		median *float64
	}{{"a round adds", "rounds", added, b.Added}, {"log MiB", "logs", logged, b.Logged}, {"a restart", "restarts", restarted, b.Restart}} {
		if len(of.rows) > 0 {
			g.Printf("\n")
			g.Table([]string{"mode, log", "|" + of.name, "|predicted", "|95 %", "|error", ""}, of.rows)
			text += fmt.Sprintf(", %s %s", of.what, ui.Percent1(*of.median))
		}
	}
	if b.Inside != nil {
		g.Printf("\n%s inside the interval, ±%s in the median\noff in the median: %s\n", ui.Percent1(*b.Inside), ui.Percent1(*b.Width), strings.TrimPrefix(text, ", "))
	}
}

func besideRow(r *benchRow, t *predict.SecondsBeside) []string {
	return []string{shortName(r), ui.Seconds(t.Measured), ui.Seconds(t.Predicted), ui.Between(t.Low, t.High, ui.Seconds), off(t.Error), within(t.Inside)}
}

// within marks what stands out, in few letters: a row has 80 columns.
func within(inside bool) string {
	if inside {
		return ""
	}
	return "out"
}

// off is a relative error.
func off(share float64) string {
	if math.Abs(share) >= 0.1 { // few digits leave space for the others in 80 columns
		return fmt.Sprintf("%+.0f %%", 100*share)
	}
	return fmt.Sprintf("%+.1f %%", 100*share)
}

// shortName leaves space for the numbers in 80 columns.
func shortName(r *benchRow) string {
	return strings.NewReplacer("uncoordinated", "uncoord.", "pessimistic-", "").Replace(r.name())
}
