// Package tiles sums the bytes of a trace over time, by rank and by file. Any part of a long
// trace can then be drawn without its events: ten million of them become 16 MiB at most.
package tiles

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"ckpt/iotrace"
)

// A grid has at most so many rows, and this many columns.
const (
	mostRows = 64
	columns  = 8192
)

// A By is what the rows of a grid are.
type By int

// The rows.
const (
	Ranks By = iota
	Files
)

// A Grid has the bytes that each row read and wrote in each column of time.
type Grid struct {
	Start, End float64 // s, of the data requests of the trace
	Events     int     // of the trace
	Names      [2][]string
	cells      [2][2][]float64 // by rows and direction
}

// A Source calls visit with all events of a trace, some at a time and in any order. It returns the
// trace, whose events are not looked at.
type Source func(visit func([]iotrace.Event)) (*iotrace.Trace, error)

// New makes the grid of a trace.
func New(t *iotrace.Trace) *Grid {
	g, err := Of(func(visit func([]iotrace.Event)) (*iotrace.Trace, error) {
		visit(t.Events)
		return t, nil
	})
	if err != nil { // this source has the same events twice
		panic(err)
	}
	return g
}

// ErrChanged says that a trace changed while it was added up.
var ErrChanged = errors.New("the trace changed while it was read")

// Of makes the grid of a trace that is gone through twice: first for its time and its largest files,
// then for its bytes. Its memory depends on the ranks and files of the trace, not on its events.
func Of(source Source) (*Grid, error) {
	g := &Grid{Start: math.Inf(1), End: math.Inf(-1)}
	var moved []int64 // by each file
	t, err := source(func(events []iotrace.Event) { moved = g.measure(events, moved) })
	if err != nil {
		return nil, err
	}
	moved = append(moved, make([]int64, max(0, len(t.Files)-len(moved)))...)
	if g.Start > g.End {
		g.Start, g.End = 0, 0
	}
	g.End = max(g.End, g.Start+1e-6)
	rankOf, fileOf := g.placeRanks(t), g.placeFiles(t, moved)
	for by := range g.cells {
		for way := range g.cells[by] {
			g.cells[by][way] = make([]float64, len(g.Names[by])*columns)
		}
	}
	events, changed := 0, false
	_, err = source(func(list []iotrace.Event) {
		events += len(list)
		for i := range list {
			if e := &list[i]; int(e.Rank) >= len(rankOf) || int(e.File) >= len(fileOf) {
				changed = true
			} else if e.Op.Data() {
				g.count(e, rankOf, fileOf)
			}
		}
	})
	if err == nil && (changed || events != g.Events) {
		err = ErrChanged
	}
	return g, err
}

// measure notes the time of events, and adds up the bytes of each file.
func (g *Grid) measure(events []iotrace.Event, moved []int64) []int64 {
	g.Events += len(events)
	for i := range events {
		e := &events[i]
		if !e.Op.Data() {
			continue
		}
		g.Start, g.End = min(g.Start, seconds(e.Start)), max(g.End, seconds(max(e.Start, e.End)))
		if e.File < 0 {
			continue
		}
		if n := int(e.File) + 1 - len(moved); n > 0 {
			moved = append(moved, make([]int64, n)...)
		}
		moved[e.File] += max(0, e.Bytes)
	}
	return moved
}

// count adds the bytes of an event to the rows of its rank and its file.
func (g *Grid) count(e *iotrace.Event, rankOf, fileOf []int) {
	way := 0
	if e.Op == iotrace.Write {
		way = 1
	}
	if e.Rank >= 0 {
		g.add(g.cells[Ranks][way], rankOf[e.Rank], e)
	}
	if e.File >= 0 {
		g.add(g.cells[Files][way], fileOf[e.File], e)
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// placeRanks gives each rank a row, in the order of their numbers. Of many ranks several share one.
func (g *Grid) placeRanks(t *iotrace.Trace) []int {
	order := make([]int, len(t.Ranks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.Ranks[a].Rank, t.Ranks[b].Rank) })
	each := 1
	for len(order) > each*mostRows {
		each *= 2
	}
	place := make([]int, len(order))
	for i, at := range order {
		place[at] = i / each
		name := strconv.Itoa(t.Ranks[at].Rank)
		if t.Ranks[at].Rank < 0 {
			name = "no rank"
		}
		if i%each == 0 {
			g.Names[Ranks] = append(g.Names[Ranks], name)
		} else if i == len(order)-1 || i%each == each-1 {
			g.Names[Ranks][i/each] += " to " + name
		}
	}
	return place
}

// placeFiles gives the files that move most bytes a row each, and the others one.
func (g *Grid) placeFiles(t *iotrace.Trace, moved []int64) []int {
	var order []int
	for i, n := range moved {
		if n > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(moved[b], moved[a]) })
	place := make([]int, len(moved))
	for i, at := range order {
		if place[at] = min(i, mostRows-1); i < mostRows-1 || len(order) == mostRows {
			g.Names[Files] = append(g.Names[Files], t.Files[at])
		}
	}
	if len(order) > mostRows {
		g.Names[Files] = append(g.Names[Files], fmt.Sprintf("%d other files", len(order)-mostRows+1))
	}
	return place
}

// add counts the bytes of a request evenly over its time.
func (g *Grid) add(cells []float64, row int, e *iotrace.Event) {
	bytes := float64(max(e.Bytes, 0))
	if bytes == 0 {
		return
	}
	line := cells[row*columns : (row+1)*columns]
	from, to := g.column(seconds(e.Start)), g.column(seconds(max(e.Start, e.End)))
	Spread(line, from, to, bytes)
}

// Spread adds an amount to cells, evenly from one place to another: 2.5 is the middle of cell 2.
func Spread(line []float64, from, to, amount float64) {
	first, last := int(from), int(to)
	if first >= last {
		line[first] += amount
		return
	}
	each := amount / (to - from)
	line[first] += each * (float64(first+1) - from)
	for i := first + 1; i < last; i++ {
		line[i] += each
	}
	line[last] += each * (to - float64(last))
}

// column returns where a time is, in columns: from 0 to just below their number.
func (g *Grid) column(s float64) float64 {
	return max(0, min((s-g.Start)/(g.End-g.Start)*columns, columns-1e-9))
}

// A Row is a rank or a file, or several of them.
type Row struct {
	Name string `json:"name"`
	// Of each tile, in bytes.
	Read    []int64 `json:"tile_read_bytes"`
	Written []int64 `json:"tile_written_bytes"`
}

// Cut returns the rows of a part of the time, in at most so many tiles of equal length. It widens the
// part to whole columns of the grid.
func (g *Grid) Cut(by By, from, to float64, most int) (begin, end float64, rows []Row) {
	most = max(1, min(most, columns))
	first, last := int(g.column(from)), int(g.column(to))
	if to >= g.End {
		last = columns - 1
	}
	last = max(first, last)
	each := (last - first + most) / most
	n := (last - first + each) / each
	width := (g.End - g.Start) / columns
	begin, end = g.Start+float64(first)*width, g.Start+float64(first+n*each)*width
	for row, name := range g.Names[by] {
		r := Row{Name: name, Read: make([]int64, n), Written: make([]int64, n)}
		for way, out := range [][]int64{r.Read, r.Written} {
			line := g.cells[by][way][row*columns : (row+1)*columns]
			for i := range n {
				sum := 0.0
				for _, v := range line[first+i*each : min(first+(i+1)*each, columns)] {
					sum += v
				}
				out[i] = int64(math.Round(sum))
			}
		}
		rows = append(rows, r)
	}
	return begin, end, rows
}
