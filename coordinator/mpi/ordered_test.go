package mpi

import (
	"encoding/binary"
	"math"
	"slices"
)

// An ordered program computes on what no order of arrival changes, and remembers the orders
// in which any-source receives were matched, on which all ranks must agree.
type ordered struct {
	iter   int
	x      []float64
	order  uint64
	orders []uint64
}

func newOrdered(rank int) *ordered {
	p := &ordered{x: make([]float64, 40)}
	for i := range p.x {
		p.x[i] = math.Sin(float64(rank*100 + i))
	}
	return p
}

func (p *ordered) clone() *ordered {
	c := *p
	c.x, c.orders = slices.Clone(p.x), slices.Clone(p.orders)
	return &c
}

// step is an iteration. op is called before each operation.
func (p *ordered) step(c *Comm, op func()) error {
	me, n := c.Rank(), c.Size()
	p.iter++
	y := make([]float64, len(p.x))
	op()
	if err := c.SendFloat64s((me+1)%n, 0, p.x); err != nil {
		return err
	}
	op()
	if _, err := c.RecvFloat64s((me+n-1)%n, 0, y); err != nil {
		return err
	}
	for i := range y {
		p.x[i] = p.x[i]*0.6 + y[i]*0.4
	}
	// A large one that overtakes nothing.
	if p.iter%4 == 0 {
		big := make([]byte, 150_000)
		binary.LittleEndian.PutUint64(big[len(big)-8:], math.Float64bits(p.x[3]))
		op()
		if err := c.Send((me+2)%n, 2, big); err != nil {
			return err
		}
		op()
		if _, err := c.Recv((me+n-2)%n, 2, big); err != nil {
			return err
		}
		p.x[5] += math.Float64frombits(binary.LittleEndian.Uint64(big[len(big)-8:]))
	}
	// All tell the root, itself included, who hears them in any order.
	root := p.iter % n
	op()
	if err := c.SendFloat64s(root, 1, []float64{p.x[0]}); err != nil {
		return err
	}
	order := make([]float64, 2) // in halves, which a float64 holds
	if me == root {
		p.order = p.order*31 + 7
		sum := make([]float64, n)
		for range n {
			op()
			var v [1]float64
			from, err := c.RecvFloat64s(AnySource, 1, v[:])
			if err != nil {
				return err
			}
			sum[from] += v[0]
			p.order = p.order*uint64(n+1) + uint64(from) + 1
		}
		for _, v := range sum {
			p.x[1] += v
		}
		order[0], order[1] = float64(p.order>>32), float64(uint32(p.order))
	}
	op()
	if err := c.AllreduceSum(order); err != nil {
		return err
	}
	p.order = uint64(order[0])<<32 | uint64(order[1])
	p.orders = append(p.orders, p.order)
	op()
	return c.AllreduceSum(p.x[:2])
}
