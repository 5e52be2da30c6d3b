package recovery

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// An arrow is a message, or all messages between two intervals.
type arrow struct {
	from, to        int
	sent, received  float64 // on the axis
	arrived         bool
	kind            arrowKind
	lowSeq, highSeq uint64
}

// An arrowKind is what the recovery line makes of a message.
type arrowKind uint8

const (
	keptArrow    arrowKind = iota // sent and received before the line
	undoneArrow                   // after the line
	liveArrow                     // on its way between two ranks that go on
	transitArrow                  // sent before and received behind it
	lostArrow                     // as a message in transit it has forced a rank back
	orphanArrow                   // received before and sent behind what was then the line
)

// weight puts what the recovery is about on top.
func (k arrowKind) weight() int {
	if k < transitArrow {
		return 0
	}
	return 1
}

func (k arrowKind) style() draw.LineStyle {
	dashes := []vg.Length{4, 2}
	switch k {
	case undoneArrow:
		return draw.LineStyle{Color: pale, Width: 0.9}
	case liveArrow:
		return draw.LineStyle{Color: grey, Width: 0.7, Dashes: dashes}
	case transitArrow:
		return draw.LineStyle{Color: blue, Width: 1.1, Dashes: dashes}
	case lostArrow:
		return draw.LineStyle{Color: purple, Width: 1.3, Dashes: dashes}
	case orphanArrow:
		return draw.LineStyle{Color: red, Width: 1.3}
	}
	return draw.LineStyle{Color: grey, Width: 0.7}
}

// findArrows returns the arrows to draw, and the number of arrows that do not fit.
func findArrows(f Figure, a axis) (list []arrow, hidden int) {
	list = countedArrows(f.History, a)
	for i := range list {
		list[i].kind = classify(f.History, f.Line, &list[i])
	}
	if len(list) <= maxArrows {
		return list, 0
	}
	all := len(list)
	list = slices.DeleteFunc(list, func(a arrow) bool { return a.kind.weight() == 0 })
	if len(list) > 2*maxArrows {
		list = slices.DeleteFunc(list, func(a arrow) bool { return a.kind == transitArrow })
	}
	return list, all - len(list)
}

func classify(h *History, l *Line, a *arrow) arrowKind {
	if l == nil {
		if !a.arrived {
			return liveArrow
		}
		return keptArrow
	}
	for _, s := range l.Steps {
		c := s.Cause
		about := a.lowSeq <= c.Last && c.First <= a.highSeq
		switch {
		case c.Kind == Orphan && c.Peer == a.from && s.Rank == a.to && about:
			return orphanArrow
		case c.Kind == Lost && s.Rank == a.from && c.Peer == a.to && about:
			return lostArrow
		}
	}
	sent := a.highSeq <= h.Sent(a.from, &l.Places[a.from].State, a.to)
	received := a.arrived && a.highSeq <= h.Received(a.to, &l.Places[a.to].State, a.from)
	switch {
	case sent && !received && l.Places[a.from].Current && l.Places[a.to].Current:
		return liveArrow
	case sent && !received:
		return transitArrow
	case sent:
		return keptArrow
	}
	return undoneArrow
}

// countedArrows makes arrows of the counters: one for each pair of intervals between which there
// were messages. An interval of a rank begins with the state of the same index.
func countedArrows(h *History, a axis) (list []arrow) {
	for i := range h.Ranks {
		for j := range h.Ranks {
			if i == j {
				continue
			}
			sent, received := bounds(h, i, h.Sent, j), bounds(h, j, h.Received, i)
			for x := range len(sent) - 1 {
				for y := range len(received) - 1 {
					low, high := max(sent[x], received[y])+1, min(sent[x+1], received[y+1])
					if low <= high {
						list = append(list, between(a, i, x, j, y, low, high))
					}
				}
				if low := max(sent[x], received[len(received)-1]) + 1; low <= sent[x+1] {
					at := a.at(i, x) + 0.4*(a.at(i, x+1)-a.at(i, x))
					list = append(list, arrow{from: i, to: j, sent: at, lowSeq: low, highSeq: sent[x+1]})
				}
			}
		}
	}
	return list
}

// bounds returns what count counts in all states that are known.
func bounds(h *History, r int, count func(int, *State, int) uint64, peer int) (list []uint64) {
	for k := range h.Ranks[r].Checkpoints {
		list = append(list, count(r, &h.Ranks[r].Checkpoints[k], peer))
	}
	if now := h.Ranks[r].Current; now != nil {
		list = append(list, count(r, now, peer))
	}
	return list
}

// between places an arrow within its intervals, forward in time if they allow it.
func between(a axis, i, x, j, y int, low, high uint64) arrow {
	part := func(r, k int, p float64) float64 { return a.at(r, k) + p*(a.at(r, k+1)-a.at(r, k)) }
	out := arrow{from: i, to: j, arrived: true, lowSeq: low, highSeq: high}
	for _, p := range []float64{0.35, 0.2, 0.05} {
		out.sent, out.received = part(i, x, p), part(j, y, 1-p)
		if out.sent < out.received {
			break
		}
	}
	return out
}

func (d *drawing) drawArrow(a arrow) {
	sty := a.kind.style()
	from := vg.Point{X: d.x(a.sent), Y: d.y(a.from)}
	if !a.arrived {
		// on its way: a line that ends before it gets there
		to := vg.Point{X: min(max(d.x(d.axis.end(a.to)), from.X+10), d.right), Y: d.y(a.to)}
		to = along(from, to, 0.7)
		d.StrokeLine2(sty, from.X, from.Y, to.X, to.Y)
		return
	}
	to := vg.Point{X: d.x(a.received), Y: d.y(a.to)}
	d.StrokeLine2(sty, from.X, from.Y, to.X, to.Y)
	d.head(sty.Color, from, to)
}

func along(from, to vg.Point, part vg.Length) vg.Point {
	return vg.Point{X: from.X + part*(to.X-from.X), Y: from.Y + part*(to.Y-from.Y)}
}

func (d *drawing) head(c color.Color, from, to vg.Point) {
	dx, dy := float64(to.X-from.X), float64(to.Y-from.Y)
	length := math.Hypot(dx, dy)
	if length == 0 {
		return
	}
	ux, uy := vg.Length(dx/length), vg.Length(dy/length)
	size := min(arrowHead, d.row*0.35)
	base := vg.Point{X: to.X - size*ux, Y: to.Y - size*uy}
	wing := size * 0.4
	d.FillPolygon(c, []vg.Point{to, {X: base.X - wing*uy, Y: base.Y + wing*ux}, {X: base.X + wing*uy, Y: base.Y - wing*ux}})
}

// An axis says where states are drawn.
type axis struct {
	h        *History
	of       func(s *State, k int) float64
	label    string
	min, max float64
	gap      float64 // after the last stored state, where the current one is not known
}

// newAxis takes iterations if they grow, else the order of the states.
func newAxis(h *History) axis {
	a := axis{h: h, label: "order of the checkpoints", of: func(_ *State, k int) float64 { return float64(k) }}
	for r := range h.Ranks {
		if s, _ := h.latest(r, false); s.Iteration > 0 {
			a.label, a.of = "iteration", func(s *State, _ int) float64 { return float64(s.Iteration) }
		}
	}
	a.min = a.at(0, 0)
	a.max = a.min
	for r := range h.Ranks {
		_, last := h.latest(r, false)
		for k := range last + 1 {
			a.min, a.max = min(a.min, a.at(r, k)), max(a.max, a.at(r, k))
		}
	}
	if a.max <= a.min {
		a.max = a.min + 1
	}
	a.gap = (a.max - a.min) / 25
	for r := range h.Ranks {
		a.max = max(a.max, a.end(r))
	}
	return a
}

// at returns where state k of a rank is; their number is the current one.
func (a *axis) at(r, k int) float64 {
	rank := &a.h.Ranks[r]
	switch {
	case k < len(rank.Checkpoints):
		return a.of(&rank.Checkpoints[k], k)
	case rank.Current != nil:
		return a.of(rank.Current, k)
	}
	return a.of(&rank.Checkpoints[k-1], k-1) + a.gap
}

// end returns where the line of a rank ends.
func (a *axis) end(r int) float64 { return a.at(r, len(a.h.Ranks[r].Checkpoints)) }

// ticks returns about eight round values.
func (a *axis) ticks() (list []float64) {
	rough := (a.max - a.min) / 8
	unit := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * unit
	for _, k := range []float64{5, 2, 1} {
		if k*unit >= rough {
			step = k * unit
		}
	}
	for i := math.Ceil(a.min / step); i*step <= a.max; i++ {
		list = append(list, math.Round(i*step*1e9)/1e9)
	}
	return list
}
