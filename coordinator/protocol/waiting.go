package protocol

import (
	"fmt"
	"time"
)

// tellAfter is how long a checkpoint waits for a rank before the user is told, unless
// iterations take longer.
const tellAfter = 30 * time.Second

// rankFactor is by how much an iteration may take longer than any before it.
const rankFactor = 3

// keepsWaiting looks at a rank that others wait for at the boundary of a checkpoint. The
// user is told once of each checkpoint. It reports whether the rank has been declared
// dead.
func (c *Coordinator) keepsWaiting(r *rankState) bool {
	if c.phase != stopping || r.answered {
		return false
	}
	waits := c.now - r.moved
	if p := c.cfg.Limits.Patience; p > 0 && waits >= p {
		c.declareDead(r, fmt.Sprintf("has kept the others waiting at the boundary of checkpoint %d for %v", c.next, p))
		return true
	}
	if waits >= max(tellAfter, rankFactor*c.longest) && c.waited != c.next {
		c.waited = c.next
		c.report(Notice{Kind: Waiting, Rank: r.rank, Checkpoint: c.next, Iter: r.iter, Pause: waits})
	}
	return false
}

// phaseLimit is how long the current phase may go on without progress of the rank waited
// for.
func (c *Coordinator) phaseLimit() time.Duration {
	if c.phase == stopping {
		return max(c.cfg.Limits.Phase, rankFactor*c.longest)
	}
	return c.cfg.Limits.Phase
}
