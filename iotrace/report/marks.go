package report

import (
	"image/color"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A mark is a request on a plot: a line between two points, or a dot if the line is
// short. Its class is an index of colours.
type mark struct {
	x0, y0, x1, y1 float64
	class          int
}

// marks draws any number of marks. It draws those that fall into one cell of a grid
// once. Cells are a point wide, then twice as much, four times and so on, until at
// most limit marks are left. It passes over all marks each time and stores none.
type marks struct {
	all                    iter.Seq[mark]
	colors                 []color.NRGBA
	limit                  int
	xmin, xmax, ymin, ymax float64
	any                    bool
	dot                    float64
}

// The size of dots in points, and of dots in a plot with few marks.
const (
	smallDot = 2.2
	largeDot = 3.4
	fewMarks = 150
)

func newMarks(all iter.Seq[mark], colors []color.NRGBA, limit int) *marks {
	m := &marks{all: all, colors: colors, limit: limit}
	m.xmin, m.ymin = math.Inf(1), math.Inf(1)
	m.xmax, m.ymax = math.Inf(-1), math.Inf(-1)
	n := 0
	for k := range all {
		n++
		m.any = true
		m.xmin, m.xmax = min(m.xmin, k.x0, k.x1), max(m.xmax, k.x0, k.x1)
		m.ymin, m.ymax = min(m.ymin, k.y0, k.y1), max(m.ymax, k.y0, k.y1)
	}
	m.dot = largeDot
	if n > fewMarks {
		m.dot = smallDot
	}
	if !m.any {
		m.xmin, m.xmax, m.ymin, m.ymax = 0, 1, 0, 1
	}
	return m
}

func (m *marks) DataRange() (xmin, xmax, ymin, ymax float64) { return m.xmin, m.xmax, m.ymin, m.ymax }

// A cell has the start and the end of a mark, rounded to the grid.
type cell struct {
	x0, y0, x1, y1 int16
	class          int16
}

func (m *marks) Plot(c draw.Canvas, p *plot.Plot) {
	if !m.any {
		return
	}
	fx, fy := p.Transforms(&c)
	for size := 1.0; ; size *= 2 {
		if kept, all := m.thin(&c, fx, fy, size); all || size > 1024 {
			m.draw(c, fx, fy, m.shared(kept, func(k mark) cell { return m.cell(k, &c, fx, fy, max(size, m.dot)) }))
			return
		}
	}
}

// thin returns the first mark of each cell. The result is false if it stopped at the
// limit.
func (m *marks) thin(c *draw.Canvas, fx, fy func(float64) vg.Length, size float64) (kept []mark, all bool) {
	seen := map[cell]bool{}
	for k := range m.all {
		at := m.cell(k, c, fx, fy, size)
		if seen[at] {
			continue
		}
		if len(kept) == m.limit {
			return kept, false
		}
		seen[at] = true
		kept = append(kept, k)
	}
	return kept, true
}

// shared assigns each cell to one of its classes so that all classes get as many
// cells. Without it the class that is drawn last would cover the others.
func (m *marks) shared(kept []mark, at func(mark) cell) []mark {
	classes := map[cell][]int{}
	var cells []cell // in the order of the marks
	for i := range kept {
		k := at(kept[i])
		k.class = 0
		cells = append(cells, k)
		if !slices.Contains(classes[k], kept[i].class) {
			classes[k] = append(classes[k], kept[i].class)
		}
	}
	given := make([]int, len(m.colors))
	owner := map[cell]int{}
	// First the cells of a single class, which have no choice.
	for only := range 2 {
		for _, k := range cells {
			if _, ok := owner[k]; ok || only == 0 && len(classes[k]) > 1 {
				continue
			}
			owner[k] = slices.MinFunc(classes[k], func(a, b int) int { return given[a] - given[b] })
			given[owner[k]]++
		}
	}
	var out []mark
	for i, k := range cells {
		if owner[k] == kept[i].class {
			out = append(out, kept[i])
		}
	}
	return out
}

func (m *marks) cell(k mark, c *draw.Canvas, fx, fy func(float64) vg.Length, size float64) cell {
	x0, y0 := float64(fx(k.x0)-c.Min.X), float64(fy(k.y0)-c.Min.Y)
	x1, y1 := float64(fx(k.x1)-c.Min.X), float64(fy(k.y1)-c.Min.Y)
	at := func(x float64) int16 { return int16(max(-1, min(math.MaxInt16, x/size))) }
	out := cell{at(x0), at(y0), at(x1), at(y1), int16(k.class)}
	if math.Hypot(x1-x0, y1-y0) < m.dot {
		out.x1, out.y1 = out.x0, out.y0
	}
	return out
}

// draw draws marks class by class, lines over dots.
func (m *marks) draw(c draw.Canvas, fx, fy func(float64) vg.Length, kept []mark) {
	c.SetLineWidth(smallDot)
	c.SetLineDash(nil, 0)
	for class, clr := range m.colors {
		c.SetColor(clr)
		var lines []vg.Path
		for _, k := range kept {
			if k.class != class {
				continue
			}
			from, to := vg.Point{X: fx(k.x0), Y: fy(k.y0)}, vg.Point{X: fx(k.x1), Y: fy(k.y1)}
			if d := to.Sub(from); math.Hypot(float64(d.X), float64(d.Y)) >= m.dot {
				lines = append(lines, line(from, to))
			} else {
				c.Fill(dot(from, vg.Length(m.dot)))
			}
		}
		for _, l := range lines {
			c.Stroke(l)
		}
	}
}

func line(from, to vg.Point) vg.Path {
	var p vg.Path
	p.Move(from)
	p.Line(to)
	return p
}

// dot is a small square around a point. The canvas of a page makes it round.
func dot(at vg.Point, size vg.Length) vg.Path {
	r := size / 2
	a, b := at.Sub(vg.Point{X: r, Y: r}), at.Add(vg.Point{X: r, Y: r})
	// All sides are equal to the last bit; isDot relies on it.
	side := min(b.X-a.X, b.Y-a.Y)
	var p vg.Path
	p.Move(a)
	p.Line(vg.Point{X: a.X + side, Y: a.Y})
	p.Line(vg.Point{X: a.X + side, Y: a.Y + side})
	p.Line(vg.Point{X: a.X, Y: a.Y + side})
	p.Close()
	return p
}
