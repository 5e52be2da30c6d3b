package report

import (
	"image/color"
	"math"
	"slices"

	"ckpt/iotrace"
)

const (
	// gridMarks is the number of requests that a grid keeps at most, far more than a
	// plot has room for. Below it, nothing is left out.
	gridMarks = 1 << 16
	gridBits  = 10
	gridCells = 1 << gridBits // in each direction, at most
	seenSlots = 2 * gridMarks
)

// A place is that of a request in a plot, in the units of the trace. Its class is an
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
	log                    bool // cells are those of the logarithm of y
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

// marks returns the requests as marks. x and y convert their units to those of the
// plot. The plot is as wide as if it had all requests.
func (g *grid) marks(x, y func(int64) float64, colors []color.NRGBA, limit int) *marks {
	m := newMarks(func(yield func(mark) bool) {
		for i := range g.kept {
			b := &g.kept[i]
			if !yield(mark{x(b.x0), y(b.y0), x(b.x1), y(b.y1), b.class}) {
				return
			}
		}
	}, colors, limit)
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

// A counter numbers the requests of each rank to each file.
type counter struct {
	files, ranks int
	dense        []int32             // by rank and file, if those are few
	sparse       map[[2]int32]*int32 // otherwise
	last         []stream            // of each rank, for sparse
}

type stream struct {
	file int32
	next *int32
}

// denseStreams bounds the memory of a dense counter: 16 MiB.
const denseStreams = 1 << 22

func newCounter(tr *iotrace.Trace) *counter {
	c := &counter{files: len(tr.Files), ranks: len(tr.Ranks), sparse: map[[2]int32]*int32{}}
	if c.files == 0 || c.ranks <= denseStreams/c.files {
		c.dense = make([]int32, c.ranks*c.files)
	} else {
		c.last = make([]stream, c.ranks)
	}
	return c
}

// next returns the number of a request to a file of the trace.
func (c *counter) next(rank, file int32) int {
	known := uint(rank) < uint(c.ranks)
	var next *int32
	switch {
	case known && c.dense != nil:
		next = &c.dense[int(rank)*c.files+int(file)]
	case known && c.last[rank].next != nil && c.last[rank].file == file:
		next = c.last[rank].next
	default:
		if next = c.sparse[[2]int32{rank, file}]; next == nil {
			next = new(int32)
			c.sparse[[2]int32{rank, file}] = next
		}
		if known {
			c.last[rank] = stream{file, next}
		}
	}
	*next++
	return int(*next - 1)
}
