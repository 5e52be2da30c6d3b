package predictions

import (
	"fmt"
	"image/color"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
	"ckpt/interval"
)

// plotWaste draws the waste over the interval, and marks the rules.
func plotWaste(path string, m *interval.Model, rules []intervalRow) error {
	p, err := wastePlot(m, rules)
	if err != nil {
		return err
	}
	return savePlot(path, p)
}

// wastePlot lays out the waste over the interval, from a tenth to ten times the best
// one, and further if another was asked for.
func wastePlot(m *interval.Model, rules []intervalRow) (*plot.Plot, error) {
	p := &picture{Plot: figure.New(fmt.Sprintf("Waste by interval: cost %s, MTBF %s, restart %s", ui.Span(m.Cost), ui.Span(m.MTBF), ui.Span(m.Restart)))}
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
	p.line("expected", exact, figure.Blue)
	p.line("to first order", first, figure.Orange, vg.Points(5), vg.Points(3))
	p.rules(rules)
	return p.overIntervals(low, high)
}

// overIntervals completes a plot over intervals.
func (p *picture) overIntervals(low, high float64) (*plot.Plot, error) {
	if p.err != nil {
		return nil, p.err
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(figure.DurationTicks)
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.X, low, high)
	figure.Include(&p.Y, 0, p.Y.Max)
	figure.AddKey(p.Plot, p.key)
	return p.Plot, nil
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
func reach(rules []intervalRow) (low, high float64) {
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
func (p *picture) rules(rules []intervalRow) {
	styles := map[string]struct {
		color  color.Color
		shape  draw.GlyphDrawer
		radius float64
	}{"Young": {figure.Green, draw.TriangleGlyph{}, 6}, "Daly": {figure.Purple, draw.SquareGlyph{}, 5}, "first order": {figure.Orange, draw.PyramidGlyph{}, 3.5},
		"exact": {figure.Blue, draw.CircleGlyph{}, 2.5}, "given": {figure.Vermilion, draw.CrossGlyph{}, 5}}
	for _, row := range rules {
		s := styles[row.Rule]
		name := fmt.Sprintf("%s: %s, %.3g %%", row.Rule, ui.Span(time.Duration(row.Interval*1e9).Round(time.Second)), 100*row.Waste)
		p.marks(name, plotter.XYs{{X: row.Interval, Y: 100 * row.Waste}}, draw.GlyphStyle{Color: s.color, Radius: vg.Points(s.radius), Shape: s.shape})
	}
}
