package report

import (
	"fmt"
	"image/color"
	"iter"
	"math"

	"gonum.org/v1/plot"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

// A selection is the requests that a plot is about: of one file, or of all if it
// is -1.
type selection struct {
	trace    *iotrace.Trace
	file     int
	activity *analyze.Activity
}

// requests goes through them, with their numbers: each rank counts its requests to
// each file, as in the figures of the thesis, which are of one process. What ranks
// do alike lies upon each other.
func (s *selection) requests() iter.Seq2[int, *iotrace.Event] {
	events := s.trace.Events
	// MPI-IO requests count where nothing else was recorded.
	posix := make([]bool, len(s.trace.Files))
	for i := range events {
		if e := &events[i]; e.Op.Data() && e.Module == iotrace.POSIX && uint(e.File) < uint(len(posix)) {
			posix[e.File] = true
		}
	}
	// Counted once, as plots go through the requests several times.
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

var opColors, opNames = []color.NRGBA{writeColor, readColor}, []string{"write", "read"}

func opClass(e *iotrace.Event) int {
	if e.Op == iotrace.Read {
		return 1
	}
	return 0
}

// opKey explains the operations that occur.
func (s *selection) opKey() key {
	switch {
	case s.activity.Reads == 0 && s.activity.Writes == 0:
		return key{}
	case s.activity.Reads == 0:
		return key{opColors[:1], opNames[:1]}
	case s.activity.Writes == 0:
		return key{opColors[1:], opNames[1:]}
	}
	return key{opColors, opNames}
}

func (s *selection) sizes(p *plot.Plot, limit int) {
	p.X.Label.Text, p.Y.Label.Text = "request of a rank to a file, in order", "size"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(wholeTicks), plot.TickerFunc(logByteTicks)
	requests := s.requests()
	p.Add(newMarks(func(yield func(mark) bool) {
		for i, e := range requests {
			y := math.Log2(float64(max(e.Bytes, 1)))
			if !yield(mark{float64(i), y, float64(i), y, opClass(e)}) {
				return
			}
		}
	}, opColors, limit), s.opKey())
	p.Y.Min, p.Y.Max = min(p.Y.Min, 0), max(p.Y.Max, 12)
}

func (s *selection) offsets(p *plot.Plot, limit int) {
	p.X.Label.Text, p.Y.Label.Text = "request of a rank to a file, in order", "offset"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(wholeTicks), plot.TickerFunc(byteTicks)
	requests := s.requests()
	p.Add(newMarks(func(yield func(mark) bool) {
		for i, e := range requests {
			if y := float64(e.Offset); e.Offset >= 0 && !yield(mark{float64(i), y, float64(i), y + float64(max(e.Bytes, 0)), opClass(e)}) {
				return
			}
		}
	}, opColors, limit), s.opKey())
}

func (s *selection) spaceTime(p *plot.Plot, limit int) {
	p.X.Label.Text, p.Y.Label.Text = "time [s]", "offset"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(decimalTicks), plot.TickerFunc(byteTicks)
	ranks := len(s.trace.Ranks)
	colors, k := rankColors(s.trace)
	requests := s.requests()
	p.Add(newMarks(func(yield func(mark) bool) {
		for _, e := range requests {
			class := 0
			if uint(e.Rank) < uint(ranks) {
				class = rankClass(int(e.Rank), ranks)
			}
			y := float64(e.Offset)
			if e.Offset >= 0 && !yield(mark{float64(e.Start) / 1e9, y, float64(max(e.Start, e.End)) / 1e9, y + float64(max(e.Bytes, 0)), class}) {
				return
			}
		}
	}, colors, limit), k)
}

// rankClass is the colour of a rank: its own if they are few.
func rankClass(rank, ranks int) int {
	if ranks <= len(categories) {
		return rank
	}
	return rank * len(scale) / ranks
}

func rankColors(tr *iotrace.Trace) ([]color.NRGBA, key) {
	n := len(tr.Ranks)
	name := func(i int) string {
		if r := tr.Ranks[i]; r.Rank < 0 && r.Node != "" { // like the coordinator of ckpt
			return r.Node
		}
		return fmt.Sprintf("rank %d", tr.Ranks[i].Rank)
	}
	if n > len(categories) {
		names := make([]string, len(scale))
		names[len(scale)-1] = fmt.Sprintf("%s to %s", name(0), name(n-1))
		return scale, key{scale, names}
	}
	k := key{colors: categories[:n]}
	for i := range n {
		k.names = append(k.names, name(i))
	}
	return categories[:max(1, n)], k
}
