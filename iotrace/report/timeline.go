package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

const (
	timelineFiles       = 12   // rows; the last may be of all other files
	timelineColumns     = 480  // in its own file
	timelinePageColumns = 200  // in a page
	timelineKnown       = 4096 // files that are told apart while events are read
)

// The kinds of operations in a timeline, each in its own lane of a file's row.
var (
	laneNames  = []string{"write", "read", "sync", "other operations"}
	laneColors = []color.NRGBA{figure.Blue, figure.Vermilion, figure.Green, figure.Violet}
)

func lane(op iotrace.Op) int {
	switch op {
	case iotrace.Write:
		return 0
	case iotrace.Read:
		return 1
	case iotrace.Sync:
		return 2
	}
	return 3
}

// timeline is what one rank does to which file, and when.
type timeline struct {
	trace        *iotrace.Trace
	rank         int32 // index into Trace.Ranks, or None until the first event of a rank
	start, width float64
	columns      int
	files        map[int32]*fileLine
	order        []*fileLine // as they come
}

// A fileLine is what a rank does to a file: for each column, a bit for each lane in
// use.
type fileLine struct {
	name string
	time float64 // of all operations, s
	used []uint8
}

// newTimeline returns the timeline of a rank with a number. Without one (None) it takes
// the slowest of the stragglers, or else the rank of the first operation.
func newTimeline(tr *iotrace.Trace, r *analyze.Report, rank int, onPage bool) *timeline {
	l := &timeline{trace: tr, rank: iotrace.None, columns: timelineColumns, files: map[int32]*fileLine{}}
	if onPage {
		l.columns = timelinePageColumns
	}
	l.start, l.width = r.Start, span(r)/float64(l.columns)
	if rank == iotrace.None && len(r.Balance.Stragglers) > 0 {
		rank = r.Balance.Stragglers[0].Rank
	}
	if rank != iotrace.None {
		l.rank = int32(slices.IndexFunc(tr.Ranks, func(k iotrace.Rank) bool { return k.Rank == rank }))
	}
	return l
}

func (l *timeline) add(e *iotrace.Event) {
	if uint(e.Rank) >= uint(len(l.trace.Ranks)) {
		return
	}
	if l.rank == iotrace.None && l.trace.Ranks[e.Rank].Rank >= 0 {
		l.rank = e.Rank
	}
	if e.Rank != l.rank {
		return
	}
	end := max(e.Start, e.End)
	f := l.line(e.File)
	f.time += (float64(end) - float64(e.Start)) / 1e9
	bit := uint8(1) << lane(e.Op)
	for i, last := l.column(e.Start), l.column(end); i <= last; i++ {
		f.used[i] |= bit
	}
}

// line returns the row of a file. Files beyond those that are known share one.
func (l *timeline) line(file int32) *fileLine {
	if f := l.files[file]; f != nil {
		return f
	}
	name := l.trace.Files[file]
	if len(l.files) >= timelineKnown {
		file, name = iotrace.None, ""
		if f := l.files[file]; f != nil {
			return f
		}
	}
	f := &fileLine{name: name, used: make([]uint8, l.columns)}
	l.files[file] = f
	l.order = append(l.order, f)
	return f
}

func (l *timeline) column(ns int64) int {
	return int(max(0, min((float64(ns)/1e9-l.start)/l.width, float64(l.columns-1))))
}

// lines returns the files that took the most time, in the order of their first
// operation, and one row of all others if there are more.
func (l *timeline) lines() []*fileLine {
	if len(l.order) <= timelineFiles {
		return l.order
	}
	byTime := slices.Clone(l.order)
	slices.SortStableFunc(byTime, func(a, b *fileLine) int {
		return cmp.Or(cmp.Compare(min(len(b.name), 1), min(len(a.name), 1)), cmp.Compare(b.time, a.time))
	})
	rest := &fileLine{name: figure.Number(float64(len(byTime)-timelineFiles+1)) + " other files", used: make([]uint8, l.columns)}
	if len(l.files) > timelineKnown {
		rest.name = "all other files"
	}
	hidden := map[*fileLine]bool{}
	for _, f := range byTime[timelineFiles-1:] {
		hidden[f] = true
		for i, bits := range f.used {
			rest.used[i] |= bits
		}
	}
	out := slices.DeleteFunc(slices.Clone(l.order), func(f *fileLine) bool { return hidden[f] })
	return append(out, rest)
}

// boxes returns what is drawn of rows, the first one at the top, and which lanes occur.
func (l *timeline) boxes(lines []*fileLine) (out []box, lanes []int) {
	var all uint8
	for _, f := range lines {
		for _, bits := range f.used {
			all |= bits
		}
	}
	for k := range laneNames {
		if all>>k&1 == 1 {
			lanes = append(lanes, k)
		}
	}
	for row, f := range lines {
		for at, k := range lanes {
			high := 0.8 / float64(len(lanes))
			top := float64(len(lines)-row) - 0.1 - high*float64(at)
			for i := 0; i < l.columns; i++ {
				from := i
				for i < l.columns && f.used[i]>>k&1 == 1 {
					i++
				}
				if i > from {
					out = append(out, box{l.start + float64(from)*l.width, top - high, l.start + float64(i)*l.width, top, k})
				}
			}
		}
	}
	return out, lanes
}

func (s *survey) drawLine(p *plot.Plot) error {
	l := s.line
	lines := l.lines()
	all, lanes := l.boxes(lines)
	p.Add(&boxes{all: all, colors: laneColors, least: 0.8})
	var k figure.Key
	for _, at := range lanes {
		k = append(k, figure.Entry{Name: laneNames[at], Color: laneColors[at]})
	}
	figure.AddKey(p, k)
	var ticks plot.ConstantTicks
	for row, f := range lines {
		ticks = append(ticks, plot.Tick{Value: float64(len(lines)-row) - 0.5, Label: shorten(legal(f.name), 32)})
	}
	if len(ticks) == 0 {
		ticks = plot.ConstantTicks{{Value: 0.5, Label: "no operations"}}
	}
	p.X.Label.Text, p.X.Tick.Marker, p.Y.Tick.Marker = "time [s]", plot.TickerFunc(figure.DecimalTicks), ticks
	p.Y.Tick.Label.Font.Size = vg.Length(7.5)
	p.X.Min, p.X.Max = l.start, l.start+l.width*float64(l.columns)
	p.Y.Min, p.Y.Max = 0, math.Max(1, float64(len(lines)))
	return nil
}

// whose names the rank.
func (l *timeline) whose() string {
	if l.rank < 0 {
		return "a rank"
	}
	return "rank " + strconv.Itoa(l.trace.Ranks[l.rank].Rank)
}

func (s *survey) describeLine() string {
	l := s.line
	files := "one file"
	if n := len(l.order); n != 1 {
		files = figure.Number(float64(n)) + " files"
	}
	return fmt.Sprintf("Timeline of %s: its operations on %s, over %s.", l.whose(), files, secondsText(l.width*float64(l.columns)))
}
