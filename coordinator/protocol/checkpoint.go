package protocol

import (
	"fmt"
	"slices"
	"time"
)

func (c *Coordinator) request(r Request) {
	switch {
	case c.finishing && !r.Stop:
		c.answer(r, 0, "the job is finishing")
	default:
		c.waiting = append(c.waiting, r)
	}
}

// stop ends the job on request.
func (c *Coordinator) stop(r Request, number int) {
	c.answer(r, number, "")
	c.do(Broadcast{Message{Kind: Quit}})
	c.finish(Outcome{Result: StoppedByRequest, Rank: -1})
}

// startDue begins a checkpoint, or stops the job, when it is due or asked for.
// Only a commit is waited for: it will be over in a moment.
func (c *Coordinator) startDue() {
	if c.phase == finished || c.phase == committing {
		return
	}
	for i, r := range c.waiting {
		if r.Stop && r.Now {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			c.stop(r, 0)
			return
		}
	}
	if c.phase != running || c.finishing {
		return
	}
	due, scheduled := c.budget.due(c.cfg.Schedule, c.lastEnd)
	if len(c.waiting) == 0 && (!scheduled || c.now < due) {
		return
	}
	c.enter(proposing)
	c.boundary = 0
	c.serving, c.waiting = c.waiting, nil
	c.began = c.now
	c.do(Broadcast{Message{Kind: Propose, Number: c.next}})
}

func (c *Coordinator) receive(m Message) {
	r := &c.ranks[m.Rank]
	r.heard = c.now
	switch m.Kind {
	case Hello:
		r.joined = true
		r.moved = c.now
	case Beat, Tripped:
		r.iter = max(r.iter, m.Iter)
		if m.Progress != r.progress {
			r.progress = m.Progress
			r.moved = c.now
		}
	case Ready:
		if c.phase == starting && c.answered(m.Rank) {
			c.started()
		}
	case SetupFailed, Unrestorable:
		if c.phase == starting {
			c.setupFailed(m.Rank, m.Kind == Unrestorable, m.Text, m.Body)
		}
	case Done:
		c.rankDone(m)
	case Stopped:
		c.rankStopped(m)
	case Holding, Drained, Written, WriteFailed, Aborted:
		if m.Number == c.next {
			c.progress(m)
		}
	}
}

// progress takes a rank's answer within the checkpoint under way.
func (c *Coordinator) progress(m Message) {
	r := &c.ranks[m.Rank]
	switch {
	case m.Kind == Holding && c.phase == proposing:
		r.iter = max(r.iter, m.Iter)
		c.boundary = max(c.boundary, m.Iter)
		if c.answered(m.Rank) {
			c.agreed()
		}
	case m.Kind == Drained && c.phase == emptying:
		if c.answered(m.Rank) {
			c.enter(storing)
			c.wrote = c.now
			c.do(Prepare{c.next})
			c.do(Broadcast{Message{Kind: Write, Number: c.next, Iter: c.boundary}})
		}
	case m.Kind == Written && c.phase == storing:
		r.body = m.Body
		if c.answered(m.Rank) {
			c.commit()
		}
	case m.Kind == WriteFailed && c.phase == storing:
		c.abort(m.Rank, m.Text, m.Body)
	case m.Kind == Aborted && c.phase == aborting:
		if c.answered(m.Rank) {
			c.abandoned()
		}
	}
}

// agreed sends everybody to the boundary nobody has passed.
func (c *Coordinator) agreed() {
	if c.boundary > c.cfg.Iterations {
		// Somebody is past its last boundary: there is none left to share.
		c.finishing = true
		c.abort(-1, "the job is finishing", nil)
		return
	}
	c.enter(stopping)
	c.do(Broadcast{Message{Kind: StopAt, Number: c.next, Iter: c.boundary}})
}

// rankStopped takes Stopped, which may also begin a scheduled checkpoint.
func (c *Coordinator) rankStopped(m Message) {
	if m.Number != c.next {
		return
	}
	switch c.phase {
	case running:
		c.enter(stopping)
		c.boundary = m.Iter
		c.began = c.now
		c.serving, c.waiting = c.waiting, nil
	case stopping:
		if m.Iter != c.boundary {
			return
		}
	case proposing:
		// It stopped at the armed boundary before it heard of the proposal,
		// and will say so again after StopAt.
		c.ranks[m.Rank].stopped = c.now
		return
	default:
		return
	}
	r := &c.ranks[m.Rank]
	r.iter, r.counts = m.Iter, m.Counts
	if r.stopped < c.began {
		r.stopped = c.now
	}
	if c.answered(m.Rank) {
		c.drain()
	}
}

// drain tells every rank how many messages each peer has sent to it.
func (c *Coordinator) drain() {
	expected := make([][]Count, len(c.ranks))
	for i := range c.ranks {
		for _, sent := range c.ranks[i].counts {
			if sent.Peer < len(expected) && sent.N > 0 {
				expected[sent.Peer] = append(expected[sent.Peer], Count{Peer: i, N: sent.N})
			}
		}
	}
	c.enter(emptying)
	for i := range c.ranks {
		c.do(Send{Message{Kind: Drain, Rank: i, Number: c.next, Counts: expected[i]}})
	}
}

func (c *Coordinator) commit() {
	cp := Checkpoint{Number: c.next, Iter: c.boundary, Coordination: c.wrote - c.began, Writing: c.now - c.wrote}
	for i := range c.ranks {
		r := &c.ranks[i]
		cp.Bodies = append(cp.Bodies, r.body)
		cp.Stopped = append(cp.Stopped, r.stopped)
		cp.Waited = append(cp.Waited, c.wrote-r.stopped)
	}
	c.phase = committing
	c.durable = c.now
	c.do(Commit{cp})
}

func (c *Coordinator) committed(ev Committed) {
	if c.phase != committing || ev.Number != c.next {
		return
	}
	c.known[ev.Number] = c.boundary
	c.futile = 0
	c.report(Notice{Kind: CheckpointTaken, Rank: -1, Checkpoint: ev.Number, Iter: c.boundary,
		Pause: c.now - c.firstStop(), Commit: c.now - c.durable})
	served := c.serving
	c.serving = nil
	c.endAttempt(c.now - c.began)
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

// firstStop returns when the first rank stopped for the checkpoint under way.
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
		// Nobody writes any more; the caller has removed what there was.
		c.lostCheckpoint(-1, ev.Reason, ev.Body)
		c.endAttempt(0)
		if c.loss != nil {
			c.lossAfterCommit()
			return
		}
		c.resume()
		return
	}
	c.abort(-1, ev.Reason, ev.Body) // Prepare failed
}

// endAttempt closes the account of the checkpoint under way, taken or not.
func (c *Coordinator) endAttempt(cost time.Duration) {
	if cost > 0 {
		c.budget.spent += cost
		c.budget.last = cost
	}
	c.budget.ran += max(0, c.began-c.budget.since)
	c.budget.since, c.lastEnd = c.now, c.now
	c.next++
	if c.boundary > 0 {
		c.armed = c.cfg.Schedule.next(c.boundary, c.cfg.Iterations)
	}
}

// resume lets the ranks go on after a checkpoint or its abort.
func (c *Coordinator) resume() {
	c.phase = running
	c.do(Broadcast{Message{Kind: Resume, Iter: c.armed, Number: c.next}})
}

// abort gives the checkpoint up and waits until nobody writes any more.
func (c *Coordinator) abort(rank int, why string, body []byte) {
	c.lostCheckpoint(rank, why, body)
	if c.phase == proposing {
		c.boundary = 0 // none was agreed on: the armed one still lies ahead
	}
	c.enter(aborting)
	c.do(Broadcast{Message{Kind: Abort, Number: c.next}})
}

// abandoned ends an abort: everybody has stopped writing.
func (c *Coordinator) abandoned() {
	c.do(Discard{c.next})
	c.endAttempt(0)
	c.resume()
}

// lostCheckpoint reports that the checkpoint under way will not be, and tells
// those who asked for it.
func (c *Coordinator) lostCheckpoint(rank int, why string, body []byte) {
	c.report(Notice{Kind: CheckpointLost, Checkpoint: c.next, Rank: rank, Iter: c.boundary, Text: why, Body: body})
	for _, r := range c.serving {
		text := fmt.Sprintf("checkpoint %d was given up: %s", c.next, why)
		if rank >= 0 {
			text = fmt.Sprintf("checkpoint %d was given up: rank %d: %s", c.next, rank, why)
		}
		c.answer(r, 0, text)
	}
	c.serving = nil
}
