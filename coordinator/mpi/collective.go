package mpi

import "fmt"

// The collective operations run over a binomial tree of rank numbers, so the order
// of additions depends on the number of ranks alone: not on timing, nor on the
// mapping of ranks to nodes. Sums of floating-point numbers are the same
// bits in every run.
//
// Their messages travel in a context of their own, with the operation as tag.
// Ranks call collectives in the same order and messages of a pair stay in
// order, so the next collective message of a peer is the one awaited; its tag
// and length only show a program that broke the rule.

// The operations. Their numbers stand in images and message logs.
const (
	opBarrier   int32 = 0
	opAllreduce int32 = 3
)

func opName(op int32) string {
	switch op {
	case opBarrier:
		return "barrier"
	case opAllreduce:
		return "allreduce"
	}
	return fmt.Sprintf("operation %d", op)
}

// Barrier returns when every rank has called it.
func (c *Comm) Barrier() error {
	err := c.reduce(opBarrier, nil)
	if err == nil {
		err = c.bcast(opBarrier, nil)
	}
	return c.wrap(opName(opBarrier), AnySource, err)
}

// AllreduceSum replaces data of every rank by the element-wise sum.
func (c *Comm) AllreduceSum(data []float64) error {
	err := c.reduce(opAllreduce, data)
	if err == nil {
		err = c.bcast(opAllreduce, bytesOf(data))
	}
	return c.wrap(opName(opAllreduce), AnySource, err)
}

// reduce adds data of all ranks into that of rank 0; data of ranks on the way
// holds partial sums afterwards. The children of rank r are r+1, r+2, r+4 … below
// its lowest set bit, and are added in this order.
func (c *Comm) reduce(op int32, data []float64) error {
	r := c.cfg.Rank
	for bit := 1; bit < c.cfg.Size; bit <<= 1 {
		if r&bit != 0 {
			return c.send(r-bit, envelope{collectiveContext, op}, bytesOf(data))
		}
		if r+bit >= c.cfg.Size {
			continue
		}
		m, err := c.receiveOp(op, r+bit, len(data)*8)
		if err != nil {
			return err
		}
		for i, x := range floatsOf(m.data) {
			data[i] += x
		}
		c.in.pool.put(m)
	}
	return nil
}

// bcast copies data of rank 0 down the same tree, the largest subtree first.
func (c *Comm) bcast(op int32, data []byte) error {
	r, bit := c.cfg.Rank, 1
	for ; bit < c.cfg.Size && r&bit == 0; bit <<= 1 {
	}
	if r != 0 {
		m, err := c.receiveOp(op, r-bit, len(data))
		if err != nil {
			return err
		}
		copy(data, m.data)
		c.in.pool.put(m)
	}
	for bit >>= 1; bit > 0; bit >>= 1 {
		if r+bit < c.cfg.Size {
			if err := c.send(r+bit, envelope{collectiveContext, op}, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// receiveOp receives the next collective message of src.
func (c *Comm) receiveOp(op int32, src, bytes int) (*message, error) {
	m, err := c.in.receive(pattern{ctx: collectiveContext, src: src, tag: AnyTag, bytes: -1})
	if err != nil {
		return nil, err
	}
	if m.tag != op {
		return nil, fmt.Errorf("rank %d is in %s", src, opName(m.tag))
	}
	if len(m.data) != bytes {
		return nil, fmt.Errorf("rank %d has %d bytes, this rank %d", src, len(m.data), bytes)
	}
	return m, nil
}
