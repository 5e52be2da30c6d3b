package predictions

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
	"ckpt/interval"
)

// plotLevels draws the waste over the interval, of each pattern, and marks their best.
func plotLevels(path string, r *levelsResult) error {
	p, err := levelsPlot(r)
	if err != nil {
		return err
	}
	return savePlot(path, p)
}

func levelsPlot(r *levelsResult) (*plot.Plot, error) {
	p := &picture{Plot: figure.New(fmt.Sprintf("Waste by interval: %s, MTBF %s", ui.Count(len(r.Levels), "level"), spanOf(r.MTBF)))}
	p.X.Label.Text, p.Y.Label.Text = "interval", "waste [%]"
	low, high := r.Patterns[0].Interval/10, r.Patterns[0].Interval*10
	for _, row := range r.Patterns {
		low, high = min(low, row.Interval/3), max(high, row.Interval*3)
	}
	colors := []color.Color{figure.Blue, figure.Vermilion, figure.Green, figure.Purple, figure.Orange}
	for i := range r.Patterns {
		row, c := &r.Patterns[i], colors[i%len(colors)]
		expected, first := row.curves(low, high)
		if row.Rule == "first order" {
			p.line("", first, c, vg.Points(5), vg.Points(3))
		} else {
			p.line("", expected, c)
		}
		p.marks(row.name(), plotter.XYs{{X: row.Interval, Y: 100 * row.Waste}}, draw.GlyphStyle{Color: c, Radius: vg.Points(float64(6 - i)), Shape: draw.CircleGlyph{}})
	}
	return p.overIntervals(low, high)
}

// curves are the waste of a pattern over the interval, expected and to first order, as
// far as it has one.
func (p *patternRow) curves(low, high float64) (expected, first plotter.XYs) {
	for _, at := range intervals(low, high) {
		pattern := interval.Pattern{Interval: at, Every: p.pattern.Every}
		if waste, err := p.hierarchy.Waste(pattern); err == nil {
			expected = append(expected, plotter.XY{X: at.Seconds(), Y: 100 * waste})
		}
		if waste, err := p.hierarchy.FirstOrderWaste(pattern); err == nil && waste <= 1 {
			first = append(first, plotter.XY{X: at.Seconds(), Y: 100 * waste})
		}
	}
	return expected, first
}

// name tells a pattern in the key of the plot.
func (p *patternRow) name() string {
	text := p.Rule + ": " + spanOf(p.Interval)
	for i, l := range p.Levels {
		if i > 0 {
			text += fmt.Sprintf(", 1 of %d to %s", l.Every, l.Name)
		}
	}
	return text + fmt.Sprintf(", %.3g %%", 100*p.Waste)
}
