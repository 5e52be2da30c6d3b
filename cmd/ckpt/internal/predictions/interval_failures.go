package predictions

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/interval"
)

// logOptions are the flags of ckpt interval that take the failure rate from a log.
type logOptions struct {
	failures, system string
	machine          int
}

func (o *logOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.failures, "failures", "", "log of the failures of a machine, in place of --mtbf: CSV (node,start,end,kind), of LANL, of SCR, or a list of times")
	f.StringVar(&o.system, "system", "", "with --failures: the system that counts, of several in one log")
	f.IntVar(&o.machine, "machine-nodes", 0, "with --failures: nodes of the machine, of which the job has --nodes (default: the job has all)")
}

// A failureLog is the analysis of a log, as --json prints it.
type failureLog struct {
	File string `json:"file"`
	interval.FailureStats
	JobShare float64             `json:"job_node_share"`        // of the nodes of the machine
	Spares   *interval.Estimated `json:"spare_nodes,omitempty"` // for the job; null if the log has no ends
}

// read reads and analyses the failure log, for a job on so many nodes of the machine; 0 means all.
func (o *logOptions) read(nodes int) (*failureLog, error) {
	r, err := os.Open(o.failures)
	if err != nil {
		return nil, dataset.CannotRead("log", o.failures, err)
	}
	defer r.Close()
	log, err := interval.ReadFailures(o.failures, o.system, r)
	if bad := new(interval.LogError); errors.As(err, &bad) {
		if bad.Systems != nil {
			err = ui.WithHint(err, "choose one with --system")
		}
		return nil, ui.AsUsage(err)
	}
	if err != nil {
		return nil, err
	}
	machine := o.machine
	if machine == 0 {
		machine = log.Nodes
	}
	share := 1.0
	switch {
	case nodes > 0 && machine == 0:
		return nil, ui.BadUsage(fmt.Sprintf("--nodes %d: the log does not say how many nodes the machine has", nodes), "add --machine-nodes, like --machine-nodes 400, or leave --nodes out for a job on all nodes")
	case nodes > machine && machine > 0:
		return nil, ui.BadUsage(fmt.Sprintf("--nodes %d: the machine has %d nodes", nodes, machine), "give the nodes of the job, and with --machine-nodes those of the machine")
	case nodes > 0:
		share = float64(nodes) / float64(machine)
	}
	stats, err := log.Stats(machine)
	if err != nil {
		return nil, rangeIsUsage(err)
	}
	f := &failureLog{File: o.failures, FailureStats: *stats, JobShare: share}
	if stats.Repair != nil {
		spares := stats.Spares(share)
		f.Spares = &spares
	}
	return f, nil
}

// mtbf returns the MTBF of the job: its nodes meet their share of the failures of the machine.
func (f *failureLog) mtbf() *interval.Estimated {
	return &interval.Estimated{Value: f.MTBF.Value / f.JobShare, Low: f.MTBF.Low / f.JobShare, High: f.MTBF.High / f.JobShare}
}

// fromLog takes the failure rate, and how failures cluster, from a log.
func (o *intervalOptions) fromLog(f *pflag.FlagSet) (err error) {
	if o.failures == "" {
		if name := changed(f, "system", "machine-nodes"); name != "" {
			return ui.BadUsage("--"+name+" belongs to a log of failures", "add --failures FILE")
		}
		return nil
	}
	if o.FailingOptions.Given() {
		return ui.BadUsage("--failures and --mtbf both say how often the machine fails", "leave one of them out")
	}
	if err := o.checkNodes(); err != nil {
		return err
	}
	if o.log, err = o.logOptions.read(o.nodes); err != nil {
		return err
	}
	o.ends.MTBF = o.log.mtbf()
	if !f.Changed("shape") {
		o.shape = min(10, max(0.2, o.log.Shape.Value))
	}
	if !f.Changed("steady") {
		o.steady = true
	}
	o.simulate = true
	return nil
}

// jobMTBF is the mean time between failures of the job, and how it is told.
func (o *intervalOptions) jobMTBF() (mtbf time.Duration, about string, err error) {
	if o.log != nil {
		mtbf = interval.Lasting(o.ends.MTBF.Value)
		return mtbf, fmt.Sprintf("%s (%s to %s)", ui.Span(mtbf), spanOf(o.ends.MTBF.Low), spanOf(o.ends.MTBF.High)), nil
	}
	if !o.FailingOptions.Given() {
		return 0, "", ui.Missing("--mtbf", "24h")
	}
	if mtbf, err = o.Job(o.nodes); err != nil {
		return 0, "", err
	}
	return mtbf, o.FailingOptions.about(mtbf, o.nodes), nil
}

// about tells what the log says.
func (f *failureLog) text() string {
	s := &f.FailureStats
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	line("log", "%s, %s: %s, %s in %s", f.File, s.Form, ui.Count(s.Records, "record"), ui.Count(s.Failures, "failure"), spanOf(s.Span))
	if s.Skipped > 0 {
		line("", "%s without a start left out", ui.Count(s.Skipped, "record"))
	}
	line("MTBF", "%s, 95 %% %s, of the machine", spanOf(s.MTBF.Value), ui.Between(s.MTBF.Low, s.MTBF.High, spanOf))
	shape := "as good as exponential"
	switch {
	case s.Shape.High < 1:
		shape = "failures cluster"
	case s.Shape.Low > 1:
		shape = "failures keep apart"
	}
	if s.Shape.High > 0.99*interval.MostShape { // the log bounds it from below only
		line("shape", "95 %% above %s, of a Weibull distribution: %s", decimal(s.Shape.Low), shape)
	} else {
		line("shape", "%s, 95 %% %s to %s, of a Weibull distribution: %s", decimal(s.Shape.Value), decimal(s.Shape.Low), decimal(s.Shape.High), shape)
	}
	trend := "none that chance does not show"
	if s.Trend.Clear() {
		trend = map[bool]string{true: "failures become more frequent", false: "failures become rarer"}[s.Trend.U > 0]
		trend += fmt.Sprintf(": MTBF %s in the older half, %s in the newer", spanOf(s.Trend.Older), spanOf(s.Trend.Newer))
	}
	line("trend", "%s (Laplace %+.2f, %s by chance)", trend, s.Trend.U, ui.Percent1(s.Trend.Share))
	if r := s.Repair; r != nil {
		line("repair", "median %s, 95 %% %s; mean %s, 95 %% %s; 95 of 100 within %s, 95 %% %s", ui.Seconds(r.Median.Value), times(r.Median.Low, r.Median.High),
			ui.Seconds(r.Mean), times(r.MeanLow, r.MeanHigh), ui.Seconds(r.P95), times(r.P95Low, r.P95High))
	} else {
		line("repair", "not known: the log has no ends")
	}
	f.nodesText(line)
	if len(s.Kinds) > 0 {
		var kinds []string
		for _, k := range s.Kinds[:min(6, len(s.Kinds))] {
			kinds = append(kinds, fmt.Sprintf("%s %d", k.Kind, k.Count))
		}
		line("kinds", "%s", strings.Join(kinds, ", "))
	}
	return b.String()
}

// nodesText tells how the failures are spread.
func (f *failureLog) nodesText(line func(label, format string, args ...any)) {
	n := f.Nodes
	if n == nil {
		line("nodes", "not known: the log names none")
		return
	}
	of := fmt.Sprintf("%d nodes that failed", n.Failed)
	if n.Machine > 0 {
		of = fmt.Sprintf("%d nodes", n.Machine)
	}
	line("nodes", "%d of %s have %s of the failures in this log", n.Worst, of, ui.Percent1(n.Share))
	if len(n.Offenders) == 0 {
		line("", "no node fails more often than chance explains")
		return
	}
	var names []string
	for _, o := range n.Offenders[:min(8, len(n.Offenders))] {
		names = append(names, fmt.Sprintf("%s (%d)", o.Node, o.Count))
	}
	if more := len(n.Offenders) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	text := "fail more often than chance explains: " + strings.Join(names, ", ")
	if n.Without != nil {
		text += "; without them the MTBF is " + spanOf(*n.Without) + ", 95 % " + ui.Between(*n.WithoutLow, *n.WithoutHigh, spanOf)
	}
	line("", "%s", text)
}

// sparesText tells how many nodes must stand by.
func (f *failureLog) sparesText() string {
	if f.Spares == nil {
		return "spare nodes: not known, since the log has no ends of failures\n"
	}
	return fmt.Sprintf("spare nodes %.0f, 95 %% %.0f to %.0f: so many find a node for each that is in repair, in 95 of 100 cases\n", f.Spares.Value, f.Spares.Low, f.Spares.High)
}

// failureResult is a log alone, without a cost that asks for an interval.
type failureResult struct {
	Log *failureLog `json:"failure_log"`
}

func showFailures(g *ui.Globals, log *failureLog) error {
	return g.Show(failureResult{log}, func() error {
		return g.Printf("%s%shint: add --cost, --from-job or an APP for the interval that follows\n", log.text(), log.sparesText())
	})
}
