package recovery

import (
	"fmt"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/internal/figure"
)

// A Figure is what is drawn.
type Figure struct {
	History *History
	Line    *Line        // of History; may be nil
	Garbage *Garbage     // of History; marks what can be removed
	Useless []Checkpoint // marked as well
	Title   string
	Unit    string // what the history calls a rank; "" is "rank"
}

// The colours.
var (
	black  = figure.Ink
	ink    = color.RGBA{60, 60, 60, 255}
	grey   = color.RGBA{90, 90, 90, 255}
	pale   = color.RGBA{168, 168, 168, 255}
	shade  = color.RGBA{250, 228, 214, 255}
	blue   = figure.Blue
	green  = figure.Green
	red    = figure.Vermilion
	purple = figure.Purple
	white  = color.RGBA{255, 255, 255, 255}
)

const (
	margin    = vg.Length(12)
	arrowHead = vg.Length(5)
	maxArrows = 500
)

// Draw writes the figure in the format "svg", "png" or "pdf".
func Draw(w io.Writer, format string, f Figure) error {
	if len(f.History.Ranks) == 0 {
		return fmt.Errorf("draw a history: it has no ranks")
	}
	for r := range f.History.Ranks {
		if len(f.History.Ranks[r].Checkpoints) == 0 {
			return fmt.Errorf("draw a history: rank %d has no checkpoint", r)
		}
	}
	if f.Unit == "" {
		f.Unit = "rank"
	}
	d := newDrawing(f)
	canvas, err := figure.Canvas(d.width, d.height, format)
	if err != nil {
		return fmt.Errorf("draw a history: %w", err)
	}
	d.Canvas = draw.NewCanvas(canvas, d.width, d.height)
	d.all()
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("draw a history: %w", err)
	}
	return nil
}

// A drawing is a figure with its measures.
type drawing struct {
	draw.Canvas
	Figure
	axis          axis
	arrows        []arrow
	hidden        int // arrows left out
	keys          []legendKey
	width, height vg.Length
	left, right   vg.Length // of the rank lines
	top, row      vg.Length // of the first rank, between ranks
	bottom        vg.Length // of the last rank
	small         vg.Length // font size beside marks, 0 if it does not fit
}

func newDrawing(f Figure) *drawing {
	d := &drawing{Figure: f, axis: newAxis(f.History)}
	d.arrows, d.hidden = findArrows(f, d.axis)
	n, marks := len(f.History.Ranks), 0
	for r := range f.History.Ranks {
		marks = max(marks, len(f.History.Ranks[r].Checkpoints))
	}
	area := min(max(vg.Length(max(26*marks, 9*len(d.arrows)/n)), 500), 1000)
	d.row = min(max(vg.Length(800/n), 13), 60)
	d.left = margin + 42
	if n > 16 {
		d.left = margin + 22
	}
	d.right = d.left + area
	d.width = d.right + 3*margin
	d.keys = d.legend()
	rows := d.place(d.keys)
	head := margin
	if f.Title != "" {
		head += 20
	}
	foot := 34 + vg.Length(rows)*16 + margin
	d.height = head + d.row*vg.Length(n) + foot
	d.top = d.height - head - d.row/2
	d.bottom = d.top - d.row*vg.Length(n-1)
	if d.row >= 24 {
		d.small = 8
	}
	return d
}

func (d *drawing) y(rank int) vg.Length { return d.top - vg.Length(rank)*d.row }

func (d *drawing) x(at float64) vg.Length {
	return d.left + vg.Length((at-d.axis.min)/(d.axis.max-d.axis.min))*(d.right-d.left)
}

func style(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: figure.Font(size), Handler: plot.DefaultTextHandler}
}

func (d *drawing) write(size vg.Length, c color.Color, x, y vg.Length, ax text.XAlignment, ay text.YAlignment, s string) {
	sty := style(size, c)
	sty.XAlign, sty.YAlign = ax, ay
	d.FillText(sty, vg.Point{X: x, Y: y}, s)
}

func (d *drawing) rect(c color.Color, x0, y0, x1, y1 vg.Length) {
	d.FillPolygon(c, []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
}

func (d *drawing) all() {
	d.rect(white, 0, 0, d.width, d.height)
	if d.Title != "" {
		d.write(12, black, d.left, d.height-margin, text.XLeft, text.YTop, d.Title)
	}
	d.drawLost()
	d.drawRanks()
	for _, weight := range []int{0, 1} { // what matters goes on top
		for _, a := range d.arrows {
			if a.kind.weight() == weight {
				d.drawArrow(a)
			}
		}
	}
	d.drawLine()
	d.drawMarks()
	d.drawAxis()
	d.drawKeys()
}

func (d *drawing) drawLost() {
	if d.Line == nil {
		return
	}
	half := d.row * 0.36
	for r, p := range d.Line.Places {
		if !p.Current {
			d.rect(shade, d.x(d.axis.at(r, p.Index)), d.y(r)-half, d.x(d.axis.end(r)), d.y(r)+half)
		}
	}
}

func (d *drawing) drawRanks() {
	size := min(10, d.row*0.72)
	for r := range d.History.Ranks {
		name := fmt.Sprint(r)
		if len(d.History.Ranks) <= 16 {
			name = d.Unit + " " + name
		}
		d.write(size, black, d.left-8, d.y(r), text.XRight, text.YCenter, name)
		end := d.x(d.axis.end(r))
		d.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.8}, d.left, d.y(r), end, d.y(r))
		if d.Line != nil && slices.Contains(d.Line.Failed, r) {
			d.cross(end, d.y(r), min(5, d.row*0.35))
		}
	}
}

func (d *drawing) cross(x, y, half vg.Length) {
	sty := draw.LineStyle{Color: red, Width: 2}
	d.StrokeLine2(sty, x-half, y-half, x+half, y+half)
	d.StrokeLine2(sty, x-half, y+half, x+half, y-half)
}

// drawLine draws the recovery line from above the first rank to below the last.
func (d *drawing) drawLine() {
	if d.Line == nil {
		return
	}
	var pts []vg.Point
	for r, p := range d.Line.Places {
		pts = append(pts, vg.Point{X: d.x(d.axis.at(r, p.Index)), Y: d.y(r)})
	}
	first, last := pts[0], pts[len(pts)-1]
	first.Y += d.row * 0.45
	last.Y -= d.row * 0.45
	pts = append(append([]vg.Point{first}, pts...), last)
	d.StrokeLines(draw.LineStyle{Color: green, Width: 2.2}, pts)
}

func (d *drawing) drawMarks() {
	half := min(7, d.row*0.3)
	for r := range d.History.Ranks {
		labelled := vg.Length(-100)
		for k, s := range d.History.Ranks[r].Checkpoints {
			x, y := d.x(d.axis.at(r, k)), d.y(r)
			d.mark(d.markOf(r, k), x, y, half)
			if label := fmt.Sprint(s.Number); d.small > 0 && !s.Logged && x-labelled > 4+5*vg.Length(len(label)) {
				d.write(d.small, ink, x+4, y+4, text.XLeft, text.YBottom, label)
				labelled = x
			}
		}
	}
}

// A markKind is how a state is drawn.
type markKind uint8

const (
	storedMark markKind = iota
	removableMark
	uselessMark
	loggedMark
	removableLogMark
)

func (d *drawing) markOf(r, k int) markKind {
	removable := d.Garbage != nil && slices.Contains(d.Garbage.Remove[r], k)
	switch {
	case d.History.Ranks[r].Checkpoints[k].Logged && removable:
		return removableLogMark
	case d.History.Ranks[r].Checkpoints[k].Logged:
		return loggedMark
	case slices.Contains(d.Useless, Checkpoint{Rank: r, Index: k}):
		return uselessMark
	case removable:
		return removableMark
	}
	return storedMark
}

func (d *drawing) mark(kind markKind, x, y, half vg.Length) {
	const w = vg.Length(1.6)
	switch kind {
	case loggedMark:
		d.DrawGlyphNoClip(draw.GlyphStyle{Color: black, Radius: half * 0.5, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
	case removableLogMark:
		d.DrawGlyphNoClip(draw.GlyphStyle{Color: white, Radius: half * 0.5, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
		d.DrawGlyphNoClip(draw.GlyphStyle{Color: grey, Radius: half * 0.5, Shape: draw.RingGlyph{}}, vg.Point{X: x, Y: y})
	case removableMark:
		d.rect(white, x-w, y-half, x+w, y+half)
		d.StrokeLines(draw.LineStyle{Color: grey, Width: 0.8}, []vg.Point{{X: x - w, Y: y - half}, {X: x + w, Y: y - half}, {X: x + w, Y: y + half}, {X: x - w, Y: y + half}, {X: x - w, Y: y - half}})
	case uselessMark:
		d.rect(purple, x-w, y-half, x+w, y+half)
		d.StrokeLine2(draw.LineStyle{Color: purple, Width: 1.4}, x-half*0.8, y+half*0.6, x+half*0.8, y-half*0.6)
	default:
		d.rect(black, x-w, y-half, x+w, y+half)
	}
}

func (d *drawing) drawAxis() {
	y := d.bottom - d.row/2 - 4
	line := draw.LineStyle{Color: grey, Width: 0.6}
	d.StrokeLine2(line, d.left, y, d.right, y)
	for _, t := range d.axis.ticks() {
		d.StrokeLine2(line, d.x(t), y, d.x(t), y-3)
		d.write(8, grey, d.x(t), y-4, text.XCenter, text.YTop, fmt.Sprint(t))
	}
	d.write(9, ink, d.right, y-14, text.XRight, text.YTop, d.axis.label)
}

// legend lists what occurs.
type legendKey struct {
	text string
	draw func(d *drawing, x, y vg.Length) // in a box of keyWidth, from the left, around y
	x    vg.Length
	row  int
}

const keyWidth = vg.Length(22)

// legend lists what occurs and nothing else.
func (d *drawing) legend() (keys []legendKey) {
	add := func(text string, draw func(d *drawing, x, y vg.Length)) {
		keys = append(keys, legendKey{text: text, draw: draw})
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
func (d *drawing) place(keys []legendKey) (rows int) {
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
