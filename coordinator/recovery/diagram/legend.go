package diagram

import (
	"fmt"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A key explains something that is in the drawing.
type key struct {
	text string
	draw func(d *drawing, x, y vg.Length) // in a box of keyWidth, from the left, around y
	x    vg.Length
	row  int
}

const keyWidth = vg.Length(22)

// legend lists what occurs and nothing else.
func (d *drawing) legend() (keys []key) {
	add := func(text string, draw func(d *drawing, x, y vg.Length)) {
		keys = append(keys, key{text: text, draw: draw})
	}
	if d.Line != nil {
		add("recovery line", func(d *drawing, x, y vg.Length) {
			d.StrokeLine2(draw.LineStyle{Color: green, Width: 2.2}, x, y, x+keyWidth, y)
		})
		if len(d.Line.Steps) > 0 {
			add("work lost", func(d *drawing, x, y vg.Length) { d.rect(shade, x, y-5, x+keyWidth, y+5) })
		}
		if len(d.Line.Failed) > 0 {
			add("failure", func(d *drawing, x, y vg.Length) {
				d.cross(x+keyWidth/2, y, 4)
			})
		}
	}
	marks := make(map[markKind]bool)
	for r := range d.History.Ranks {
		for k := range d.History.Ranks[r].Checkpoints {
			marks[d.markOf(r, k)] = true
		}
	}
	for kind, name := range []string{"checkpoint", "checkpoint, removable", "checkpoint, useless", "rebuilt from a log", "rebuilt from a log, removable"} {
		if kind := markKind(kind); marks[kind] {
			add(name, func(d *drawing, x, y vg.Length) { d.mark(kind, x+keyWidth/2, y, 5) })
		}
	}
	arrows := make(map[arrowKind]bool)
	for _, a := range d.arrows {
		arrows[a.kind] = true
	}
	for kind, name := range []string{"message", "message, undone", "message on its way", "in transit: from the log", "would be lost: forces a rank back", "orphan: forces a rank back"} {
		if kind := arrowKind(kind); arrows[kind] {
			add(name, func(d *drawing, x, y vg.Length) {
				from, to := vg.Point{X: x, Y: y}, vg.Point{X: x + keyWidth, Y: y}
				d.StrokeLine2(kind.style(), from.X, from.Y, to.X, to.Y)
				d.head(kind.style().Color, from, to)
			})
		}
	}
	if d.hidden > 0 {
		add(fmt.Sprintf("%d other messages are not drawn", d.hidden), nil)
	}
	return keys
}

// place gives the keys their places, and returns in how many rows.
func (d *drawing) place(keys []key) (rows int) {
	x := margin
	for i := range keys {
		w := style(9, ink).Width(keys[i].text) + keyWidth + 20
		if keys[i].draw == nil {
			w -= keyWidth + 4
		}
		if x > margin && x+w > d.width-margin {
			x = margin
			rows++
		}
		keys[i].x, keys[i].row = x, rows
		x += w
	}
	return rows + 1
}

func (d *drawing) drawKeys() {
	top := d.bottom - d.row/2 - 4 - 34
	for _, k := range d.keys {
		x, y := k.x, top-vg.Length(k.row)*16
		if k.draw != nil {
			k.draw(d, x, y)
			x += keyWidth + 4
		}
		d.write(9, ink, x, y, text.XLeft, text.YCenter, k.text)
	}
}
