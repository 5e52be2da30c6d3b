package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"

	"ckpt/internal/figure"
	"ckpt/iotrace"
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
