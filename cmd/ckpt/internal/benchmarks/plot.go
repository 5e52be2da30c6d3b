package benchmarks

import (
	"context"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
)

// draw draws rows of plots into a file, in the format that its name asks for. Without a
// path there is nothing to draw.
func draw(ctx context.Context, g *ui.Globals, path string, panels func() ([][]*plot.Plot, error)) error {
	if path == "" {
		return nil
	}
	rows, err := panels()
	if err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	return g.WriteFile(ctx, path, func(w io.Writer) error { return figure.WriteGrid(w, format, rows) })
}

// A series is a bar for each name of a panel.
type series struct {
	name   string
	color  color.NRGBA
	values plotter.Values
	ranges plotter.YErrors // around the values, or nil
}

// barPanel draws series that are so far apart, in units of a name.
func barPanel(names []string, list []series, width vg.Length, apart float64) (*plot.Plot, error) {
	p := figure.New("")
	most := 0.0
	for i, s := range list {
		bars, err := plotter.NewBarChart(s.values, width)
		if err != nil {
			return nil, err
		}
		shift := (float64(i) - float64(len(list)-1)/2) * apart
		bars.Color, bars.LineStyle.Width, bars.XMin = s.color, 0, shift
		p.Add(bars)
		at := make(plotter.XYs, len(s.values))
		for k, v := range s.values {
			at[k].X, at[k].Y = float64(k)+shift, v
			most = max(most, v)
			if s.ranges != nil {
				most = max(most, v+s.ranges[k].High)
			}
		}
		if s.ranges == nil {
			continue
		}
		ranges, err := figure.ErrorBars(at, s.ranges, figure.Ink)
		if err != nil {
			return nil, err
		}
		ranges.Width, ranges.CapWidth = vg.Points(0.7), vg.Points(4)
		p.Add(ranges)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.Y, 0, most)
	return p, nil
}
