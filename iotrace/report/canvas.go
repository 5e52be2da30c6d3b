package report

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"

	"ckpt/internal/figure"
)

// canvas draws SVG for pages. It differs from gonum's canvas in three ways. Colours
// are CSS variables of the page, so that it can be light or dark. Paths of the same
// style are one element, and dots are zero-length lines with round caps, so that a
// thousand of them take ten kilobytes. Text has the page's font.
type canvas struct {
	w, h  vg.Length
	title string
	out   bytes.Buffer
	state state
	stack []state
	open  string       // style of the path being collected
	path  bytes.Buffer // its data
}

type state struct {
	color  color.Color
	width  vg.Length
	dashes []vg.Length
	// x' = a·x + c·y + e, y' = b·x + d·y + f
	a, b, c, d, e, f float64
}

func newCanvas(w, h vg.Length, title string) *canvas {
	c := &canvas{w: w, h: h, title: title, state: state{a: 1, d: 1}}
	vg.Initialize(c)
	return c
}

func (c *canvas) Size() (w, h vg.Length)                 { return c.w, c.h }
func (c *canvas) SetLineWidth(w vg.Length)               { c.state.width = w }
func (c *canvas) SetLineDash(d []vg.Length, _ vg.Length) { c.state.dashes = d }
func (c *canvas) SetColor(clr color.Color)               { c.state.color = clr }
func (c *canvas) Push()                                  { c.stack = append(c.stack, c.state) }

func (c *canvas) Pop() {
	c.state = c.stack[len(c.stack)-1]
	c.stack = c.stack[:len(c.stack)-1]
}

func (c *canvas) Rotate(rad float64) {
	s := &c.state
	sin, cos := math.Sincos(rad)
	s.a, s.b, s.c, s.d = s.a*cos+s.c*sin, s.b*cos+s.d*sin, s.c*cos-s.a*sin, s.d*cos-s.b*sin
}

func (c *canvas) Translate(p vg.Point) {
	s := &c.state
	x, y := float64(p.X), float64(p.Y)
	s.e, s.f = s.a*x+s.c*y+s.e, s.b*x+s.d*y+s.f
}

func (c *canvas) Scale(x, y float64) {
	s := &c.state
	s.a, s.b, s.c, s.d = s.a*x, s.b*x, s.c*y, s.d*y
}

// place converts a point to SVG coordinates, whose y axis points down.
func (c *canvas) place(p vg.Point) (x, y float64) {
	s := &c.state
	px, py := float64(p.X), float64(p.Y)
	return s.a*px + s.c*py + s.e, float64(c.h) - (s.b*px + s.d*py + s.f)
}

// name returns the colour as a CSS value.
func (c *canvas) name() string {
	clr := c.state.color
	if clr == nil {
		clr = color.Black
	}
	n := color.NRGBAModel.Convert(clr).(color.NRGBA)
	if v, ok := figure.Variables[n]; ok {
		return "var(--" + v + ")"
	}
	return fmt.Sprintf("#%02x%02x%02x%02x", n.R, n.G, n.B, n.A)
}

// begin opens a path of a style, unless the open path has the same style.
func (c *canvas) begin(style string) {
	if style == c.open {
		return
	}
	c.flush()
	c.open = style
}

func (c *canvas) flush() {
	if c.path.Len() > 0 {
		fmt.Fprintf(&c.out, `<path style="%s" d="%s"/>`+"\n", c.open, c.path.Bytes())
	}
	c.path.Reset()
	c.open = ""
}

func number(b []byte, x float64) []byte {
	x = math.Round(x*10) / 10
	if x == 0 {
		x = 0 // not -0
	}
	return strconv.AppendFloat(b, x, 'f', -1, 64)
}

func (c *canvas) point(command byte, p vg.Point) {
	x, y := c.place(p)
	b := append(c.path.AvailableBuffer(), command)
	b = number(b, x)
	b = append(b, ' ')
	c.path.Write(number(b, y))
}

func (c *canvas) trace(p vg.Path) {
	var from vg.Point // of a line
	for _, comp := range p {
		switch comp.Type {
		case vg.MoveComp:
			c.point('M', comp.Pos)
		case vg.LineComp:
			c.lineTo(from, comp.Pos)
		case vg.CloseComp:
			c.path.WriteByte('Z')
		case vg.ArcComp:
			// Plots have few arcs, and a polygon is precise enough for them.
			const steps = 24
			for i := range steps + 1 {
				sin, cos := math.Sincos(comp.Start + comp.Angle*float64(i)/steps)
				at := vg.Point{X: comp.Pos.X + comp.Radius*vg.Length(cos), Y: comp.Pos.Y + comp.Radius*vg.Length(sin)}
				if i == 0 && c.path.Len() == 0 {
					c.point('M', at)
				} else {
					c.point('L', at)
				}
			}
		case vg.CurveComp:
			c.point('L', comp.Pos)
		}
		from = comp.Pos
	}
}

// lineTo appends a line, a level or upright one in short.
func (c *canvas) lineTo(from, to vg.Point) {
	x, y := c.place(to)
	x0, y0 := c.place(from)
	switch b := c.path.AvailableBuffer(); {
	case y == y0:
		c.path.Write(number(append(b, 'H'), x))
	case x == x0:
		c.path.Write(number(append(b, 'V'), y))
	default:
		c.point('L', to)
	}
}

func (c *canvas) Stroke(p vg.Path) {
	if c.state.width <= 0 || len(p) == 0 {
		return
	}
	style := fmt.Sprintf("fill:none;stroke:%s;stroke-width:%s", c.name(), number(nil, float64(c.state.width)))
	if len(c.state.dashes) > 0 {
		style += ";stroke-dasharray:"
		for i, d := range c.state.dashes {
			if i > 0 {
				style += ","
			}
			style += string(number(nil, float64(d)))
		}
	}
	c.begin(style)
	c.trace(p)
}

// Fill fills a path. The page draws the background of a plot.
func (c *canvas) Fill(p vg.Path) {
	if len(p) == 0 || c.state.color == color.White {
		return
	}
	if at, size, ok := isDot(p); ok {
		c.begin(fmt.Sprintf("stroke:%s;stroke-width:%s;stroke-linecap:round", c.name(), number(nil, size)))
		c.point('M', at)
		c.path.WriteString("h0")
		return
	}
	c.begin("fill:" + c.name())
	c.trace(p)
}

// isDot reports whether dot has made the path.
func isDot(p vg.Path) (at vg.Point, size float64, ok bool) {
	const most = 4 // points
	if len(p) != 5 || p[4].Type != vg.CloseComp {
		return at, 0, false
	}
	d := p[2].Pos.Sub(p[0].Pos)
	if d.X != d.Y || d.X <= 0 || d.X > most || p[1].Pos.Y != p[0].Pos.Y || p[3].Pos.X != p[0].Pos.X {
		return at, 0, false
	}
	return p[0].Pos.Add(d.Scale(0.5)), float64(d.X), true
}

func (c *canvas) FillString(f font.Face, at vg.Point, text string) {
	if f.Font.Size == 0 || text == "" {
		return
	}
	c.flush()
	x, y := c.place(at)
	b := append(c.out.AvailableBuffer(), `<text x="`...)
	b = number(b, x)
	b = append(b, `" y="`...)
	b = number(b, y)
	b = append(b, `" font-size="`...)
	b = number(b, float64(f.Font.Size))
	// The page's font may be wider than the font of the plot's layout.
	b = append(b, `" textLength="`...)
	b = number(b, float64(f.Width(text)))
	b = append(b, `" lengthAdjust="spacingAndGlyphs`...)
	if turn := math.Atan2(c.state.b, c.state.a) * 180 / math.Pi; math.Abs(turn) > 0.05 {
		b = append(b, `" transform="rotate(`...)
		b = number(b, -turn)
		b = append(b, ' ')
		b = number(b, x)
		b = append(b, ' ')
		b = number(b, y)
		b = append(b, ')')
	}
	c.out.Write(b)
	fmt.Fprintf(&c.out, `" style="fill:%s">%s</text>`+"\n", c.name(), html.EscapeString(text))
}

// DrawImage draws nothing, because no plot has an image.
func (c *canvas) DrawImage(vg.Rectangle, image.Image) {}

// WriteTo writes the SVG element.
func (c *canvas) WriteTo(w io.Writer) (int64, error) {
	c.flush()
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg viewBox="0 0 %s %s" role="img"><title>%s</title>`+"\n", number(nil, float64(c.w)), number(nil, float64(c.h)), html.EscapeString(c.title))
	b.Write(c.out.Bytes())
	b.WriteString("</svg>\n")
	return b.WriteTo(w)
}
