package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/tiles"
)

// The cells of a heatmap: at most so many rows and columns, in its own file and in a
// page.
const (
	heatRows, heatColumns         = 128, 200
	heatPageRows, heatPageColumns = 48, 90
)

// heat is the bytes that ranks move, in cells of rank and time.
type heat struct {
	rows    *rows
	columns int
	start   float64 // s
	width   float64 // of a column, s
	// cells has the bytes of each cell, row by row, for a rank: where ranks share a row,
	// it is their mean.
	cells []float64
}

func newHeat(tr *iotrace.Trace, r *analyze.Report, onPage bool) *heat {
	rows, columns := heatRows, heatColumns
	if onPage {
		rows, columns = heatPageRows, heatPageColumns
	}
	h := &heat{rows: newRows(tr, rows), columns: columns}
	h.start, h.width = r.Start, span(r)/float64(columns)
	h.cells = make([]float64, (h.rows.count()+1)*columns)
	return h
}

// span returns the time that a plot covers, in seconds; never 0.
func span(r *analyze.Report) float64 {
	const least = 1e-6
	return max(r.End-r.Start, least, math.Abs(r.Start)*1e-12)
}

// add counts the bytes of a request evenly over its time.
func (h *heat) add(e *iotrace.Event) {
	row := h.rows.of(e.Rank)
	bytes := float64(max(e.Bytes, 0)) / float64(h.rows.size(row))
	cells := h.cells[row*h.columns : (row+1)*h.columns]
	tiles.Spread(cells, h.column(e.Start), h.column(max(e.Start, e.End)), bytes)
}

// column returns where a time is, in columns: from 0 to just below their number.
func (h *heat) column(ns int64) float64 {
	x := (float64(ns)/1e9 - h.start) / h.width
	return max(0, min(x, float64(h.columns)-1e-6))
}

// shades returns the range of the cells with bytes, and the shade of a cell: its class
// from 0, or -1 for a cell without bytes.
func (h *heat) shades(classes int) (low, high float64, shade func(float64) int) {
	low = math.Inf(1)
	for _, x := range h.cells {
		if x > 0 {
			low, high = min(low, x), max(high, x)
		}
	}
	if high == 0 {
		low = 0
	}
	// The smallest cells are edges of requests; they must not take most shades. A shade
	// is a factor of 2 at most.
	low = max(low, high/256)
	return low, high, func(x float64) int {
		if x <= 0 {
			return -1
		}
		if high <= 1.001*low {
			return classes - 1
		}
		return max(0, min(classes-1, int(float64(classes)*math.Log(x/low)/math.Log(high/low))))
	}
}

func (s *survey) drawHeat(p *figure.Picture) error {
	h := s.heat
	b := &boxes{colors: figure.Ramp, grow: 0.2}
	low, high, shade := h.shades(len(b.colors))
	n := h.rows.count()
	others := false
	for row := range n + 1 {
		cells := h.cells[row*h.columns : (row+1)*h.columns]
		for i := 0; i < h.columns; {
			class, from := shade(cells[i]), i
			for i < h.columns && shade(cells[i]) == class {
				i++
			}
			if class < 0 {
				continue
			}
			others = others || row == n
			b.all = append(b.all, box{h.time(from), float64(row), h.time(i), float64(row + 1), class})
		}
	}
	p.Add(b)
	var k figure.Key
	for _, c := range figure.Ramp {
		k = append(k, figure.Entry{Color: c})
	}
	k[len(k)-1].Name = fmt.Sprintf("%s to %s of a rank in %s, logarithmic", bytesText(math.Round(low)), bytesText(math.Round(high)), secondsText(h.width))
	if high <= 1.001*low {
		k = figure.Key{{Color: figure.Ramp[len(figure.Ramp)-1], Name: fmt.Sprintf("%s of a rank in %s", bytesText(math.Round(high)), secondsText(h.width))}}
	}
	if high == 0 {
		k = nil
	}
	figure.AddKey(p, k)
	p.X.Label.Text, p.Y.Label.Text = "time [s]", "rank"+h.rows.shared("row")
	p.X.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	p.Y.Tick.Marker = h.rows.ticks(10, others)
	p.X.Min, p.X.Max = h.start, h.time(h.columns)
	p.Y.Min, p.Y.Max = 0, float64(max(n, 1))
	if others {
		p.Y.Max = float64(n + 1)
	}
	return nil
}

// time returns when a column begins, in seconds.
func (h *heat) time(column int) float64 { return h.start + float64(column)*h.width }

func (s *survey) describeHeat() string {
	h := s.heat
	_, high, _ := h.shades(1)
	return fmt.Sprintf("Heatmap of bytes by rank and time: %s ranks over %s, at most %s of a rank in %s.",
		figure.Number(float64(len(h.rows.numbers))), secondsText(h.width*float64(h.columns)), bytesText(math.Round(high)), secondsText(h.width))
}

// rows gives each rank a place in a picture, in the order of their numbers. Where
// there are more ranks than places, neighbours share one. Processes that are no ranks
// share the last place.
type rows struct {
	numbers []int // of the ranks, ascending
	place   []int // of each of Trace.Ranks
	group   int   // ranks in a place; the last place may have fewer
}

// noRank names the place of processes that are no ranks.
const noRank = "no rank"

func newRows(tr *iotrace.Trace, most int) *rows {
	var ranks []int
	for i, r := range tr.Ranks {
		if r.Rank >= 0 {
			ranks = append(ranks, i)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(tr.Ranks[a].Rank, tr.Ranks[b].Rank) })
	w := &rows{place: make([]int, len(tr.Ranks)), group: 1}
	for len(ranks) > w.group*most {
		w.group *= 2 // ranks come in powers of two
	}
	for i := range w.place {
		w.place[i] = (len(ranks) + w.group - 1) / w.group
	}
	for i, at := range ranks {
		w.numbers = append(w.numbers, tr.Ranks[at].Rank)
		w.place[at] = i / w.group
	}
	return w
}

// count returns the number of places of ranks. The place behind them is of processes
// that are no ranks.
func (w *rows) count() int { return (len(w.numbers) + w.group - 1) / w.group }

// of returns the place of an event's rank.
func (w *rows) of(rank int32) int {
	if uint(rank) < uint(len(w.place)) {
		return w.place[rank]
	}
	return w.count()
}

// size returns the number of ranks in a place.
func (w *rows) size(place int) int {
	if place == w.count() {
		return 1
	}
	return min(w.group, len(w.numbers)-place*w.group)
}

// shared describes places of several ranks for a label: " (8 in a row)".
func (w *rows) shared(place string) string {
	if w.group == 1 {
		return ""
	}
	return fmt.Sprintf(" (%d in a %s)", w.group, place)
}

// ticks marks places at their middle with the number of their first rank, about most of
// them.
func (w *rows) ticks(most int, others bool) plot.ConstantTicks {
	var out plot.ConstantTicks
	n := w.count()
	step := 1
	for (n+step-1)/step > most {
		step *= 2
	}
	for i := 0; i < n; i += step {
		out = append(out, plot.Tick{Value: float64(i) + 0.5, Label: strconv.Itoa(w.numbers[i*w.group])})
	}
	if others {
		out = append(out, plot.Tick{Value: float64(n) + 0.5, Label: noRank})
	}
	return out
}
