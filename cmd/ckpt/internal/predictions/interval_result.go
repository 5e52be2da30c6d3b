package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/internal/figure"
	"ckpt/interval"
	"fmt"
	"image/color"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

type Interval struct {
	Young    float64        `json:"young_s"`
	Daly     float64        `json:"daly_s"`
	Exact    float64        `json:"exact_s"`
	Waste    float64        `json:"waste"`
	Total    float64        `json:"total_s"`
	Interval float64        `json:"interval_s"` // with this waste and total
	App      float64        `json:"app_s"`
	Cost     float64        `json:"cost_s"`
	MTBF     float64        `json:"mtbf_s"` // of the job
	Restart  float64        `json:"restart_s"`
	Downtime float64        `json:"downtime_s"`
	Mode     string         `json:"mode"`
	Engine   dataset.Engine `json:"engine,omitempty"` // of predicted costs
	*interval.CostRange
	Measured *jobCost            `json:"job_costs,omitempty"`
	Log      *failureLog         `json:"failure_log,omitempty"`
	Rules    []interval.RuleRow  `json:"rules"`
	Run      *interval.RunRow    `json:"best_run,omitempty"` // nil if it never ends
	Sim      *interval.Simulated `json:"simulation,omitempty"`

	model   interval.Model
	failing string
}

// runText tells what failures make of a run, with checkpoints and without.
func runText(r *interval.RunRow) string {
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

func printInterval(g *ui.Globals, r *Interval) error {
	if !g.Quiet && r.Log != nil {
		g.Printf("%s\n", r.Log.text())
	}
	if !g.Quiet && r.Measured != nil {
		g.Printf("%s", r.Measured.about())
	}
	if !g.Quiet {
		m := r.model
		g.Printf("cost %s, MTBF %s, restart %s, downtime %s, %s; work %s\n\n", ui.Span(m.Cost), r.failing, ui.Span(m.Restart),
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
		if err := g.Printf("\na run of %s is shorter than the MTBF: %s\n", spanOf(r.App), runText(r.Run)); err != nil {
			return err
		}
	}
	if err := printSimulated(g, r.Interval, r.Sim); err != nil {
		return err
	}
	if r.Log != nil {
		g.Printf("%s", r.Log.sparesText())
	}
	return g.Printf("\n%s\n", r.verdict())
}

// printSimulated prints what runs with random failures took; nothing without.
func printSimulated(g *ui.Globals, at float64, s *interval.Simulated) error {
	if s == nil {
		return nil
	}
	if err := g.Printf("\nsimulated at %s: %s to %s, %s failures per run\n(95 %% interval for the mean of %d runs, shape %s, seed %d)\none run takes %s to %s in 90 of 100 cases\n",
		spanOf(at), spanOf(s.Low), spanOf(s.High), strconv.FormatFloat(s.Failures, 'f', 2, 64), s.Runs, strconv.FormatFloat(s.Shape, 'g', 4, 64), s.Seed, spanOf(s.P5), spanOf(s.P95)); err != nil || s.Expected == nil {
		return err
	}
	verdict := "inside: they agree"
	if !*s.Agrees {
		verdict = "outside, which happens once in 20 seeds"
	}
	return g.Printf("expected without a checkpoint at the end: %s, %s\n", spanOf(*s.Expected), verdict)
}

func spanOf(seconds float64) string { return ui.Span(interval.Lasting(seconds)) }

// plotWaste draws the waste over the interval, and marks the rules.
func plotWaste(path string, m *interval.Model, rules []interval.RuleRow) error {
	p, err := wastePlot(m, rules)
	if err != nil {
		return err
	}
	return figure.Save(path, p)
}

// wastePlot lays out the waste over the interval, from a tenth to ten times the best
// one, and further if another was asked for.
func wastePlot(m *interval.Model, rules []interval.RuleRow) (*figure.Picture, error) {
	p := newPicture(fmt.Sprintf("Waste by interval: cost %s, MTBF %s, restart %s", ui.Span(m.Cost), ui.Span(m.MTBF), ui.Span(m.Restart)))
	p.X.Label.Text, p.Y.Label.Text = "interval", "waste [%]"
	low, high := reach(rules)
	var exact, first plotter.XYs
	for _, at := range intervals(low, high) {
		waste, err := m.Waste(at)
		if err != nil {
			return nil, err
		}
		exact = append(exact, plotter.XY{X: at.Seconds(), Y: 100 * waste})
		if waste, err := m.FirstOrderWaste(at); err == nil && waste <= 1 {
			first = append(first, plotter.XY{X: at.Seconds(), Y: 100 * waste})
		}
	}
	p.Line("expected", exact, figure.Blue)
	p.Line("to first order", first, figure.Orange, vg.Points(5), vg.Points(3))
	p.rules(rules)
	return p.overIntervals(low, high)
}

// overIntervals completes a plot over intervals.
func (p *picture) overIntervals(low, high float64) (*figure.Picture, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	p.X.Scale, p.X.Tick.Marker, p.Units[0] = plot.LogScale{}, plot.TickerFunc(figure.DurationTicks), figure.Seconds
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.X, low, high)
	figure.Include(&p.Y, 0, p.Y.Max)
	figure.AddKey(p.Picture, p.Key)
	return p.Picture, nil
}

// intervals are evenly spaced on a logarithmic axis.
func intervals(low, high float64) (list []time.Duration) {
	const steps = 160
	for i := range steps + 1 {
		list = append(list, max(1, time.Duration(low*math.Pow(high/low, float64(i)/steps)*1e9)))
	}
	return list
}

// reach returns the range of intervals to draw, in seconds.
func reach(rules []interval.RuleRow) (low, high float64) {
	best := rules[0].Interval
	for _, row := range rules {
		if row.Rule == "exact" {
			best = row.Interval
		}
	}
	low, high = best/10, best*10
	for _, row := range rules {
		low, high = min(low, row.Interval/1.5), max(high, row.Interval*1.5)
	}
	return low, high
}

// rules marks each rule on the curve of the expected waste. Those that agree lie upon
// each other, the larger below.
func (p *picture) rules(rules []interval.RuleRow) {
	styles := map[string]struct {
		color  color.Color
		shape  draw.GlyphDrawer
		radius float64
	}{"Young": {figure.Green, draw.TriangleGlyph{}, 6}, "Daly": {figure.Purple, draw.SquareGlyph{}, 5}, "first order": {figure.Orange, draw.PyramidGlyph{}, 3.5},
		"exact": {figure.Blue, draw.CircleGlyph{}, 2.5}, "given": {figure.Vermilion, draw.CrossGlyph{}, 5}}
	for _, row := range rules {
		s := styles[row.Rule]
		name := fmt.Sprintf("%s: %s, %.3g %%", row.Rule, ui.Span(time.Duration(row.Interval*1e9).Round(time.Second)), 100*row.Waste)
		p.Marks(name, plotter.XYs{{X: row.Interval, Y: 100 * row.Waste}}, draw.GlyphStyle{Color: s.color, Radius: vg.Points(s.radius), Shape: s.shape})
	}
}
