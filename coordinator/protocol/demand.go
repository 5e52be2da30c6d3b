package protocol

import "slices"

// demanded takes the wish of a rank that waits at a boundary for a checkpoint. All ranks
// demand one at the same boundary, so that one serves them all. A rank that is alone with
// its demand must not wait for ever.
func (c *Coordinator) demanded(r *rankState, m Demand) {
	r.iter = max(r.iter, m.Iter)
	switch {
	case c.phase == running, c.phase == aborting && r.answered:
		r.demand = m.Iter // until startDue may serve it
	case c.phase == stopping && m.Iter < c.boundary:
		c.goOn(r)
	}
	// In all other phases a message that ends the wait is on its way, or will be.
}

// demands reports whether a rank waits for a checkpoint that it demanded.
func (c *Coordinator) demands() bool {
	return slices.ContainsFunc(c.ranks, func(r rankState) bool { return r.demand > 0 })
}

// passDemands lets ranks go on that wait at a boundary which others have passed.
func (c *Coordinator) passDemands() {
	for i := range c.ranks {
		if r := &c.ranks[i]; r.demand > 0 && r.demand < c.boundary {
			c.goOn(r)
		}
	}
}

func (c *Coordinator) goOn(r *rankState) {
	r.demand = 0
	c.do(Send{r.rank, StopAt{c.next, c.boundary}})
}

// refuseDemands lets ranks go on that wait for a checkpoint which will not come, because
// a rank has ended.
func (c *Coordinator) refuseDemands() {
	c.propose()
	c.abort(-1, "the job is finishing", nil)
}

// propose begins a checkpoint at a boundary that is still to be found.
func (c *Coordinator) propose() {
	for i := range c.ranks {
		c.ranks[i].demand = 0
	}
	c.enter(proposing)
	c.boundary = 0
	c.serving, c.waiting = c.waiting, nil
	c.began = c.now
}
