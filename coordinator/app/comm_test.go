package app

import (
	"fmt"
	"slices"
	"sync"
)

// world is a message-passing library in one process: eager sends, FIFO per
// source and tag, collectives in rank order. Its queues outlive the ranks, as
// drained channels outlive a restart.
type world struct {
	np    int
	mu    sync.Mutex
	cond  *sync.Cond
	queue [][]message // per destination, in order of arrival

	failed  error
	round   int
	arrived int
	parts   [][]float64
	result  []float64
}

type message struct {
	src, tag int
	data     []float64
}

func newWorld(np int) *world {
	w := &world{np: np, queue: make([][]message, np), parts: make([][]float64, np)}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// clone copies what is in flight into a new world.
func (w *world) clone() *world {
	out := newWorld(w.np)
	for dst, q := range w.queue {
		for _, m := range q {
			out.queue[dst] = append(out.queue[dst], message{m.src, m.tag, slices.Clone(m.data)})
		}
	}
	return out
}

func (w *world) inFlight() int {
	n := 0
	for _, q := range w.queue {
		n += len(q)
	}
	return n
}

// fail wakes all ranks after an error of one.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
	w.cond.Broadcast()
}

type worldRank struct {
	*world
	rank int
}

func (c worldRank) Rank() int { return c.rank }
func (c worldRank) Size() int { return c.np }

func (c worldRank) SendFloat64s(dst, tag int, data []float64) error {
	if dst < 0 || dst >= c.np || dst == c.rank {
		return fmt.Errorf("rank %d sends to %d", c.rank, dst)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue[dst] = append(c.queue[dst], message{c.rank, tag, slices.Clone(data)})
	c.cond.Broadcast()
	return nil
}

func (c worldRank) RecvFloat64s(src, tag int, data []float64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.failed != nil {
			return 0, c.failed
		}
		for i, m := range c.queue[c.rank] {
			if m.tag != tag || src != -1 && m.src != src {
				continue
			}
			if len(m.data) != len(data) {
				return 0, fmt.Errorf("rank %d: message of %d values from %d tag %d; want %d", c.rank, len(m.data), m.src, tag, len(data))
			}
			copy(data, m.data)
			c.queue[c.rank] = slices.Delete(c.queue[c.rank], i, i+1)
			return m.src, nil
		}
		c.cond.Wait()
	}
}

func (c worldRank) AllreduceSum(data []float64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	round := c.round
	c.parts[c.rank] = slices.Clone(data)
	c.arrived++
	if c.arrived == c.np {
		c.result = slices.Clone(c.parts[0])
		for _, part := range c.parts[1:] {
			for i := range c.result {
				c.result[i] += part[i]
			}
		}
		c.arrived = 0
		c.world.round++
		c.cond.Broadcast()
	}
	for round == c.round && c.failed == nil {
		c.cond.Wait()
	}
	// The next collective cannot complete before this rank has joined it, so
	// result is still this one's.
	copy(data, c.result)
	return c.failed
}
