package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
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
	from, to := h.column(e.Start), h.column(max(e.Start, e.End))
	first, last := int(from), int(to)
	if first >= last {
		cells[first] += bytes
		return
	}
	each := bytes / (to - from)
	cells[first] += each * (float64(first+1) - from)
	for i := first + 1; i < last; i++ {
		cells[i] += each
	}
	cells[last] += each * (to - float64(last))
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

func (s *survey) drawHeat(p *plot.Plot) error {
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
