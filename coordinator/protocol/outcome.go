package protocol

import (
	"fmt"
	"time"
)

// checkpoint returns what is known so far of the checkpoint under way.
func (c *Coordinator) checkpoint() Checkpoint {
	cp := Checkpoint{Number: c.next, Iter: c.boundary, Coordination: c.wrote - c.began}
	for i := range c.ranks {
		r := &c.ranks[i]
		cp.Bodies = append(cp.Bodies, r.body)
		cp.Stopped = append(cp.Stopped, r.stopped)
		cp.Waited = append(cp.Waited, c.wrote-r.stopped)
	}
	return cp
}

func (c *Coordinator) commit() {
	cp := c.checkpoint()
	cp.Writing = c.now - c.wrote
	c.phase = committing
	c.durable = c.now
	c.do(Commit{cp})
}

func (c *Coordinator) committed(ev Committed) {
	if c.behind != nil && c.behind.step == committingBehind && ev.Number == c.behind.cp.Number {
		c.committedBehind()
		return
	}
	if c.phase != committing || ev.Number != c.next {
		return
	}
	first := c.firstStop()
	c.taken(ev.Number, c.boundary, first, c.now-first, c.now-c.durable)
	served := c.serving
	c.serving = nil
	c.endAttempt(true)
	if c.loss != nil {
		for _, r := range served {
			c.answer(r, ev.Number, "")
		}
		c.lossAfterCommit()
		return
	}
	for i, r := range served {
		if r.Stop {
			for _, later := range served[i+1:] {
				c.answer(later, ev.Number, "")
			}
			c.phase = running
			c.stop(r, ev.Number)
			return
		}
		c.answer(r, ev.Number, "")
	}
	c.resume()
}

func (c *Coordinator) taken(number, iter int, stopped, pause, commit time.Duration) {
	c.known[number] = iter
	c.futile, c.stuck = 0, 0
	c.report(Notice{Kind: CheckpointTaken, Rank: -1, Checkpoint: number, Iter: iter, Lag: c.now - stopped, Pause: pause, Commit: commit})
}

func (c *Coordinator) firstStop() time.Duration {
	first := c.now
	for i := range c.ranks {
		if s := c.ranks[i].stopped; s >= c.began {
			first = min(first, s)
		}
	}
	return first
}

func (c *Coordinator) commitFailed(ev CommitFailed) {
	if c.phase == committing {
		// No rank writes any more; the caller has removed what there was.
		c.reportAborted(-1, ev.Reason, ev.Body)
		c.endAttempt(false)
		if c.loss != nil {
			c.lossAfterCommit()
			return
		}
		c.resume()
		return
	}
	c.abort(-1, ev.Reason, ev.Body) // Prepare failed
}

// endAttempt closes the account of the checkpoint under way, which was taken or aborted: the job
// stood still for it from the first stop until now.
func (c *Coordinator) endAttempt(taken bool) {
	first := c.firstStop()
	c.disturbed(first)
	c.budget.slowed(c.boundary, first)
	c.budget.charge(first, c.now, c.held, taken)
	c.held = 0
	c.lastEnd = c.now
	c.next += c.cfg.Stride
	if c.boundary > 0 {
		c.arm(c.boundary)
	}
	c.announce()
}

// arm sets the boundary after iteration iter at which the ranks stop by themselves.
func (c *Coordinator) arm(iter int) {
	c.armed = c.cfg.Schedule.next(iter, c.cfg.Iterations)
	if c.finishing {
		c.armed = 0
	}
}

func (c *Coordinator) resume() {
	c.phase = running
	c.do(Broadcast{Resume{c.armed, c.next}})
}

// abort ends the checkpoint under way and waits until no rank writes any more.
func (c *Coordinator) abort(rank int, why string, body []byte) {
	c.reportAborted(rank, why, body)
	if c.phase == proposing || c.phase == agreeing {
		c.boundary = 0 // without an agreement, the armed one still lies ahead
	}
	c.enter(aborting)
	c.do(Broadcast{Abort{c.next}})
}

// abandoned ends an abort: all ranks have stopped writing.
func (c *Coordinator) abandoned() {
	c.do(Discard{c.next})
	c.endAttempt(false)
	c.resume()
}

// reportAborted reports that the checkpoint under way will not be, and tells those who asked for
// it.
func (c *Coordinator) reportAborted(rank int, why string, body []byte) {
	c.tellAborted(Notice{Checkpoint: c.next, Rank: rank, Iter: c.boundary, Text: why, Body: body}, c.serving)
	c.serving = nil
}

func (c *Coordinator) tellAborted(n Notice, serving []Request) {
	n.Kind = CheckpointAborted
	c.report(n)
	for _, r := range serving {
		text := fmt.Sprintf("checkpoint %d was aborted: %s", n.Checkpoint, n.Text)
		if n.Rank >= 0 && !c.cfg.Lone {
			text = fmt.Sprintf("checkpoint %d was aborted: rank %d: %s", n.Checkpoint, n.Rank, n.Text)
		}
		c.answer(r, 0, text)
	}
}
