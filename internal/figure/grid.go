package figure

import (
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The measures of a grid: the width of all of it, the height of a row.
const (
	gridWidth = 22 * vg.Centimeter
	gridRow   = 7 * vg.Centimeter
)

// WriteGrid writes plots in rows, one row below the other. The plots of a row share its
// width evenly; a nil leaves its place empty.
func WriteGrid(w io.Writer, format string, rows [][]*plot.Plot) error {
	height := gridRow * vg.Length(len(rows))
	c, err := Canvas(gridWidth, height, format)
	if err != nil {
		return err
	}
	all := draw.New(c)
	all.FillPolygon(color.White, []vg.Point{{}, {X: gridWidth}, {X: gridWidth, Y: height}, {Y: height}})
	for i, row := range rows {
		top := height - gridRow*vg.Length(i)
		for j, p := range row {
			if p == nil {
				continue
			}
			cell := gridWidth / vg.Length(len(row))
			Draw(p, draw.Canvas{Canvas: all.Canvas, Rectangle: vg.Rectangle{
				Min: vg.Point{X: cell * vg.Length(j), Y: top - gridRow},
				Max: vg.Point{X: cell * vg.Length(j+1), Y: top},
			}})
		}
	}
	_, err = c.WriteTo(w)
	return err
}
