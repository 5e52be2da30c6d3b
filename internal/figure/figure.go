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
	"slices"

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

// New returns an empty picture in the style of all plots, with a grid.
func New(title string) *Picture {
	p := &Picture{Plot: plot.New()}
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
func Draw(p *Picture, c draw.Canvas) { drawIn(p.Plot, margins(c)) }

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

// data is the format of a picture as data.
const data = "json"

// Write writes a plot as svg, png or pdf, on white, or as data, json.
func Write(w io.Writer, format string, p *Picture) error {
	if format == data {
		return writeCharts(w, p)
	}
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

// The measures of a grid: the width of all of it, the height of a row.
const (
	gridWidth = 22 * vg.Centimeter
	gridRow   = 7 * vg.Centimeter
)

// WriteGrid writes plots in rows, one row below the other. The plots of a row share its
// width evenly; a nil leaves its place empty.
func WriteGrid(w io.Writer, format string, rows [][]*Picture) error {
	if format == data {
		return writeCharts(w, slices.Concat(rows...)...)
	}
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

// under is the height of the plot at the bottom of a stack.
const under = 5 * vg.Centimeter

// WriteStack writes two plots, one below the other, with the ends of their horizontal axes
// in line.
func WriteStack(w io.Writer, format string, top, bottom *Picture) error {
	if format == data {
		return writeCharts(w, top, bottom)
	}
	c, err := Canvas(Width, Height+under, format)
	if err != nil {
		return err
	}
	all := draw.New(c)
	all.FillPolygon(color.White, []vg.Point{{}, {X: Width}, {X: Width, Y: Height + under}, {Y: Height + under}})
	upper, lower := stacked(all, top.Plot, bottom.Plot)
	drawIn(top.Plot, upper)
	drawIn(bottom.Plot, lower)
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

// An Entry of a key explains a colour or a plotter.
type Entry struct {
	Name  string // empty in the middle of a ramp
	Color color.Color
	Thumb plot.Thumbnailer // drawn instead of the colour, if not nil
}

// A Key explains what a plot shows, in rows between its title and its axes.
type Key []Entry

// The measures of a key.
const (
	titleGap  = vg.Length(6) // between the title and what is below
	rowHeight = vg.Length(13)
	box       = vg.Length(7)
	thumb     = vg.Length(20)
	space     = vg.Length(4)
	apart     = vg.Length(10)
	narrow    = Width - 130 // of the axes, whatever their labels
)

// AddKey adds a key to a plot and leaves space for its rows above the axes.
func AddKey(p *Picture, k Key) {
	p.Title.Padding = titleGap + rowHeight*vg.Length(len(k.rows(p.Plot, narrow)))
	p.Key = k
	p.Plot.Add(k)
}

// width returns the width of an entry.
func (e *Entry) width(p *plot.Plot) vg.Length {
	w := box
	if e.Thumb != nil {
		w = thumb
	}
	if e.Name == "" {
		return w + 1
	}
	return w + space + p.Legend.TextStyle.Width(e.Name) + apart
}

// rows returns the entries row by row. A ramp keeps its entries together.
func (k Key) rows(p *plot.Plot, most vg.Length) (rows []Key) {
	var x vg.Length
	for len(k) > 0 {
		n, w := 1, k[0].width(p)
		for k[n-1].Name == "" && n < len(k) {
			w += k[n].width(p)
			n++
		}
		if len(rows) == 0 || x+w-apart > most {
			rows, x = append(rows, nil), 0
		}
		last := len(rows) - 1
		rows[last], x, k = append(rows[last], k[:n]...), x+w, k[n:]
	}
	return rows
}

// Plot draws the key above the canvas, which is the area within the axes.
func (k Key) Plot(c draw.Canvas, p *plot.Plot) {
	rows := k.rows(p, narrow)
	y := c.Max.Y + space + rowHeight*vg.Length(len(rows)-1)
	for _, row := range rows {
		x := c.Min.X
		for _, e := range row {
			e.draw(c, p, vg.Point{X: x, Y: y})
			x += e.width(p)
		}
		y -= rowHeight
	}
}

// draw draws an entry at its lower left corner.
func (e *Entry) draw(c draw.Canvas, p *plot.Plot, at vg.Point) {
	w := box
	if e.Thumb == nil {
		c.FillPolygon(e.Color, []vg.Point{at, {X: at.X + box, Y: at.Y}, {X: at.X + box, Y: at.Y + box - 1}, {X: at.X, Y: at.Y + box - 1}})
	} else {
		w = thumb
		e.Thumb.Thumbnail(&draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: at, Max: vg.Point{X: at.X + w, Y: at.Y + box}}})
	}
	if e.Name != "" {
		c.FillText(p.Legend.TextStyle, vg.Point{X: at.X + w + space, Y: at.Y}, e.Name)
	}
}
