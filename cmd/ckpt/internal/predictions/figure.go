package predictions

import (
	"ckpt/internal/figure"
	"ckpt/predict"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// plotFigure draws measured points, the law with its 95 % interval, the thesis's law,
// and the point that was asked for. The extrapolated part of the interval is paler. A
// second plot below has the differences of the points from the law.
func plotFigure(path string, f *predict.Figure) error {
	p, err := sizePlot(f)
	if err != nil {
		return err
	}
	if len(f.Residuals) == 0 {
		return figure.Save(path, p)
	}
	below, err := residualPlot(f, p)
	if err != nil {
		return err
	}
	p.X.Label.Text = "" // the lower plot has it for both
	return figure.SaveAs(path, func(w io.Writer, format string) error { return figure.WriteStack(w, format, p, below) })
}

// A picture of predictions has intervals and the point that was asked for.
type picture struct{ *figure.Picture }

func newPicture(title string) *picture { return &picture{figure.New(title)} }

// sizePlot lays out a figure of sizes.
func sizePlot(f *predict.Figure) (*figure.Picture, error) {
	p := newPicture(f.Title)
	p.X.Label.Text, p.Y.Label.Text = f.X, f.Y
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.WholeTicks), plot.TickerFunc(figure.DecimalTicks)
	p.interval(f.Curve, f.Low, f.High)
	var curve plotter.XYs
	for _, b := range f.Curve {
		curve = append(curve, plotter.XY{X: b.X, Y: b.Y})
	}
	p.Line(f.CurveName, curve, figure.Blue)
	p.Line(f.ThesisName, points(f.Thesis), figure.Orange, vg.Points(5), vg.Points(3))
	p.Marks("measured, fitted", points(f.Fitted), fittedStyle)
	p.Marks("measured, held out", points(f.Held), heldStyle)
	p.asked(f.Asked)
	if p.Err != nil {
		return nil, p.Err
	}
	scale(p.Picture, f)
	figure.AddKey(p.Picture, p.Key)
	return p.Picture, nil
}

// The marks of measured points.
var (
	fittedStyle = draw.GlyphStyle{Color: figure.Ink, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
	heldStyle   = draw.GlyphStyle{Color: figure.Ink, Radius: vg.Points(3), Shape: draw.CrossGlyph{}}
)

// interval fills the interval of a curve, paler beyond the points from low to high.
func (p *picture) interval(curve []predict.Band, low, high float64) {
	for _, part := range []struct {
		outside bool
		alpha   uint8
		name    string
	}{{false, 90, "95 % interval"}, {true, 40, "extrapolated"}} {
		for i, b := range bands(curve, low, high, part.outside) {
			shape, err := plotter.NewPolygon(b)
			if err != nil {
				p.Failed(err)
				return
			}
			shape.Color, shape.LineStyle.Width = figure.Pale(figure.Blue, part.alpha), 0
			if i > 0 {
				part.name = ""
			}
			p.Named(part.name, shape)
		}
	}
}

// asked marks the point that was asked for and its interval.
func (p *picture) asked(at *predict.Band) {
	if at == nil {
		return
	}
	point := plotter.XYs{{X: at.X, Y: at.Y}}
	p.Bars(point, plotter.YErrors{{Low: at.Low - at.Y, High: at.High - at.Y}}, figure.Vermilion)
	p.Marks(fmt.Sprintf("asked: %.0f, %s (%s)", at.X, size(at.Y), sizes(at.Low, at.High)), point,
		draw.GlyphStyle{Color: figure.Vermilion, Radius: vg.Points(4.5), Shape: draw.RingGlyph{}})
}

func points(list []predict.XY) (out plotter.XYs) {
	for _, pt := range list {
		out = append(out, plotter.XY{X: pt.X, Y: pt.Y})
	}
	return out
}

// scale chooses the axes: logarithmic where the figure spans a power of ten, otherwise
// from 0. All that the figure has is inside.
func scale(p *figure.Picture, f *predict.Figure) {
	xLow, xHigh, yLow, yHigh := p.X.Min, p.X.Max, p.Y.Min, p.Y.Max
	for _, b := range f.Curve {
		yLow, yHigh = min(yLow, b.Low), max(yHigh, b.High)
	}
	if a := f.Asked; a != nil {
		xLow, xHigh, yLow, yHigh = min(xLow, a.X), max(xHigh, a.X), min(yLow, a.Low), max(yHigh, a.High)
	}
	if figure.Wide(xLow, xHigh) {
		figure.Logarithmic(&p.X)
	}
	if figure.Wide(yLow, yHigh) {
		figure.Logarithmic(&p.Y)
	} else {
		yLow = min(0, yLow)
	}
	figure.Include(&p.X, xLow, xHigh)
	figure.Include(&p.Y, yLow, yHigh)
}

// bands are the outlines of the interval inside or outside the points fitted, which are
// from low to high.
func bands(curve []predict.Band, low, high float64, outside bool) []plotter.XYs {
	var out []plotter.XYs
	var run []predict.Band
	flush := func() {
		if len(run) > 1 {
			var outline plotter.XYs
			for _, b := range run {
				outline = append(outline, plotter.XY{X: b.X, Y: b.High})
			}
			for i := len(run) - 1; i >= 0; i-- {
				outline = append(outline, plotter.XY{X: run[i].X, Y: run[i].Low})
			}
			out = append(out, outline)
		}
		run = nil
	}
	for i, b := range curve {
		// A stretch between two points is outside if one of its ends is.
		if i > 0 {
			prev := curve[i-1]
			out := prev.X < low || b.X > high
			if out == outside {
				if len(run) == 0 {
					run = append(run, prev)
				}
				run = append(run, b)
				continue
			}
		}
		flush()
	}
	flush()
	return out
}

// residualPlot draws how far the points are from the law, in per cent of what the law
// gives, with its interval. It stands below the plot above, and has its horizontal axis.
func residualPlot(f *predict.Figure, above *figure.Picture) (*figure.Picture, error) {
	p := newPicture("")
	p.Title.Padding = 0
	p.X, p.Y.Label.Text = above.X, "measured less law [%]"
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	most := residualRange(f)
	var band []predict.Band
	for _, b := range f.Curve {
		if b.Y > 0 {
			band = append(band, predict.Band{X: b.X, Low: max(-most, percent(b.Low/b.Y-1)), High: min(most, percent(b.High/b.Y-1))})
		}
	}
	p.interval(band, f.Low, f.High)
	p.Line("", plotter.XYs{{X: above.X.Min, Y: 0}, {X: above.X.Max, Y: 0}}, figure.Blue)
	var fitted, held plotter.XYs
	for _, r := range f.Residuals {
		if at := (plotter.XY{X: r.X, Y: percent(r.Share)}); r.Fitted {
			fitted = append(fitted, at)
		} else {
			held = append(held, at)
		}
	}
	p.Marks("", fitted, fittedStyle)
	p.Marks("", held, heldStyle)
	if a := f.Asked; a != nil && a.Y > 0 {
		p.Line("", plotter.XYs{{X: a.X, Y: max(-most, percent(a.Low/a.Y-1))}, {X: a.X, Y: min(most, percent(a.High/a.Y-1))}}, figure.Vermilion, vg.Points(3), vg.Points(2))
	}
	if p.Err != nil {
		return nil, p.Err
	}
	p.X.Min, p.X.Max = above.X.Min, above.X.Max
	figure.Include(&p.Y, -most, most)
	return p.Picture, nil
}

func percent(share float64) float64 { return 100 * share }

// residualRange is the largest difference that is drawn, in per cent: of every point,
// of the interval at the points, and of the point asked for.
func residualRange(f *predict.Figure) float64 {
	most := 0.1
	for _, r := range f.Residuals {
		for _, v := range []float64{r.Share, r.Low, r.High} {
			most = max(most, math.Abs(percent(v)))
		}
	}
	if a := f.Asked; a != nil && a.Y > 0 {
		most = max(most, percent(a.High/a.Y-1), -percent(a.Low/a.Y-1))
	}
	return most
}
