package mpi

import "fmt"

// The collective operations run over binomial trees of rank numbers, so who
// adds what to what depends on the number of ranks alone: not on timing, nor on
// the mapping of ranks to nodes. Sums of floating-point numbers are the same
// bits in every run.
//
// Their messages travel in a context of their own, with the operation as tag.
// Ranks call collectives in the same order and messages of a pair stay in
// order, so the next collective message of a peer is the one awaited; its tag
// and length only show a program that broke the rule.

const (
	opBarrier int32 = iota
	opBcast
	opReduceSum
	opAllreduceSum
	opAllreduceMax
	numOps
)

var opNames = [numOps]string{"barrier", "broadcast", "reduce", "allreduce (sum)", "allreduce (max)"}

func opName(op int32) string {
	if op < 0 || op >= numOps {
		return fmt.Sprintf("operation %d", op)
	}
	return opNames[op]
}

// Barrier returns when every rank has called it.
func (c *Comm) Barrier() error {
	err := c.reduce(opBarrier, 0, nil, nil)
	if err == nil {
		err = c.bcast(opBarrier, 0, nil)
	}
	return c.wrap(opName(opBarrier), AnySource, err)
}

// Bcast copies data of rank root into data of every other rank. The length is
// the same everywhere.
func (c *Comm) Bcast(root int, data []byte) error {
	err := c.checkRoot(root)
	if err == nil {
		err = c.bcast(opBcast, root, data)
	}
	return c.wrap(opName(opBcast), AnySource, err)
}

// ReduceSum replaces data of rank root by the element-wise sum over all ranks.
// Elsewhere data stays as it is.
func (c *Comm) ReduceSum(root int, data []float64) error {
	err := c.checkRoot(root)
	if err == nil {
		sum := data
		if v := c.relative(root); v != 0 && v&1 == 0 && c.cfg.Size > 1 {
			sum = append([]float64(nil), data...) // an inner rank adds to it on the way
		}
		err = c.reduce(opReduceSum, root, sum, add)
	}
	return c.wrap(opName(opReduceSum), AnySource, err)
}

// AllreduceSum replaces data of every rank by the element-wise sum.
func (c *Comm) AllreduceSum(data []float64) error { return c.allreduce(opAllreduceSum, data, add) }

// AllreduceMax replaces data of every rank by the element-wise maximum; a NaN
// anywhere makes the element NaN.
func (c *Comm) AllreduceMax(data []float64) error { return c.allreduce(opAllreduceMax, data, maximum) }

func add(into, from []float64) {
	for i, x := range from {
		into[i] += x
	}
}

func maximum(into, from []float64) {
	for i, x := range from {
		into[i] = max(into[i], x)
	}
}

func (c *Comm) allreduce(op int32, data []float64, combine func(into, from []float64)) error {
	err := c.reduce(op, 0, data, combine)
	if err == nil {
		err = c.bcast(op, 0, bytesOf(data))
	}
	return c.wrap(opName(op), AnySource, err)
}

func (c *Comm) checkRoot(root int) error {
	if root < 0 || root >= c.cfg.Size {
		return fmt.Errorf("there is no rank %d to be the root", root)
	}
	return nil
}

// relative returns our number in a tree whose root is 0.
func (c *Comm) relative(root int) int { return (c.cfg.Rank - root + c.cfg.Size) % c.cfg.Size }

// absolute is the inverse of relative for any rank.
func (c *Comm) absolute(v, root int) int { return (v + root) % c.cfg.Size }

// reduce combines data of all ranks into that of root; data of ranks on the
// way holds partial results afterwards. The children of v are v+1, v+2, v+4 …
// below its lowest set bit, and are added in this order.
func (c *Comm) reduce(op int32, root int, data []float64, combine func(into, from []float64)) error {
	v := c.relative(root)
	for bit := 1; bit < c.cfg.Size; bit <<= 1 {
		if v&bit != 0 {
			return c.send(c.absolute(v-bit, root), envelope{collectiveContext, op}, bytesOf(data))
		}
		if v+bit >= c.cfg.Size {
			continue
		}
		m, err := c.receiveOp(op, c.absolute(v+bit, root), len(data)*8)
		if err != nil {
			return err
		}
		if combine != nil {
			combine(data, floatsOf(m.data))
		}
		c.in.pool.put(m)
	}
	return nil
}

// bcast copies data of root down the same tree, the largest subtree first.
func (c *Comm) bcast(op int32, root int, data []byte) error {
	v := c.relative(root)
	bit := 1
	for ; bit < c.cfg.Size && v&bit == 0; bit <<= 1 {
	}
	if v != 0 {
		m, err := c.receiveOp(op, c.absolute(v-bit, root), len(data))
		if err != nil {
			return err
		}
		copy(data, m.data)
		c.in.pool.put(m)
	}
	for bit >>= 1; bit > 0; bit >>= 1 {
		if v+bit < c.cfg.Size {
			if err := c.send(c.absolute(v+bit, root), envelope{collectiveContext, op}, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// receiveOp receives the next collective message of src.
func (c *Comm) receiveOp(op int32, src, bytes int) (*message, error) {
	m, err := c.in.receive(pattern{ctx: collectiveContext, src: src, tag: AnyTag, room: -1})
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
