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
	"ckpt/interval"
)

// Colours that colour-blind people can distinguish (Okabe, Ito).
var (
	plotBlue   = color.RGBA{0, 114, 178, 255}
	plotOrange = color.RGBA{230, 159, 0, 255}
	plotRed    = color.RGBA{213, 94, 0, 255}
)

// plotWaste draws the waste over the interval, and marks the rules.
func plotWaste(path string, m *interval.Model, rules []intervalRow) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Waste by interval: cost %s, MTBF %s, restart %s", ui.Span(m.Cost), ui.Span(m.MTBF), ui.Span(m.Restart))
	p.X.Label.Text, p.Y.Label.Text = "interval (minutes)", "waste (%)"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	best := rules[0].Interval
	for _, row := range rules {
		if row.Rule == "exact" {
			best = row.Interval
		}
	}
	var exact, first plotter.XYs
	for i := -60; i <= 60; i++ { // from a tenth to ten times the best
		at := time.Duration(best * math.Pow(10, float64(i)/60) * 1e9)
		waste, err := m.Waste(max(1, at))
		if err != nil {
			return err
		}
		exact = append(exact, plotter.XY{X: at.Minutes(), Y: 100 * waste})
		if waste, err := m.FirstOrderWaste(max(1, at)); err == nil {
			first = append(first, plotter.XY{X: at.Minutes(), Y: 100 * waste})
		}
	}
	for _, c := range []struct {
		name   string
		points plotter.XYs
		color  color.Color
	}{{"expected", exact, plotBlue}, {"to first order", first, plotOrange}} {
		if len(c.points) == 0 {
			continue
		}
		line, err := plotter.NewLine(c.points)
		if err != nil {
			return err
		}
		line.Color, line.Width = c.color, vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(c.name, line)
	}
	if err := markRules(p, rules); err != nil {
		return err
	}
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, 5.5*vg.Centimeter
	if err := p.Save(16*vg.Centimeter, 10*vg.Centimeter, path); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	return nil
}

// markRules marks each rule on the curve of the expected waste.
func markRules(p *plot.Plot, rules []intervalRow) error {
	shapes := map[string]draw.GlyphDrawer{"Young": draw.TriangleGlyph{}, "Daly": draw.BoxGlyph{}, "first order": draw.PyramidGlyph{}, "exact": draw.CircleGlyph{}, "given": draw.CrossGlyph{}}
	for _, row := range rules {
		s, err := plotter.NewScatter(plotter.XYs{{X: row.Interval / 60, Y: 100 * row.Waste}})
		if err != nil {
			return err
		}
		s.Color, s.Radius, s.Shape = plotRed, vg.Points(4), shapes[row.Rule]
		p.Add(s)
		p.Legend.Add(row.Rule, s)
	}
	return nil
}
