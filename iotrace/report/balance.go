package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

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

func (s *survey) drawLoad(p *plot.Plot) error {
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

// layerFiles is the number of files in the picture of the layers, at most.
const layerFiles = 8

// fileLayers is what a program asks of MPI-IO for a file, and what reaches POSIX: bytes,
// then requests.
type fileLayers struct {
	name         string
	mpiio, posix [2]float64
}

// layered returns the files with MPI-IO, those with the most bytes first, and the
// number of all of them.
func layered(r *analyze.Report, file string) (out []fileLayers, all int) {
	for i := range r.Files {
		f := &r.Files[i]
		if f.MPIIO == nil || file != "" && f.Name != file {
			continue
		}
		m := f.MPIIO
		out = append(out, fileLayers{f.Name,
			[2]float64{float64(m.BytesWritten) + float64(m.BytesRead), float64(m.Writes) + float64(m.Reads)},
			[2]float64{float64(m.PosixBytesWritten) + float64(m.PosixBytesRead), float64(m.PosixWrites) + float64(m.PosixReads)}})
	}
	slices.SortStableFunc(out, func(a, b fileLayers) int {
		return cmp.Compare(max(b.mpiio[0], b.posix[0]), max(a.mpiio[0], a.posix[0]))
	})
	all = len(out)
	return out[:min(all, layerFiles)], all
}

// The two halves of the picture: bars of bytes begin at 0, bars of requests at 1.5;
// the longer bar of each file is 1 long, and space for its number follows.
var layerHalves = [2]float64{0, 1.5}

// layerBars returns the bars of files, the first one at the top, and their numbers.
func layerBars(files []fileLayers) (bars []box, numbers []layerNumber) {
	for row, f := range files {
		bottom := float64(len(files) - row - 1)
		for half, x0 := range layerHalves {
			longest := max(f.mpiio[half], f.posix[half])
			for class, x := range [2]float64{f.mpiio[half], f.posix[half]} {
				b := box{x0, bottom + 0.12 + 0.38*float64(1-class), x0, 0, class}
				b.y1 = b.y0 + 0.38
				if longest > 0 {
					b.x1 += x / longest
				}
				if x > 0 {
					bars = append(bars, b)
				}
				text := figure.Number(x)
				if half == 0 {
					text = bytesText(x)
				}
				numbers = append(numbers, layerNumber{b.x1, (b.y0 + b.y1) / 2, text})
			}
		}
	}
	return bars, numbers
}

// A layerNumber is written to the right of a point.
type layerNumber struct {
	x, y float64
	text string
}

type layerNumbers []layerNumber

func (n layerNumbers) Plot(c draw.Canvas, p *plot.Plot) {
	fx, fy := p.Transforms(&c)
	style := p.Legend.TextStyle
	style.Font.Size = 8
	style.YAlign = draw.YCenter
	for _, k := range n {
		c.FillText(style, vg.Point{X: fx(k.x) + 3, Y: fy(k.y)}, k.text)
	}
}

func (s *survey) drawLayers(p *plot.Plot) error {
	files, all := layered(s.r, s.name)
	bars, numbers := layerBars(files)
	p.Add(&boxes{all: bars, colors: opColors, least: 0.8}, layerNumbers(numbers))
	if len(files) > 0 {
		figure.AddKey(p, figure.Key{{Name: "MPI-IO: the program asks", Color: opColors[0]}, {Name: "POSIX: the file system sees", Color: opColors[1]}})
	}
	var ticks plot.ConstantTicks
	for row, f := range files {
		ticks = append(ticks, plot.Tick{Value: float64(len(files)-row) - 0.5, Label: shorten(legal(f.name), 28)})
	}
	if len(files) == 0 {
		ticks = plot.ConstantTicks{{Value: 0.5, Label: "no MPI-IO"}}
	}
	if all > len(files) {
		p.X.Label.Text = fmt.Sprintf("%d of %s files, those with the most bytes", len(files), figure.Number(float64(all)))
	}
	p.X.Tick.Marker = plot.ConstantTicks{{Value: layerHalves[0] + 0.5, Label: "bytes"}, {Value: layerHalves[1] + 0.5, Label: "requests"}}
	p.Y.Tick.Marker = ticks
	p.Y.Tick.Label.Font.Size = vg.Length(7.5)
	p.X.Min, p.X.Max = 0, layerHalves[1]+1.45
	p.Y.Min, p.Y.Max = 0, float64(max(1, len(files)))
	return nil
}

func (s *survey) describeLayers() string {
	files, all := layered(s.r, "")
	text := fmt.Sprintf("Bars of bytes and requests of MPI-IO and of POSIX for %d of %d files.", len(files), all)
	if len(files) > 0 {
		f := files[0]
		text += fmt.Sprintf(" The largest: MPI-IO %s in %s requests, POSIX %s in %s.", bytesText(f.mpiio[0]), figure.Number(f.mpiio[1]), bytesText(f.posix[0]), figure.Number(f.posix[1]))
	}
	return text
}
