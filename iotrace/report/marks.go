package report

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/internal/figure"
)

const (
	// gridMarks is the number of requests that a grid keeps at most, far more than a
	// plot has room for. Below it, nothing is left out.
	gridMarks = 1 << 16
	gridBits  = 10
	gridCells = 1 << gridBits // in each direction, at most
	seenSlots = 2 * gridMarks
)

// A place is where a request lies in a plot, in the units of the trace. Its class is an
// index of colours.
type place struct {
	x0, y0, x1, y1 int64
	class          int
}

// A grid keeps as many requests as a plot needs of any number, in their order. Until it
// is full, it keeps all. Then it lays cells over them and keeps the first of each cell,
// and makes the cells coarser when it is full again. The sides of cells are powers of
// two, so that a coarse cell is made of whole fine ones: what a grid keeps does not
// depend on when it became coarser.
type grid struct {
	log                    bool // cells divide the logarithm of y
	kept                   []place
	n                      int // requests that were added
	xmin, xmax, ymin, ymax int64
	// Of the cells, once there are some: log₂ of their sides, the keys of those in use
	// (by hash, 0 is free), and the key of the last request.
	xbits, ybits uint
	seen         []uint64
	last         uint64
}

func newGrid(log bool) *grid {
	return &grid{log: log, xmin: math.MaxInt64, xmax: math.MinInt64, ymin: math.MaxInt64, ymax: math.MinInt64}
}

func (g *grid) add(b place) {
	g.n++
	if b.x0 < g.xmin || b.x1 > g.xmax || b.y0 < g.ymin || b.y1 > g.ymax {
		g.xmin, g.xmax = min(g.xmin, b.x0), max(g.xmax, b.x1)
		g.ymin, g.ymax = min(g.ymin, b.y0), max(g.ymax, b.y1)
		if g.seen != nil && !g.fits() {
			g.thin()
		}
	}
	if g.seen != nil {
		k := g.key(&b)
		if k == g.last || !g.take(k) {
			g.last = k
			return
		}
		g.last = k
	}
	g.kept = append(g.kept, b)
	if len(g.kept) == gridMarks {
		if g.seen != nil {
			g.xbits++
			g.ybits++
		}
		g.thin()
	}
}

// marks returns the requests as marks. x and y convert their units for the
// plot. The plot is as wide as if it had all requests.
func (g *grid) marks(x, y func(int64) float64, colors []color.NRGBA, limit int) *marks {
	m := &marks{colors: colors, limit: limit, xmax: 1, ymax: 1, dot: largeDot}
	for _, b := range g.kept {
		m.all = append(m.all, mark{x(b.x0), y(b.y0), x(b.x1), y(b.y1), b.class})
	}
	if g.n > 0 {
		m.xmin, m.xmax, m.ymin, m.ymax = x(g.xmin), x(g.xmax), y(g.ymin), y(g.ymax)
	}
	if g.n > fewMarks {
		m.dot = smallDot
	}
	return m
}

// fits reports whether the cells reach over all requests.
func (g *grid) fits() bool {
	return steps(g.xmin, g.xmax, g.xbits) < gridCells && steps(g.height(g.ymin), g.height(g.ymax), g.ybits) < gridCells
}

// steps returns the number of cells from one place to another. It is right even if the
// distance is no int64.
func steps(from, to int64, bits uint) uint64 { return uint64(to>>bits) - uint64(from>>bits) }

// thin makes the cells as coarse as they have to be.
func (g *grid) thin() {
	if g.seen == nil {
		g.seen = make([]uint64, seenSlots)
	}
	for steps(g.xmin, g.xmax, g.xbits) >= gridCells {
		g.xbits++
	}
	for steps(g.height(g.ymin), g.height(g.ymax), g.ybits) >= gridCells {
		g.ybits++
	}
	for {
		clear(g.seen)
		g.kept = slices.DeleteFunc(g.kept, func(b place) bool { return !g.take(g.key(&b)) })
		if len(g.kept) < gridMarks {
			g.last = 0
			return
		}
		g.xbits++
		g.ybits++
	}
}

// height places y on the axis. The bits of a floating-point number grow nearly as its
// logarithm does, and cost nothing.
func (g *grid) height(y int64) int64 {
	if g.log {
		return int64(math.Float64bits(float64(y)) >> 32)
	}
	return y
}

// key returns a number for the cells of both ends of a request, and its class. A
// request that ends in the next cell is a dot in the first. All cells of the grid
// differ in their last bits, which are enough.
func (g *grid) key(b *place) uint64 {
	x0, x1 := b.x0>>g.xbits, b.x1>>g.xbits
	y0 := g.height(b.y0) >> g.ybits
	y1 := y0
	if b.y1 != b.y0 {
		y1 = g.height(b.y1) >> g.ybits
	}
	if x1-x0 <= 1 && y1-y0 <= 1 {
		x1, y1 = x0, y0
	}
	const mask = gridCells - 1
	k := uint64(b.class+1)<<gridBits | uint64(x0)&mask
	k = k<<gridBits | uint64(y0)&mask
	k = k<<gridBits | uint64(x1)&mask
	return k<<gridBits | uint64(y1)&mask
}

// take reports whether a key is new, and remembers it.
func (g *grid) take(key uint64) bool {
	const shift = 64 - 17 // log₂ of seenSlots
	for i := key * 0x9e3779b97f4a7c15 >> shift; ; i = (i + 1) % seenSlots {
		switch g.seen[i] {
		case key:
			return false
		case 0:
			g.seen[i] = key
			return true
		}
	}
}

// A mark is a request on a plot: a line between two points, or a dot if the line is
// short. Its class is an index of colours.
type mark struct {
	x0, y0, x1, y1 float64
	class          int
}

// marks draws any number of marks. It draws those that fall into one cell of a grid
// once. Cells are a point wide, then twice as much, four times and so on, until at
// most limit marks are left. It passes over all marks each time, without storing them.
type marks struct {
	all                    []mark
	colors                 []color.NRGBA
	limit                  int
	xmin, xmax, ymin, ymax float64
	dot                    float64
}

// The size of dots in points, and of dots in a plot with few marks.
const (
	smallDot = 2.2
	largeDot = 3.4
	fewMarks = 150
)

func (m *marks) DataRange() (xmin, xmax, ymin, ymax float64) { return m.xmin, m.xmax, m.ymin, m.ymax }

// A cell has the start and the end of a mark, rounded to the grid.
type cell struct {
	x0, y0, x1, y1 int16
	class          int16
}

func (m *marks) Plot(c draw.Canvas, p *plot.Plot) {
	fx, fy := p.Transforms(&c)
	m.draw(c, fx, fy, m.fewer(&c, fx, fy))
}

// Shapes says which marks a page draws.
func (m *marks) Shapes(p *figure.Picture) (list []figure.Part) {
	c := draw.Canvas{Rectangle: vg.Rectangle{Max: vg.Point{X: figure.Width, Y: figure.Height}}}
	fx, fy := p.Transforms(&c)
	at := make([][][]figure.Decimal, len(m.colors))
	for _, k := range m.fewer(&c, fx, fy) {
		at[k.class] = append(at[k.class], []figure.Decimal{figure.Decimal(k.x0), figure.Decimal(k.y0), figure.Decimal(k.x1), figure.Decimal(k.y1)})
	}
	for class, marks := range at {
		if len(marks) > 0 {
			list = append(list, figure.NewStrokes(m.colors[class], m.dot, marks))
		}
	}
	return list
}

// fewer are the marks that are drawn.
func (m *marks) fewer(c *draw.Canvas, fx, fy func(float64) vg.Length) []mark {
	for size := 1.0; ; size *= 2 {
		if kept, all := m.thin(c, fx, fy, size); all || size > 1024 {
			return m.shared(kept, func(k mark) cell { return m.cell(k, c, fx, fy, max(size, m.dot)) })
		}
	}
}

// thin returns the first mark of each cell. The result is false if it stopped at the
// limit.
func (m *marks) thin(c *draw.Canvas, fx, fy func(float64) vg.Length, size float64) (kept []mark, all bool) {
	seen := map[cell]bool{}
	for _, k := range m.all {
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

// draw draws marks class by class, lines over dots. A dot is as long a line as it is wide.
func (m *marks) draw(c draw.Canvas, fx, fy func(float64) vg.Length, kept []mark) {
	c.SetLineDash(nil, 0)
	for class, clr := range m.colors {
		c.SetColor(clr)
		var lines, dots vg.Path
		for _, k := range kept {
			if k.class != class {
				continue
			}
			from := vg.Point{X: fx(k.x0), Y: fy(k.y0)}
			to := vg.Point{X: fx(k.x1), Y: fy(k.y1)}
			if d := to.Sub(from); math.Hypot(float64(d.X), float64(d.Y)) >= m.dot {
				lines.Move(from)
				lines.Line(to)
			} else {
				dots.Move(vg.Point{X: from.X - vg.Length(m.dot)/2, Y: from.Y})
				dots.Line(vg.Point{X: from.X + vg.Length(m.dot)/2, Y: from.Y})
			}
		}
		for _, p := range []struct {
			path  vg.Path
			width float64
		}{{dots, m.dot}, {lines, smallDot}} {
			if len(p.path) > 0 {
				c.SetLineWidth(vg.Length(p.width))
				c.Stroke(p.path)
			}
		}
	}
}

// outline appends a rectangle to a path.
func outline(path *vg.Path, x0, y0, x1, y1 vg.Length) {
	path.Move(vg.Point{X: x0, Y: y0})
	path.Line(vg.Point{X: x1, Y: y0})
	path.Line(vg.Point{X: x1, Y: y1})
	path.Line(vg.Point{X: x0, Y: y1})
	path.Close()
}

// A box is a rectangle in the coordinates of a plot. Its class is an index of colours.
type box struct {
	x0, y0, x1, y1 float64
	class          int
}

// boxes draws rectangles, all of a class as one path, so that thousands of them take
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

// Shapes says which boxes a page draws.
func (b *boxes) Shapes(*figure.Picture) (list []figure.Part) {
	for class, c := range b.colors {
		var at [][]figure.Decimal
		for _, k := range b.all {
			if k.class == class {
				at = append(at, []figure.Decimal{figure.Decimal(k.x0), figure.Decimal(k.y0), figure.Decimal(k.x1), figure.Decimal(k.y1)})
			}
		}
		if len(at) > 0 {
			list = append(list, figure.NewBoxes(c, at))
		}
	}
	return list
}

func (b *boxes) Plot(c draw.Canvas, p *plot.Plot) {
	fx, fy := p.Transforms(&c)
	for class, clr := range b.colors {
		var path vg.Path
		for _, k := range b.all {
			if k.class == class {
				path = b.within(path, vg.Rectangle{Min: vg.Point{X: fx(k.x0), Y: fy(k.y0)}, Max: vg.Point{X: fx(k.x1), Y: fy(k.y1)}}, c.Rectangle)
			}
		}
		if len(path) > 0 {
			c.SetColor(clr)
			c.Fill(path)
		}
	}
}

// within appends a rectangle within the axes to a path.
func (b *boxes) within(path vg.Path, r, within vg.Rectangle) vg.Path {
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
	outline(&path, x0, y0, x1, y1)
	return path
}
