package protocol

import "fmt"

// lacksSlot reports whether the ranks wait at the boundary for a slot, and not for each
// other.
func (c *Coordinator) lacksSlot() bool { return c.late && c.phase == storing }

func (c *Coordinator) postponed(ev Postponed) {
	if c.phase == storing && ev.Number == c.next {
		c.late, c.wrote = true, c.now
	}
}

// ordered notes that the ranks write from now on: the wait belongs to the coordination.
func (c *Coordinator) ordered(ev Ordered) {
	if !c.lacksSlot() || ev.Number != c.next {
		return
	}
	c.late, c.wrote = false, c.now
	for i := range c.ranks {
		c.ranks[i].moved = c.now
	}
}

// waitedForSlot aborts a checkpoint that has waited for a slot as long as a phase may last.
// The computation goes on without it.
func (c *Coordinator) waitedForSlot() bool {
	if !c.lacksSlot() || c.now-c.wrote < c.cfg.Limits.Phase {
		return false
	}
	c.abort(-1, fmt.Sprintf("the checkpoints before it were not stored within %v, and no slot is free for another", c.cfg.Limits.Phase), nil)
	return true
}
