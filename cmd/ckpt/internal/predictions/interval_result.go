package predictions

import (
	"fmt"
	"strconv"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/interval"
)

// intervalRow is an interval and what it costs.
type intervalRow struct {
	Rule       string   `json:"rule"`
	Interval   float64  `json:"interval_s"`
	Waste      float64  `json:"waste"`
	FirstOrder *float64 `json:"waste_first_order"` // null where that order does not suffice
	Total      float64  `json:"total_s"`
}

type intervalResult struct {
	Young    float64          `json:"young_s"`
	Daly     float64          `json:"daly_s"`
	Exact    float64          `json:"exact_s"`
	Waste    float64          `json:"waste"`
	Total    float64          `json:"total_s"`
	Interval float64          `json:"interval_s"` // that of waste and total
	App      float64          `json:"app_s"`
	Cost     float64          `json:"cost_s"`
	MTBF     float64          `json:"mtbf_s"` // of the job
	Restart  float64          `json:"restart_s"`
	Downtime float64          `json:"downtime_s"`
	Mode     string           `json:"mode"`
	Rules    []intervalRow    `json:"rules"`
	Run      *runResult       `json:"best_run,omitempty"` // nil if it never ends
	Sim      *simulatedResult `json:"simulation,omitempty"`

	model interval.Model
}

// runResult is the best number of checkpoints for a run of this length.
type runResult struct {
	Count    int      `json:"count"`
	Interval float64  `json:"interval_s"`
	Total    float64  `json:"total_s"`
	Alone    *float64 `json:"unprotected_s"` // expected without checkpoints; null over 292 years
}

func newRunResult(run interval.Run) *runResult {
	r := &runResult{Count: run.Count, Interval: run.Interval.Seconds(), Total: run.Total.Seconds()}
	if run.Alone > 0 {
		seconds := run.Alone.Seconds()
		r.Alone = &seconds
	}
	return r
}

// text tells what failures make of a run, with checkpoints and without.
func (r *runResult) text() string {
	alone := "over 292 years"
	if r.Alone != nil {
		alone = spanOf(*r.Alone)
	}
	if r.Count == 0 {
		return fmt.Sprintf("expected time %s without any checkpoint, since one would cost more than it saves", alone)
	}
	return fmt.Sprintf("expected time %s with %s, one every %s; %s without any", spanOf(r.Total), ui.Count(r.Count, "checkpoint"),
		spanOf(r.Interval), alone)
}

type simulatedResult struct {
	Runs     int      `json:"runs"`
	Seed     uint64   `json:"seed"`
	Shape    float64  `json:"shape"`
	Steady   bool     `json:"steady"`
	Mean     float64  `json:"mean_s"`
	Low      float64  `json:"low_s"` // 95 % confidence interval of the mean
	High     float64  `json:"high_s"`
	StdDev   float64  `json:"stddev_s"`
	Min      float64  `json:"min_s"`
	Max      float64  `json:"max_s"`
	Failures float64  `json:"mean_failures"`
	Waste    float64  `json:"waste"`
	Expected *float64 `json:"expected_s"` // of the same runs; null unless failures are exponential
	Agrees   *bool    `json:"agrees"`     // whether low_s ≤ expected_s ≤ high_s
}

func printInterval(g *ui.Globals, r *intervalResult) error {
	if !g.Quiet {
		m := r.model
		g.Printf("cost %s, MTBF %s, restart %s, downtime %s, %s; work %s\n\n", ui.Span(m.Cost), ui.Span(m.MTBF), ui.Span(m.Restart),
			ui.Span(m.Downtime), r.Mode, spanOf(r.App))
	}
	var rows [][]string
	for _, row := range r.Rules {
		first := "out of range"
		if row.FirstOrder != nil {
			first = ui.Percent(*row.FirstOrder)
		}
		rows = append(rows, []string{row.Rule, spanOf(row.Interval), ui.Percent(row.Waste), first, spanOf(row.Total)})
	}
	if err := g.Table([]string{"rule", "|interval", "|waste", "|to first order", "|expected time"}, rows); err != nil {
		return err
	}
	if r.Run != nil && r.App < r.MTBF && !g.Quiet {
		if err := g.Printf("\na run of %s is shorter than the MTBF: %s\n", spanOf(r.App), r.Run.text()); err != nil {
			return err
		}
	}
	return printSimulated(g, r.Interval, r.Sim)
}

// printSimulated prints what runs with random failures took; nothing without.
func printSimulated(g *ui.Globals, at float64, s *simulatedResult) error {
	if s == nil {
		return nil
	}
	if err := g.Printf("\nsimulated at %s: %s to %s, %s failures per run\n(95 %% interval for the mean of %d runs, shape %s, seed %d)\n",
		spanOf(at), spanOf(s.Low), spanOf(s.High), strconv.FormatFloat(s.Failures, 'f', 2, 64), s.Runs, strconv.FormatFloat(s.Shape, 'g', -1, 64), s.Seed); err != nil || s.Expected == nil {
		return err
	}
	verdict := "inside: they agree"
	if !*s.Agrees {
		verdict = "outside, which happens once in 20 seeds"
	}
	return g.Printf("expected without a checkpoint at the end: %s, %s\n", spanOf(*s.Expected), verdict)
}

func spanOf(seconds float64) string { return ui.Span(time.Duration(seconds * 1e9)) }
