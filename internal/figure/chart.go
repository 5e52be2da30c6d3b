package figure

import (
	"encoding/json"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Chart is a picture as data, which charts.js draws on a page.
type Chart struct {
	Title string     `json:"title"`
	Text  string     `json:"text,omitempty"` // for those who do not see it
	X     ChartAxis  `json:"x"`
	Y     ChartAxis  `json:"y"`
	Key   []ChartKey `json:"key,omitempty"`
	Parts []Part     `json:"parts"`
}

// A ChartAxis says which values an axis has, and how it writes them.
type ChartAxis struct {
	Label string  `json:"label"`
	Low   Decimal `json:"low"`
	High  Decimal `json:"high"`
	Log   bool    `json:"log,omitempty"`
	Unit  Unit    `json:"unit,omitempty"`
	Names []Name  `json:"names,omitempty"` // in place of numbers
}

// A Name stands at a place of an axis.
type Name struct {
	At   Decimal `json:"at"`
	Name string  `json:"name"`
}

// A ChartKey explains a colour: a variable of the style, or #RRGGBB.
type ChartKey struct {
	Name  string `json:"name"`
	Color string `json:"color"`
}

// A Part is what is drawn in one colour.
type Part struct {
	Kind  string      `json:"kind"` // line, area, points, reach, boxes or strokes
	Color string      `json:"color"`
	Alpha Decimal     `json:"alpha,omitempty"`
	Size  Decimal     `json:"size,omitempty"` // width of a line, radius of points
	Dash  bool        `json:"dash,omitempty"`
	Shape string      `json:"shape,omitempty"` // of points; a disc if it is empty
	At    [][]Decimal `json:"at"`              // x, y; of boxes and strokes x0, y0, x1, y1; of reaches x, low, high
}

// A Unit is how an axis writes its numbers; "" is plainly.
type Unit string

// The units.
const (
	Seconds   Unit = "s"
	Bytes     Unit = "bytes"
	Rate      Unit = "bytes/s"
	LogBytes  Unit = "log2 bytes"   // of bytes their logarithm
	LogNumber Unit = "log10 number" // 0 for 0, else 1 more than the logarithm
)

// A Decimal is a number with seven digits, which no screen can tell from more.
type Decimal float64

// MarshalJSON writes null for what is no number.
func (d Decimal) MarshalJSON() ([]byte, error) {
	if f := float64(d); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(d), 'g', 7, 64), nil
}

// Shapes is a plotter of another package that says what it draws.
type Shapes interface{ Shapes(p *Picture) []Part }

// Chart returns the picture as data.
func (p *Picture) Chart() (*Chart, error) {
	c := &Chart{Title: p.Title.Text, Text: p.Text, X: chartAxis(&p.X, p.Units[0]), Y: chartAxis(&p.Y, p.Units[1]), Parts: []Part{}}
	for _, e := range p.Key {
		of := e.Color
		if e.Thumb != nil {
			parts, err := p.parts(e.Thumb)
			if err != nil {
				return nil, err
			}
			if len(parts) > 0 {
				c.Key = append(c.Key, ChartKey{e.Name, parts[0].Color})
			}
			continue
		}
		if _, _, _, alpha := of.RGBA(); alpha > 0 {
			name, _ := colourName(of)
			c.Key = append(c.Key, ChartKey{e.Name, name})
		}
	}
	for _, s := range p.shapes {
		parts, err := p.parts(s)
		if err != nil {
			return nil, err
		}
		c.Parts = append(c.Parts, parts...)
	}
	return c, nil
}

func chartAxis(a *plot.Axis, unit Unit) ChartAxis {
	c := ChartAxis{Label: a.Label.Text, Low: Decimal(a.Min), High: Decimal(a.Max), Log: isLog(a), Unit: unit}
	if names, ok := a.Tick.Marker.(plot.ConstantTicks); ok {
		for _, t := range names {
			c.Names = append(c.Names, Name{Decimal(t.Value), t.Label})
		}
	}
	return c
}

// parts says what a plotter draws.
func (p *Picture) parts(of any) ([]Part, error) {
	switch s := of.(type) {
	case *plotter.Grid:
		return nil, nil
	case Shapes:
		return s.Shapes(p), nil
	case *plotter.Line:
		part := newPart("line", s.Color, s.XYs)
		part.Size, part.Dash = Decimal(s.Width.Points()), len(s.Dashes) > 0
		return []Part{part}, nil
	case *plotter.Scatter:
		part := newPart("points", s.GlyphStyle.Color, s.XYs)
		part.Size, part.Shape = Decimal(s.GlyphStyle.Radius.Points()), shapeOf(s.GlyphStyle.Shape)
		return []Part{part}, nil
	case *plotter.Polygon:
		list := make([]Part, len(s.XYs))
		for i, outline := range s.XYs {
			list[i] = newPart("area", s.Color, outline)
		}
		return list, nil
	case *plotter.YErrorBars:
		part := newPart("reach", s.Color, nil)
		for i, at := range s.XYs {
			part.At = append(part.At, []Decimal{Decimal(at.X), Decimal(at.Y - math.Abs(s.YErrors[i].Low)), Decimal(at.Y + math.Abs(s.YErrors[i].High))})
		}
		return []Part{part}, nil
	case *plotter.BarChart:
		part := newPart("boxes", s.Color, nil)
		wide := barWidth(p, s.Width, s.Offset)
		for i, v := range s.Values {
			x := s.XMin + float64(i) + wide.shift
			part.At = append(part.At, []Decimal{Decimal(x - wide.half), 0, Decimal(x + wide.half), Decimal(v)})
		}
		return []Part{part}, nil
	}
	return nil, fmt.Errorf("figure: %T has no form as data", of)
}

type bar struct{ half, shift float64 }

// barWidth is the width of bars, which gonum has in points, in units of the axis.
func barWidth(p *Picture, width, offset vg.Length) bar {
	unit := (p.X.Max - p.X.Min) / float64(Width-margin)
	return bar{float64(width) * unit / 2, float64(offset) * unit}
}

// margin is about what stands beside the axes of a plot.
const margin = 60

func newPart(kind string, c color.Color, at plotter.XYs) Part {
	name, alpha := colourName(c)
	part := Part{Kind: kind, Color: name, At: [][]Decimal{}}
	if alpha < 1 {
		part.Alpha = Decimal(alpha)
	}
	for _, xy := range at {
		part.At = append(part.At, []Decimal{Decimal(xy.X), Decimal(xy.Y)})
	}
	return part
}

func shapeOf(g draw.GlyphDrawer) string {
	switch g.(type) {
	case draw.CrossGlyph, draw.PlusGlyph:
		return "cross"
	case draw.RingGlyph:
		return "ring"
	case draw.TriangleGlyph, draw.PyramidGlyph:
		return "triangle"
	case draw.SquareGlyph, draw.BoxGlyph:
		return "square"
	}
	return ""
}

// NewBoxes are rectangles of one colour, each x0, y0, x1, y1.
func NewBoxes(c color.Color, at [][]Decimal) Part {
	part := newPart("boxes", c, nil)
	part.At = at
	return part
}

// NewStrokes are lines of one colour, each x0, y0, x1, y1; a short one is a dot of some size.
func NewStrokes(c color.Color, size float64, at [][]Decimal) Part {
	part := newPart("strokes", c, nil)
	part.Size, part.At = Decimal(size), at
	return part
}

// variables names the colours of figures as the style of pages has them, so that a page can be
// light or dark: text, line, c0 to c7 for Categories, s0 to s7 for Ramp.
var variables = func() map[color.NRGBA]string {
	m := map[color.NRGBA]string{Ink: "--text", Faint: "--line"}
	for i, c := range Categories {
		m[c] = "--c" + strconv.Itoa(i)
	}
	for i, c := range Ramp {
		m[c] = "--s" + strconv.Itoa(i)
	}
	return m
}()

func colourName(of color.Color) (name string, alpha float64) {
	if of == nil {
		return variables[Ink], 1
	}
	c := color.NRGBAModel.Convert(of).(color.NRGBA)
	alpha, c.A = float64(c.A)/255, 255
	if name, ok := variables[c]; ok {
		return name, alpha
	}
	return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B), alpha
}

// Charts is the file of pictures as data, in the order in which they stand.
type Charts struct {
	Charts []*Chart `json:"charts"`
}

func writeCharts(w io.Writer, pictures ...*Picture) error {
	var list Charts
	for _, p := range pictures {
		if p == nil {
			continue
		}
		c, err := p.Chart()
		if err != nil {
			return err
		}
		list.Charts = append(list.Charts, c)
	}
	return json.NewEncoder(w).Encode(&list)
}
