package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A box is a rectangle in the coordinates of a plot. Its class is an index of colours.
type box struct {
	x0, y0, x1, y1 float64
	class          int
}

// boxes draws rectangles, those of a class as one path, so that thousands of them take
// little space. Later classes lie upon earlier ones.
type boxes struct {
	all    []box
	colors []color.NRGBA
	// least is the smallest width and height of a box, so that it can be seen.
	least vg.Length
	// grow makes boxes larger on each side, so that no seam is between neighbours.
	grow vg.Length
}

func (b *boxes) DataRange() (xmin, xmax, ymin, ymax float64) {
	if len(b.all) == 0 {
		return 0, 1, 0, 1
	}
	xmin, ymin, xmax, ymax = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, k := range b.all {
		xmin, xmax = min(xmin, k.x0), max(xmax, k.x1)
		ymin, ymax = min(ymin, k.y0), max(ymax, k.y1)
	}
	return xmin, xmax, ymin, ymax
}

func (b *boxes) Plot(c draw.Canvas, p *plot.Plot) {
	fx, fy := p.Transforms(&c)
	for class, clr := range b.colors {
		var path vg.Path
		for _, k := range b.all {
			if k.class == class {
				path = b.outline(path, vg.Rectangle{Min: vg.Point{X: fx(k.x0), Y: fy(k.y0)}, Max: vg.Point{X: fx(k.x1), Y: fy(k.y1)}}, c.Rectangle)
			}
		}
		if len(path) > 0 {
			c.SetColor(clr)
			c.Fill(path)
		}
	}
}

// outline appends a rectangle within the axes to a path.
func (b *boxes) outline(path vg.Path, r, within vg.Rectangle) vg.Path {
	if w := r.Max.X - r.Min.X; w < b.least {
		r.Max.X = r.Min.X + b.least
	}
	if h := r.Max.Y - r.Min.Y; h < b.least {
		r.Max.Y = r.Min.Y + b.least
	}
	x0, x1 := max(r.Min.X-b.grow, within.Min.X), min(r.Max.X+b.grow, within.Max.X)
	y0, y1 := max(r.Min.Y-b.grow, within.Min.Y), min(r.Max.Y+b.grow, within.Max.Y)
	if x1 <= x0 { // at the right end of the axis
		x0, x1 = max(within.Min.X, within.Max.X-b.least), within.Max.X
	}
	path.Move(vg.Point{X: x0, Y: y0})
	path.Line(vg.Point{X: x1, Y: y0})
	path.Line(vg.Point{X: x1, Y: y1})
	path.Line(vg.Point{X: x0, Y: y1})
	path.Close()
	return path
}
