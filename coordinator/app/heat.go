package app

import (
	"fmt"
	"math"

	"ckpt/zones"
	"ckpt/zones/global"
)

// heat is the equation of heat on a plane with fixed temperatures at its edges. All ranks hold
// the temperature and the conductivity together, in any distribution: in each iteration a rank
// gets the four neighbours of its points by the assignment of shifted sections. A point gets the
// same value on any number of ranks.
type heat struct {
	a      *App
	layout *global.Layout
	rows   []int64 // of the plane, by row of this rank
	cols   []int64
	t      []float64
	kappa  []float64
	shifts [4]shift // neighbours above, below, to the left, to the right
}

// A shift is where the neighbours on one side come from and go to.
type shift struct {
	points []float64 // the neighbour of each point of this rank
	local  []global.Transfer
	get    []exchange
	send   []exchange
}

type exchange struct {
	rank int
	list []global.Transfer
	buf  []float64
}

func newHeat(a *App) (kernel, error) {
	h := &heat{a: a}
	var err error
	if h.layout, err = a.layout("t", 2); err != nil {
		return nil, err
	}
	other, err := a.layout("kappa", 2)
	if err != nil {
		return nil, err
	}
	if h.layout == nil || other == nil || !other.Array().Equal(h.layout.Array()) {
		return nil, fmt.Errorf("needs global arrays t and kappa that are distributed in the same way")
	}
	n := int(h.layout.Elements(a.rank))
	if err := a.claims(want{"t", n, &h.t}, want{"kappa", n, &h.kappa}); err != nil {
		return nil, err
	}
	a.exact = new(exactSum)
	h.rows, h.cols = h.layout.Indices(a.rank, 0), h.layout.Indices(a.rank, 1)
	for side := range h.shifts {
		if err := h.plan(side); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// edge is the temperature beyond each edge: above, below, left, right.
var edge = [4]float64{1, 1.5, 2, 0.5}

// plan finds out which points are the neighbours on one side.
func (h *heat) plan(side int) error {
	s := &h.shifts[side]
	s.points = make([]float64, len(h.t))
	for i := range s.points {
		s.points[i] = edge[side]
	}
	axis, towards := side/2, int64(2*(side%2)-1)
	to, from := h.layout.Array().All(), h.layout.Array().All()
	if towards > 0 {
		to[axis].Hi--
		from[axis].Lo++
	} else {
		to[axis].Lo++
		from[axis].Hi--
	}
	for rank := range h.layout.Ranks() {
		list, err := global.Assign(h.layout, to, h.layout, from, rank)
		if err != nil {
			return err
		}
		for _, t := range list {
			switch {
			case rank == h.a.rank && t.Rank == rank:
				s.local = append(s.local, t)
			case rank == h.a.rank:
				s.get = exchanged(s.get, t.Rank, t)
			case t.Rank == h.a.rank:
				s.send = exchanged(s.send, rank, t)
			}
		}
	}
	return nil
}

func exchanged(list []exchange, rank int, t global.Transfer) []exchange {
	if k := len(list) - 1; k < 0 || list[k].rank != rank {
		list = append(list, exchange{rank: rank})
	}
	e := &list[len(list)-1]
	e.list = append(e.list, t)
	e.buf = append(e.buf, make([]float64, t.Bytes()/int64(zones.Float64.Size()))...)
	return list
}

func (h *heat) init() error {
	shape := h.layout.Array().Shape
	i := 0
	for _, row := range h.rows {
		y := math.Sin(math.Pi * (float64(row) + 0.5) / float64(shape[0]))
		for _, col := range h.cols {
			x := math.Sin(math.Pi * (float64(col) + 0.5) / float64(shape[1]))
			h.t[i] = 1 + 0.5*x*y
			h.kappa[i] = 0.1 + 0.1*x*x*y
			i++
		}
	}
	return nil
}

func (h *heat) step(c Comm, iter int) (float64, error) {
	if err := h.exchange(c); err != nil {
		return 0, err
	}
	drive := 0.002 * ripple(iter)
	above, below, left, right := h.shifts[0].points, h.shifts[1].points, h.shifts[2].points, h.shifts[3].points
	var sum exactSum
	for i, old := range h.t {
		d := h.kappa[i]*(above[i]+below[i]+left[i]+right[i]-4*old) + drive - 0.002*old
		h.t[i] = old + d
		sum.add(d * d)
	}
	h.a.exact.merge(sum)
	return 0, nil
}

// exchange gets the neighbours of all points, before any of these changes.
func (h *heat) exchange(c Comm) error {
	const size = 8
	for side := range h.shifts {
		for _, e := range h.shifts[side].send {
			at := 0
			for _, t := range e.list {
				t.Blocks(func(_, src, n int64) { at += copy(e.buf[at:], h.t[src/size:(src+n)/size]) })
			}
			if err := c.SendFloat64s(e.rank, side, e.buf); err != nil {
				return err
			}
		}
	}
	for side := range h.shifts {
		s := &h.shifts[side]
		for _, t := range s.local {
			t.Blocks(func(dst, src, n int64) { copy(s.points[dst/size:(dst+n)/size], h.t[src/size:]) })
		}
		for _, e := range s.get {
			if _, err := c.RecvFloat64s(e.rank, side, e.buf); err != nil {
				return err
			}
			at := 0
			for _, t := range e.list {
				t.Blocks(func(dst, _, n int64) { at += copy(s.points[dst/size:(dst+n)/size], e.buf[at:]) })
			}
		}
	}
	return nil
}
