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
}

// requests iterates over them with their numbers. Each rank counts its requests to
// each file, as in the figures of the thesis, which show one process. Equal requests
// of several ranks coincide.
func (s *selection) requests() iter.Seq2[int, *iotrace.Event] {
	events := s.trace.Events
	// MPI-IO requests count for files without POSIX requests.
	posix := make([]bool, len(s.trace.Files))
	for i := range events {
		if e := &events[i]; e.Op.Data() && e.Module == iotrace.POSIX && uint(e.File) < uint(len(posix)) {
			posix[e.File] = true
		}
	}
	// Counted once, because plots iterate several times.
	numbers := make([]int32, len(events)) // or -1
	next := map[[2]int32]int32{}
	for i := range events {
		e := &events[i]
		numbers[i] = -1
		if !e.Op.Data() || uint(e.File) >= uint(len(posix)) || s.file >= 0 && int(e.File) != s.file ||
			e.Module != iotrace.POSIX && posix[e.File] {
			continue
		}
		stream := [2]int32{e.Rank, e.File}
		numbers[i] = next[stream]
		next[stream]++
	}
	return func(yield func(int, *iotrace.Event) bool) {
		for i, n := range numbers {
			if n >= 0 && !yield(int(n), &events[i]) {
				return
			}
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
	requests := s.requests()
	p.Add(newMarks(func(yield func(mark) bool) {
		for i, e := range requests {
			y := math.Log2(float64(max(e.Bytes, 1)))
			if !yield(mark{float64(i), y, float64(i), y, opClass(e)}) {
				return
			}
		}
	}, opColors, limit))
	figure.AddKey(p, s.key())
	p.Y.Min, p.Y.Max = min(p.Y.Min, 0), max(p.Y.Max, 12)
}

func (s *selection) offsets(p *plot.Plot, limit int) {
	p.X.Label.Text, p.Y.Label.Text = "request of a rank to a file, in order", "offset"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.WholeTicks), plot.TickerFunc(byteTicks)
	requests := s.requests()
	p.Add(newMarks(func(yield func(mark) bool) {
		for i, e := range requests {
			if y := float64(e.Offset); e.Offset >= 0 && !yield(mark{float64(i), y, float64(i), y + float64(max(e.Bytes, 0)), opClass(e)}) {
				return
			}
		}
	}, opColors, limit))
	figure.AddKey(p, s.key())
}

func (s *selection) spaceTime(p *plot.Plot, limit int) {
	p.X.Label.Text, p.Y.Label.Text = "time [s]", "offset"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks), plot.TickerFunc(byteTicks)
	requests := s.requests()
	active := make([]bool, len(s.trace.Ranks))
	for _, e := range requests {
		if uint(e.Rank) < uint(len(active)) {
			active[e.Rank] = true
		}
	}
	colors, classes, k := rankColors(s.trace, active)
	p.Add(newMarks(func(yield func(mark) bool) {
		for _, e := range requests {
			class := 0
			if uint(e.Rank) < uint(len(classes)) {
				class = classes[e.Rank]
			}
			y := float64(e.Offset)
			if e.Offset >= 0 && !yield(mark{float64(e.Start) / 1e9, y, float64(max(e.Start, e.End)) / 1e9, y + float64(max(e.Bytes, 0)), class}) {
				return
			}
		}
	}, colors, limit))
	figure.AddKey(p, k)
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
