package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/internal/figure"
	"ckpt/iotrace"
)

// requests are the single requests of pictures, as many as these need. Each rank counts its
// requests to each file, as in the figures of the thesis, which show one process. Equal
// requests of several ranks coincide.
type requests struct {
	grids   map[Plot]*grid
	numbers *counter
	colors  []color.NRGBA // of ranks
	classes []int         // by rank, of colors
	key     figure.Key
}

func newRequests(tr *iotrace.Trace) *requests {
	return &requests{grids: map[Plot]*grid{}, numbers: newCounter(tr)}
}

func (q *requests) colourRanks(tr *iotrace.Trace, active []bool) {
	q.colors, q.classes, q.key = rankColors(tr, active)
}

func (q *requests) add(e *iotrace.Event) {
	x := int64(q.numbers.next(e.Rank, e.File))
	if g := q.grids[Sizes]; g != nil {
		y := max(e.Bytes, 1)
		g.add(place{x, y, x, y, opClass(e)})
	}
	if e.Offset < 0 {
		return
	}
	size := max(e.Bytes, 0)
	start := min(e.Offset, math.MaxInt64-size) // no file is longer
	if g := q.grids[Offsets]; g != nil {
		g.add(place{x, start, x, start + size, opClass(e)})
	}
	if g := q.grids[SpaceTime]; g != nil {
		class := 0
		if uint(e.Rank) < uint(len(q.classes)) {
			class = q.classes[e.Rank]
		}
		g.add(place{e.Start, start, max(e.Start, e.End), start + size, class})
	}
}

var (
	opColors = []color.NRGBA{figure.Blue, figure.Vermilion}
	opKey    = figure.Key{{Name: "write", Color: opColors[0]}, {Name: "read", Color: opColors[1]}}
)

func opClass(e *iotrace.Event) int {
	if e.Op == iotrace.Read {
		return 1
	}
	return 0
}

// key returns a key of the operations that occur.
func (s *survey) key() (k figure.Key) {
	for d, n := range [2]int64{s.activity.Writes, s.activity.Reads} {
		if n > 0 {
			k = append(k, opKey[d])
		}
	}
	return k
}

func (s *survey) sizes(p *figure.Picture) error {
	p.X.Label.Text, p.Y.Label.Text = "request of a rank to a file, in order", "size"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.WholeTicks), plot.TickerFunc(logByteTicks)
	p.Units[1] = figure.LogBytes
	log := func(y int64) float64 { return math.Log2(float64(y)) }
	p.Add(s.requests.grids[Sizes].marks(whole, log, opColors, s.limit))
	figure.AddKey(p, s.key())
	p.Y.Min, p.Y.Max = min(p.Y.Min, 0), max(p.Y.Max, 12)
	wholeMarks(p)
	return nil
}

func (s *survey) offsets(p *figure.Picture) error {
	p.X.Label.Text, p.Y.Label.Text = "request of a rank to a file, in order", "offset"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.WholeTicks), plot.TickerFunc(byteTicks)
	p.Units[1] = figure.Bytes
	p.Add(s.requests.grids[Offsets].marks(whole, whole, opColors, s.limit))
	figure.AddKey(p, s.key())
	wholeMarks(p)
	return nil
}

func (s *survey) spaceTime(p *figure.Picture) error {
	p.X.Label.Text, p.Y.Label.Text = "time [s]", "offset"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks), plot.TickerFunc(byteTicks)
	p.Units[1] = figure.Bytes
	seconds := func(ns int64) float64 { return float64(ns) / 1e9 }
	p.Add(s.requests.grids[SpaceTime].marks(seconds, whole, s.requests.colors, s.limit))
	figure.AddKey(p, s.requests.key)
	wholeMarks(p)
	return nil
}

func whole(n int64) float64 { return float64(n) }

// wholeMarks keeps marks at the edge of a picture whole.
func wholeMarks(p *figure.Picture) {
	p.Y.Max += (p.Y.Max - p.Y.Min) / 25
	p.X.Max += (p.X.Max - p.X.Min) / 50
}

// rankColors returns the colours of a plot by rank, the colour of each process of the
// trace, and their key. Colours follow the numbers of the ranks; a few ranks have a
// colour each. Other active processes, such as the coordinator of ckpt, share a colour
// of their own.
func rankColors(tr *iotrace.Trace, active []bool) ([]color.NRGBA, []int, figure.Key) {
	var ranks, others []int
	for i, r := range tr.Ranks {
		switch {
		case r.Rank >= 0:
			ranks = append(ranks, i)
		case active[i]:
			others = append(others, i)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(tr.Ranks[a].Rank, tr.Ranks[b].Rank) })
	classes := make([]int, len(tr.Ranks))
	var colors []color.NRGBA
	var k figure.Key
	n := len(ranks)
	if few := n+min(1, len(others)) <= len(figure.Categories); few {
		colors = append(colors, figure.Categories[:n]...)
		for i, at := range ranks {
			classes[at] = i
			name := strconv.Itoa(tr.Ranks[at].Rank)
			if i == 0 {
				name = "rank " + name
			}
			k = append(k, figure.Entry{Name: name, Color: colors[i]})
		}
	} else {
		colors = append(colors, figure.Ramp...)
		for i, at := range ranks {
			classes[at] = i * len(figure.Ramp) / n
		}
		for _, c := range figure.Ramp {
			k = append(k, figure.Entry{Color: c})
		}
		k[len(k)-1].Name = fmt.Sprintf("rank %d to rank %d", tr.Ranks[ranks[0]].Rank, tr.Ranks[ranks[n-1]].Rank)
	}
	if len(others) > 0 {
		for _, at := range others {
			classes[at] = len(colors)
		}
		colors = append(colors, figure.Categories[len(figure.Categories)-1])
		name := tr.Ranks[others[0]].Node
		if name == "" || len(others) > 1 {
			name = "no rank"
		}
		k = append(k, figure.Entry{Name: shorten(legal(name), 20), Color: colors[len(colors)-1]})
	}
	if len(colors) == 0 { // events of unknown ranks
		return figure.Categories[:1], classes, k
	}
	return colors, classes, k
}

// A counter numbers the requests of each rank to each file.
type counter struct {
	counts map[[2]int32]*int32
	last   []stream // of each rank: requests to one file often follow each other
}

type stream struct {
	file int32
	next *int32
}

func newCounter(tr *iotrace.Trace) *counter {
	return &counter{counts: map[[2]int32]*int32{}, last: make([]stream, len(tr.Ranks))}
}

// next returns the number of a request to a file of the trace.
func (c *counter) next(rank, file int32) int {
	known := uint(rank) < uint(len(c.last))
	var next *int32
	if known && c.last[rank].next != nil && c.last[rank].file == file {
		next = c.last[rank].next
	} else {
		key := [2]int32{rank, file}
		if next = c.counts[key]; next == nil {
			next = new(int32)
			c.counts[key] = next
		}
		if known {
			c.last[rank] = stream{file, next}
		}
	}
	*next++
	return int(*next - 1)
}

func (s *survey) bandwidth(p *figure.Picture) error {
	b := &s.r.Bandwidth
	p.X.Label.Text, p.Y.Label.Text = "time [s]", "bandwidth"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks), plot.TickerFunc(rateTicks)
	p.Units[1] = figure.Rate
	p.Y.Min = 0
	var k figure.Key
	for d, rates := range [][]float64{b.Write, b.Read} {
		if len(rates) == 0 || slices.Max(rates) == 0 {
			continue
		}
		var xy plotter.XYs
		for i, y := range rates {
			x := b.Start + float64(i)*b.Bin
			// Keep only the ends of a level stretch.
			if n := len(xy); n >= 2 && xy[n-1].Y == y && xy[n-2].Y == y {
				xy[n-1].X = x + b.Bin
				continue
			}
			xy = append(xy, plotter.XY{X: x, Y: y}, plotter.XY{X: x + b.Bin, Y: y})
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return err
		}
		line.Color, line.Width = opColors[d], 1.2
		p.Add(line)
		k = append(k, opKey[d])
	}
	if len(k) == 0 {
		p.X.Min, p.X.Max, p.Y.Max = 0, 1, 1
	}
	figure.AddKey(p, k)
	wholeMarks(p)
	return nil
}

func (s *survey) histogram(p *figure.Picture) error {
	bins := s.activity.Histogram
	p.X.Label.Text, p.Y.Label.Text = "size [bytes]", "requests"
	p.Y.Tick.Marker, p.Units[1] = plot.TickerFunc(countTicks), figure.LogNumber
	var names []string
	var counts [2]plotter.Values
	for _, b := range bins {
		names = append(names, b.Bin)
		counts[0], counts[1] = append(counts[0], logCount(b.Writes)), append(counts[1], logCount(b.Reads))
	}
	if len(bins) == 0 {
		names, counts[0], counts[1] = []string{""}, plotter.Values{0}, plotter.Values{0}
	}
	var k figure.Key
	both := slices.Max(counts[0]) > 0 && slices.Max(counts[1]) > 0
	for d, c := range counts {
		if slices.Max(c) == 0 {
			continue
		}
		bars, err := plotter.NewBarChart(c, vg.Points(14))
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle = opColors[d], draw.LineStyle{}
		if both {
			bars.Offset = vg.Points(float64(14*d) - 7)
		}
		p.Add(bars)
		k = append(k, opKey[d])
	}
	figure.AddKey(p, k)
	p.X.Tick.Label.Font.Size = 7.5
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	p.Y.Min, p.Y.Max = 0, max(2, p.Y.Max)
	p.Y.Max += p.Y.Max / 25
	return nil
}
