package predictions

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/internal/figure"
	"ckpt/predict/plan"
)

// plotScale draws the times of runs over their ranks, and marks the fastest of each
// kind.
func plotScale(path string, s *plan.Scale) error {
	p, err := scalePlot(s)
	if err != nil {
		return err
	}
	return savePlot(path, p)
}

func scalePlot(s *plan.Scale) (*plot.Plot, error) {
	p := &picture{Plot: figure.New(fmt.Sprintf("Scaling of %s under %s, checkpoints in a run: %d", s.App, s.MPI, s.Checkpoints))}
	p.X.Label.Text, p.Y.Label.Text = "ranks", "time of a run [s]"
	alone := func(pt plan.ScalePoint) plan.TimeRange {
		return plan.TimeRange{Seconds: pt.Alone, Low: pt.Alone, High: pt.Alone}
	}
	for _, kind := range []struct {
		name    string
		of      func(plan.ScalePoint) plan.TimeRange
		fastest int
		color   color.NRGBA
		dashes  []vg.Length
	}{
		{"alone", alone, s.Fastest.Alone, figure.Green, nil},
		{"protected", func(pt plan.ScalePoint) plan.TimeRange { return pt.Protected }, s.Fastest.Protected, figure.Vermilion, nil},
		{"with " + s.Codec, func(pt plan.ScalePoint) plan.TimeRange { return pt.Compressed }, s.Fastest.Compressed, figure.Blue, []vg.Length{vg.Points(5), vg.Points(3)}},
	} {
		var line plotter.XYs
		var bars plotter.YErrors
		for _, pt := range s.Points {
			t := kind.of(pt)
			line = append(line, plotter.XY{X: float64(pt.NP), Y: t.Seconds})
			bars = append(bars, struct{ Low, High float64 }{t.Low - t.Seconds, t.High - t.Seconds})
		}
		p.line(fmt.Sprintf("%s: fastest on %d", kind.name, kind.fastest), line, kind.color, kind.dashes...)
		p.intervals(line, bars, kind.color)
		p.marks("", line, draw.GlyphStyle{Color: kind.color, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}})
		for _, at := range line {
			if int(at.X) == kind.fastest {
				p.marks("", plotter.XYs{at}, draw.GlyphStyle{Color: kind.color, Radius: vg.Points(6), Shape: draw.RingGlyph{}})
			}
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	p.scaleAxes(s)
	figure.AddKey(p.Plot, p.key)
	return p.Plot, nil
}

// intervals draws error bars, unless all times are measured.
func (p *picture) intervals(at plotter.XYs, widths plotter.YErrors, c color.NRGBA) {
	known := false
	for _, w := range widths {
		known = known || w.Low < 0 || w.High > 0
	}
	if known {
		p.errorBars(at, widths, c)
	}
}

// scaleAxes makes axes logarithmic where the runs span a power of ten.
func (p *picture) scaleAxes(s *plan.Scale) {
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.WholeTicks), plot.TickerFunc(figure.DecimalTicks)
	first := s.Points[0]
	xLow, xHigh, yLow, yHigh := float64(first.NP), float64(first.NP), first.Alone, first.Alone
	for _, pt := range s.Points {
		xLow, xHigh = min(xLow, float64(pt.NP)), max(xHigh, float64(pt.NP))
		yLow = min(yLow, pt.Alone, pt.Protected.Low, pt.Compressed.Low)
		yHigh = max(yHigh, pt.Alone, pt.Protected.High, pt.Compressed.High)
	}
	if figure.Wide(xLow, xHigh) {
		figure.Logarithmic(&p.X)
	}
	if figure.Wide(yLow, yHigh) {
		figure.Logarithmic(&p.Y)
	} else {
		yLow = 0
	}
	figure.Include(&p.X, xLow, xHigh)
	figure.Include(&p.Y, yLow, yHigh)
}
