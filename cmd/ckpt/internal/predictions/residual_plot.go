package predictions

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"ckpt/internal/figure"
	"ckpt/predict"
)

// residualPlot draws how far the points are from the law, in per cent of what the law
// gives, with its interval. It stands below the plot above, and has its horizontal axis.
func residualPlot(f *predict.Figure, above *plot.Plot) (*plot.Plot, error) {
	p := &picture{Plot: figure.New("")}
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
	p.line("", plotter.XYs{{X: above.X.Min, Y: 0}, {X: above.X.Max, Y: 0}}, figure.Blue)
	var fitted, held plotter.XYs
	for _, r := range f.Residuals {
		if at := (plotter.XY{X: r.X, Y: percent(r.Share)}); r.Fitted {
			fitted = append(fitted, at)
		} else {
			held = append(held, at)
		}
	}
	p.marks("", fitted, fittedStyle)
	p.marks("", held, heldStyle)
	if a := f.Asked; a != nil && a.Y > 0 {
		p.line("", plotter.XYs{{X: a.X, Y: max(-most, percent(a.Low/a.Y-1))}, {X: a.X, Y: min(most, percent(a.High/a.Y-1))}}, figure.Vermilion, vg.Points(3), vg.Points(2))
	}
	if p.err != nil {
		return nil, p.err
	}
	p.X.Min, p.X.Max = above.X.Min, above.X.Max
	figure.Include(&p.Y, -most, most)
	return p.Plot, nil
}

func percent(share float64) float64 { return 100 * share }

// residualRange is the largest difference that is drawn, in per cent: that of every point,
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
