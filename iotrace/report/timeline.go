package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
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

func (s *survey) drawLine(p *figure.Picture) error {
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

// The places of ranks in a picture of the balance, at most.
const balancePlaces = 200

// load is the bytes that each rank moves, and the time in which it does I/O.
type load struct {
	rows  *rows
	works []rankLoad // of Trace.Ranks
	trace *iotrace.Trace
}

type rankLoad struct {
	bytes, time float64 // time in s
	until       int64   // the end of the operations so far, ns
	begun       bool
}

func newLoad(tr *iotrace.Trace) *load {
	return &load{rows: newRows(tr, balancePlaces), works: make([]rankLoad, len(tr.Ranks)), trace: tr}
}

// add counts an operation. Operations that overlap count once as time.
func (l *load) add(e *iotrace.Event) {
	if uint(e.Rank) >= uint(len(l.works)) {
		return
	}
	w := &l.works[e.Rank]
	if e.Op.Data() {
		w.bytes += float64(max(e.Bytes, 0))
	}
	from := e.Start
	if w.begun {
		from = max(from, w.until)
	}
	if e.End > from {
		w.time += (float64(e.End) - float64(from)) / 1e9
	}
	if !w.begun || e.End > w.until {
		w.until = e.End
	}
	w.begun = true
}

// addCounters counts the sums of a rank and a file. Sums over all ranks have no
// place in the picture.
func (l *load) addCounters(c *iotrace.Counters) {
	if uint(c.Rank) >= uint(len(l.works)) {
		return
	}
	w := &l.works[c.Rank]
	w.bytes += float64(max(c.BytesRead, 0)) + float64(max(c.BytesWritten, 0))
	w.time += max(0, c.ReadTime.Seconds()) + max(0, c.WriteTime.Seconds()) + max(0, c.MetaTime.Seconds())
	w.begun = true
}

// spread is the least, the mean and the most of a quantity.
type spread struct{ least, mean, most float64 }

// empty reports whether nothing of single ranks is known.
func (l *load) empty() bool {
	return !slices.ContainsFunc(l.works, func(w rankLoad) bool { return w.begun })
}

// spreads returns the bytes and the times of all ranks, and of each place. Ranks
// without I/O count as 0.
func (l *load) spreads() (all [2]spread, places [][2]spread) {
	places = make([][2]spread, l.rows.count())
	none := [2]spread{{least: math.Inf(1)}, {least: math.Inf(1)}}
	all = none
	for i := range places {
		places[i] = none
	}
	for i, r := range l.trace.Ranks {
		if r.Rank < 0 {
			continue
		}
		at := l.rows.place[i]
		for q, x := range [2]float64{l.works[i].bytes, l.works[i].time} {
			all[q].add(x, len(l.rows.numbers))
			places[at][q].add(x, l.rows.size(at))
		}
	}
	return all, places
}

// add adds one of n values.
func (s *spread) add(x float64, n int) {
	s.least, s.mean, s.most = min(s.least, x), s.mean+x/float64(n), max(s.most, x)
}

// boxes returns the bars. The unit is the mean of all ranks. Bars of one rank begin at
// 0; bars of several ranks reach from the least to the most of them.
func (l *load) boxes() (out []box, all [2]spread) {
	all, places := l.spreads()
	const wide = 0.4 // of a place
	for i, place := range places {
		for q, s := range place {
			if all[q].mean == 0 || s.most == 0 {
				continue
			}
			b := box{x0: float64(i) + 0.1 + wide*float64(q), y1: s.most / all[q].mean, class: q}
			b.x1 = b.x0 + wide
			if l.rows.group > 1 {
				b.y0 = s.least / all[q].mean
			}
			out = append(out, b)
		}
	}
	return out, all
}

func (s *survey) drawLoad(p *figure.Picture) error {
	l := s.load
	if s.r.Counted && l.empty() {
		return errNoBalance
	}
	all, sum := l.boxes()
	b := &boxes{all: all, colors: opColors, least: 0.8}
	p.Add(b)
	var k figure.Key
	if sum[0].mean > 0 {
		k = append(k, figure.Entry{Name: fmt.Sprintf("bytes, mean %s, most %s", bytesText(math.Round(sum[0].mean)), bytesText(sum[0].most)), Color: opColors[0]})
	}
	if sum[1].mean > 0 {
		k = append(k, figure.Entry{Name: fmt.Sprintf("time, mean %s, most %s", secondsText(sum[1].mean), secondsText(sum[1].most)), Color: opColors[1]})
	}
	figure.AddKey(p, k)
	p.X.Label.Text, p.Y.Label.Text = "rank"+l.rows.shared("bar"), "times the mean of all ranks"
	p.X.Tick.Marker, p.Y.Tick.Marker = l.rows.ticks(16, false), plot.TickerFunc(figure.DecimalTicks)
	p.X.Min, p.X.Max = 0, float64(max(1, l.rows.count()))
	p.Y.Min, p.Y.Max = 0, max(1.1, 1.04*p.Y.Max)
	return nil
}

func (s *survey) describeLoad() string {
	l := s.load
	all, _ := l.spreads()
	return fmt.Sprintf("Bars of bytes and time of I/O for %s ranks: mean %s and %s, most %s and %s.", figure.Number(float64(len(l.rows.numbers))),
		bytesText(math.Round(all[0].mean)), secondsText(all[1].mean), bytesText(all[0].most), secondsText(all[1].most))
}
