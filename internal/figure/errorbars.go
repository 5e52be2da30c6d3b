package figure

import (
	"image/color"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// ErrorBars returns vertical bars that reach from each point down to its low and up to
// its high.
func ErrorBars(at plotter.XYs, reach plotter.YErrors, c color.Color) (*plotter.YErrorBars, error) {
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{at, reach})
	if err != nil {
		return nil, err
	}
	bars.Color, bars.Width, bars.CapWidth = c, vg.Points(1), vg.Points(6)
	return bars, nil
}
