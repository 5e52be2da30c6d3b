package figure

import (
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// under is the height of the plot at the bottom of a stack.
const under = 5 * vg.Centimeter

// WriteStack writes two plots, one below the other, with the ends of their horizontal axes
// in line.
func WriteStack(w io.Writer, format string, top, bottom *plot.Plot) error {
	c, err := Canvas(Width, Height+under, format)
	if err != nil {
		return err
	}
	all := draw.New(c)
	all.FillPolygon(color.White, []vg.Point{{}, {X: Width}, {X: Width, Y: Height + under}, {Y: Height + under}})
	upper, lower := stacked(all, top, bottom)
	drawIn(top, upper)
	drawIn(bottom, lower)
	_, err = c.WriteTo(w)
	return err
}

// stacked divides a canvas between two plots. Labels of ticks differ in width; the plot
// with the narrower ones gets a wider margin.
func stacked(all draw.Canvas, top, bottom *plot.Plot) (upper, lower draw.Canvas) {
	upper, lower = margins(draw.Crop(all, 0, 0, under, 0)), margins(draw.Crop(all, 0, 0, 0, -Height))
	a, b := axes(top, upper), axes(bottom, lower)
	upper = draw.Crop(upper, max(0, b.Min.X-a.Min.X), min(0, b.Max.X-a.Max.X), 0, 0)
	lower = draw.Crop(lower, max(0, a.Min.X-b.Min.X), min(0, a.Max.X-b.Max.X), 0, 0)
	return upper, lower
}

// axes returns the area within the axes of a plot.
func axes(p *plot.Plot, c draw.Canvas) vg.Rectangle {
	defer blankLabels(p)()
	return p.DataCanvas(c).Rectangle
}
