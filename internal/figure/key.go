package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
func AddKey(p *plot.Plot, k Key) {
	p.Title.Padding = titleGap + rowHeight*vg.Length(len(k.rows(p, narrow)))
	p.Add(k)
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

// rows returns the entries row by row. Those of a ramp stay together.
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
