package report

import (
	"cmp"
	"fmt"
	"image/color"
	"iter"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

// A selection is the set of requests in a plot: those of one file, or of all files if
// it is -1.
type selection struct {
	trace    *iotrace.Trace
	file     int
	activity *analyze.Activity
	// The results of gather, by plot.
	grids  map[Plot]*grid
	colors []color.NRGBA // of ranks
	ranks  figure.Key
}

// requests iterates over them with their numbers. Each rank counts its requests to
// each file, as in the figures of the thesis, which show one process. Equal requests
// of several ranks coincide.
func (s *selection) requests() iter.Seq2[int, *iotrace.Event] {
	events := s.trace.Events
	// MPI-IO requests count for files without POSIX requests.
	posix := make([]bool, len(s.trace.Files))
	for i := range events {
		if e := &events[i]; e.Module == iotrace.POSIX && e.Op.Data() && uint(e.File) < uint(len(posix)) {
			posix[e.File] = true
		}
	}
	return func(yield func(int, *iotrace.Event) bool) {
		numbers := newCounter(s.trace)
		for i := range events {
			e := &events[i]
			if !e.Op.Data() || uint(e.File) >= uint(len(posix)) || s.file >= 0 && int(e.File) != s.file ||
				e.Module != iotrace.POSIX && posix[e.File] {
				continue
			}
			if !yield(numbers.next(e.Rank, e.File), e) {
				return
			}
		}
	}
}

// active returns which processes have requests. Only those matter that are no ranks.
func (s *selection) active() []bool {
	out := make([]bool, len(s.trace.Ranks))
	if !slices.ContainsFunc(s.trace.Ranks, func(r iotrace.Rank) bool { return r.Rank < 0 }) {
		return out
	}
	for _, e := range s.requests() {
		if uint(e.Rank) < uint(len(out)) {
			out[e.Rank] = true
		}
	}
	return out
}

// gather prepares the plots of single requests. It passes over the events once for all.
func (s *selection) gather(kinds ...Plot) {
	s.grids = map[Plot]*grid{}
	for _, k := range kinds {
		if k == Sizes || k == Offsets || k == SpaceTime {
			s.grids[k] = newGrid(k == Sizes)
		}
	}
	if len(s.grids) == 0 {
		return
	}
	sizes, offsets, spaceTime := s.grids[Sizes], s.grids[Offsets], s.grids[SpaceTime]
	var classes []int // by rank
	if spaceTime != nil {
		s.colors, classes, s.ranks = rankColors(s.trace, s.active())
	}
	for i, e := range s.requests() {
		x := int64(i)
		if sizes != nil {
			y := max(e.Bytes, 1)
			sizes.add(place{x, y, x, y, opClass(e)})
		}
		if e.Offset < 0 {
			continue
		}
		size := max(e.Bytes, 0)
		start := min(e.Offset, math.MaxInt64-size) // no file is longer
		end := start + size
		if offsets != nil {
			offsets.add(place{x, start, x, end, opClass(e)})
		}
		if spaceTime != nil {
			class := 0
			if uint(e.Rank) < uint(len(classes)) {
				class = classes[e.Rank]
			}
			spaceTime.add(place{e.Start, start, max(e.Start, e.End), end, class})
		}
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
func (s *selection) key() figure.Key {
	switch {
	case s.activity.Reads == 0 && s.activity.Writes == 0:
		return nil
	case s.activity.Reads == 0:
		return opKey[:1]
	case s.activity.Writes == 0:
		return opKey[1:]
	}
	return opKey
}

func (s *selection) sizes(p *plot.Plot, limit int) {
	p.X.Label.Text, p.Y.Label.Text = "request of a rank to a file, in order", "size"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.WholeTicks), plot.TickerFunc(logByteTicks)
	p.Add(s.grids[Sizes].marks(whole, func(y int64) float64 { return math.Log2(float64(y)) }, opColors, limit))
	figure.AddKey(p, s.key())
	p.Y.Min, p.Y.Max = min(p.Y.Min, 0), max(p.Y.Max, 12)
}

func (s *selection) offsets(p *plot.Plot, limit int) {
	p.X.Label.Text, p.Y.Label.Text = "request of a rank to a file, in order", "offset"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.WholeTicks), plot.TickerFunc(byteTicks)
	p.Add(s.grids[Offsets].marks(whole, whole, opColors, limit))
	figure.AddKey(p, s.key())
}

func (s *selection) spaceTime(p *plot.Plot, limit int) {
	p.X.Label.Text, p.Y.Label.Text = "time [s]", "offset"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks), plot.TickerFunc(byteTicks)
	p.Add(s.grids[SpaceTime].marks(func(ns int64) float64 { return float64(ns) / 1e9 }, whole, s.colors, limit))
	figure.AddKey(p, s.ranks)
}

func whole(n int64) float64 { return float64(n) }

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
