// Package figure gives all pictures of ckpt one look: fonts, colours, the key above
// the axes, ticks and formats.
//
//	p := figure.New("Waste by interval")
//	p.Add(line)
//	figure.AddKey(p, figure.Key{{Name: "expected", Thumb: line}})
//	err := figure.Write(w, "svg", p)
//
// # Promises
//
//   - The key is above the axes and covers no data.
//   - The same plot gives the same bytes.
package figure

import (
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot/vg/vgpdf" // for pdf
	_ "gonum.org/v1/plot/vg/vgsvg" // for svg
)

// Width and Height are the size of a plot.
const Width, Height = 16 * vg.Centimeter, 9 * vg.Centimeter

// pixels is the resolution of PNG, per inch: text of 9 points stays sharp.
const pixels = 144

// Font returns the font of all text, in some size.
func Font(size vg.Length) font.Font {
	return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
}

// New returns an empty plot in the style of all plots, with a grid.
func New(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.Padding = title, titleGap
	for _, s := range []struct {
		style *text.Style
		size  vg.Length
	}{{&p.Title.TextStyle, 12}, {&p.X.Label.TextStyle, 10}, {&p.Y.Label.TextStyle, 10}, {&p.X.Tick.Label, 9}, {&p.Y.Tick.Label, 9}, {&p.Legend.TextStyle, 9}} {
		s.style.Font = Font(s.size)
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = Faint, Faint
	p.Add(grid)
	return p
}

// Draw draws a plot on a canvas, with a margin.
func Draw(p *plot.Plot, c draw.Canvas) { drawIn(p, margins(c)) }

// margins leaves space around a plot.
func margins(c draw.Canvas) draw.Canvas { return draw.Crop(c, 6, -14, 6, -6) }

func drawIn(p *plot.Plot, c draw.Canvas) {
	x, y := p.X.Label.Text, p.Y.Label.Text
	defer blankLabels(p)()
	p.Draw(c)
	data := p.DataCanvas(c)
	middle := data.Center()
	if isLog(&p.X) {
		style := p.X.Label.TextStyle
		c.FillText(style, vg.Point{X: middle.X, Y: c.Min.Y + style.FontExtents().Descent}, x)
	}
	if isLog(&p.Y) {
		style := p.Y.Label.TextStyle
		style.Rotation += math.Pi / 2
		c.FillText(style, vg.Point{X: c.Min.X + style.Height(y) - style.FontExtents().Descent, Y: middle.Y}, y)
	}
}

// blankLabels takes the labels from logarithmic axes, and keeps their space. Gonum v0.17
// looks for the middle of such an axis in the wrong place, and makes space for the
// label there. The result puts the labels back.
func blankLabels(p *plot.Plot) (restore func()) {
	x, y := p.X.Label.Text, p.Y.Label.Text
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		if isLog(a) {
			a.Label.Text = " "
		}
	}
	return func() { p.X.Label.Text, p.Y.Label.Text = x, y }
}

func isLog(a *plot.Axis) bool {
	_, log := a.Scale.(plot.LogScale)
	return log
}

// Write writes a plot as svg, png or pdf, on white.
func Write(w io.Writer, format string, p *plot.Plot) error {
	c, err := Canvas(Width, Height, format)
	if err != nil {
		return err
	}
	all := draw.New(c)
	all.FillPolygon(color.White, []vg.Point{{}, {X: Width}, {X: Width, Y: Height}, {Y: Height}})
	Draw(p, all)
	_, err = c.WriteTo(w)
	return err
}

// Canvas returns a canvas of a format: svg, png or pdf.
func Canvas(w, h vg.Length, format string) (vg.CanvasWriterTo, error) {
	if format == "png" {
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(pixels))}, nil
	}
	return draw.NewFormattedCanvas(w, h, format)
}
