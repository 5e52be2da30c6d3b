package protocol

import (
	"fmt"
	"slices"
	"time"
)

// A behind is a checkpoint whose images are written behind the computation: every rank has a copy
// of its memory, the ranks have been resumed, and the number after it is in use for the next
// boundary. One is written at a time.
type behind struct {
	cp      Checkpoint
	step    behindStep
	left    int           // ranks that owe an answer in this step
	serving []Request     // asked for it
	aborted bool          // reported aborted
	pause   time.Duration // how long the application stood still for it
	ordered time.Duration // Write was sent
	durable time.Duration // the last Written came in
	awaited bool          // somebody waits for its end
	since   time.Duration // since when, in this step
	late    bool          // the order to write is kept back: no slot is free
	// disturbs is since when its writing may have slowed the computation, as far as that has not
	// been booked.
	disturbs time.Duration
}

type behindStep uint8

const (
	writingBehind    behindStep = iota // the ranks write
	committingBehind                   // the manifest is being renamed into place
	droppingBehind                     // aborted: waiting until no rank writes any more
)

// captured notes that a rank has a copy of its memory, or its image itself, and resumes the ranks
// after the last one, unless the job is to stop after this checkpoint: what it computed on would
// be lost.
func (c *Coordinator) captured(r *rankState) {
	if !c.cfg.Async || r.captured {
		return
	}
	r.captured = true
	r.answered = r.answered || c.queues
	c.copying--
	if c.copying > 0 || stops(c.serving) {
		return
	}
	first := c.firstStop()
	b := &behind{cp: c.checkpoint(), left: c.left, serving: c.serving, pause: c.now - first, ordered: c.wrote, disturbs: c.now}
	b.cp.Resumed = c.now
	c.serving = nil
	if c.queues {
		c.queue = append(c.queue, b)
		c.endAttempt(true)
		c.resume()
		if c.behind == nil {
			c.writeNext()
		}
		return
	}
	for i := range c.ranks {
		c.ranks[i].owes = !c.ranks[i].answered
	}
	c.behind = b
	c.endAttempt(true)
	c.resume()
	if b.left == 0 {
		c.commitBehind()
	}
}

// writeNext orders the ranks to write the oldest copy that waits.
func (c *Coordinator) writeNext() {
	b := c.queue[0]
	c.queue = c.queue[1:]
	c.behind = b
	b.left, b.ordered, b.disturbs, b.since = len(c.ranks), c.now, c.now, c.now
	for i := range c.ranks {
		c.ranks[i].owes = true
	}
	c.do(Prepare{b.cp.Number})
	c.do(Broadcast{Write{Number: b.cp.Number, Iter: b.cp.Iter}})
}

// full reports whether no further checkpoint may be behind the computation.
func (c *Coordinator) full() bool {
	return c.behind != nil && c.InFlight() >= c.cfg.InFlight
}

// InFlight is how many checkpoints are behind the computation.
func (c *Coordinator) InFlight() int {
	if c.behind == nil {
		return 0
	}
	return 1 + len(c.queue)
}

// mustWait reports whether no checkpoint may begin yet. One that stops the job waits for all that
// are behind, while the ranks compute.
func (c *Coordinator) mustWait() bool {
	return c.full() || c.behind != nil && stops(c.waiting)
}

// mayTake reports whether the checkpoint under way may be taken, now that all ranks stand at its
// boundary. One that stops the job waits for all before it: the ranks write it themselves.
func (c *Coordinator) mayTake() bool {
	return c.behind == nil || !c.full() && !stops(c.serving)
}

// queued are the requests that copies in the queue serve.
func (c *Coordinator) queued() (asked []Request) {
	for _, b := range c.queue {
		asked = append(asked, b.serving...)
	}
	return asked
}

// loseBehind reports aborted all that is behind, with the end of the incarnation.
func (c *Coordinator) loseBehind(rank int, why string) {
	if b := c.behind; b != nil && b.step == writingBehind && !b.aborted {
		c.reportAbortedBehind(b, rank, why, nil)
	}
	for _, b := range c.queue {
		c.reportAbortedBehind(b, rank, why, nil)
	}
	c.queue = nil
}

func (c *Coordinator) commits() bool {
	return c.phase == committing || c.behind != nil && c.behind.step == committingBehind
}

// progressBehind takes a rank's answer about the checkpoint written behind.
func (c *Coordinator) progressBehind(r *rankState, m Message) {
	b := c.behind
	switch m := m.(type) {
	case Written:
		if b.step != writingBehind || !r.owes {
			return
		}
		i, _ := slices.BinarySearch(c.cfg.Ranks, r.rank)
		b.cp.Bodies[i] = m.Body
		if c.settled(r) {
			c.commitBehind()
		}
	case WriteFailed:
		if b.step == writingBehind {
			c.dropBehind(r.rank, m.Text, m.Body)
		}
	case Aborted:
		if b.step == droppingBehind && r.owes && c.settled(r) {
			c.do(Discard{b.cp.Number})
			c.behindOver()
		}
	}
}

// settled notes that a rank has given the answer it owed and reports whether it was the last.
func (c *Coordinator) settled(r *rankState) bool {
	r.owes = false
	c.behind.left--
	return c.behind.left == 0
}

func (c *Coordinator) commitBehind() {
	b := c.behind
	b.step, b.durable = committingBehind, c.now
	b.cp.Writing = c.now - b.ordered
	c.do(Commit{b.cp})
}

func (c *Coordinator) committedBehind() {
	b := c.behind
	c.taken(b.cp.Number, b.cp.Iter, b.cp.Resumed-b.pause, b.pause, c.now-b.durable)
	for _, r := range b.serving {
		c.answer(r, b.cp.Number, "")
	}
	c.behindOver()
}

// failedBehind handles a failed Commit, or a failed Prepare that was reported late.
func (c *Coordinator) failedBehind(ev CommitFailed) {
	switch c.behind.step {
	case writingBehind:
		c.dropBehind(-1, ev.Reason, ev.Body)
	case committingBehind:
		// No rank writes any more; the caller has removed what there was.
		c.reportAbortedBehind(c.behind, -1, ev.Reason, ev.Body)
		c.behindOver()
	}
}

// dropBehind aborts the checkpoint, and waits until no rank writes it any more, while the
// application goes on.
func (c *Coordinator) dropBehind(rank int, why string, body []byte) {
	b := c.behind
	c.reportAbortedBehind(b, rank, why, body)
	b.late = false
	b.step, b.left, b.since = droppingBehind, len(c.ranks), c.now
	for i := range c.ranks {
		c.ranks[i].owes = true
	}
	c.do(Broadcast{Abort{b.cp.Number}})
}

// reportAbortedBehind reports a checkpoint lost and tells those who asked for it.
func (c *Coordinator) reportAbortedBehind(b *behind, rank int, why string, body []byte) {
	b.aborted = true
	c.tellAborted(Notice{Checkpoint: b.cp.Number, Iter: b.cp.Iter, Rank: rank, Text: why, Body: body}, b.serving)
	b.serving = nil
}

func (c *Coordinator) behindOver() {
	c.endDisturbance()
	c.behind = nil
	if c.cfg.InFlight < 2 {
		c.lastEnd = c.now
	}
	if c.loss != nil {
		c.lossAfterCommit()
		return
	}
	if len(c.queue) > 0 {
		c.writeNext()
		if c.phase == holding {
			c.mayDrain()
		}
		return
	}
	if results, ended := c.results(); ended {
		c.complete(results, nil)
		return
	}
	if c.phase == holding {
		c.mayDrain()
	}
}

// endDisturbance books how long the checkpoint written behind may have disturbed the computation:
// until now, or until the ranks stopped for the next one.
func (c *Coordinator) endDisturbance() {
	end := c.now
	if c.phase == stopping || c.phase == holding {
		end = c.firstStop()
	}
	c.disturbed(end)
}

// disturbed books that the checkpoint written behind may have slowed the computation until a time.
func (c *Coordinator) disturbed(end time.Duration) {
	c.budget.compute(end)
	if b := c.behind; b != nil && end > b.disturbs {
		c.budget.pace.disturbed(end-b.disturbs, c.Iteration())
		b.disturbs = end
	}
}

// watchBehind starts and stops the clock of the checkpoint written behind. A slow one harms only
// those that wait for it.
func (c *Coordinator) watchBehind() {
	b := c.behind
	if b == nil {
		return
	}
	if waits := c.awaitsBehind(); waits != b.awaited {
		b.awaited, b.since = waits, c.now
	}
}

// awaitsBehind reports whether anything waits for the one behind: the ranks at the next boundary,
// the end of the job, a request, a checkpoint that is due.
func (c *Coordinator) awaitsBehind() bool {
	if c.phase == holding && !c.mayTake() || c.hurried == c.behind || len(c.waiting) > 0 || len(c.behind.serving) > 0 || c.demands() {
		return true
	}
	if _, ended := c.results(); ended {
		return true
	}
	due, scheduled := c.due()
	return scheduled && c.now >= due && !c.finishing
}

// behindOverdue reports whether the one behind has waited too long for a rank. Computing is no
// progress of it: that goes on however stuck the writing is.
func (c *Coordinator) behindOverdue(r *rankState) bool {
	b := c.behind
	return b != nil && b.awaited && b.step != committingBehind && r.owes && !b.late &&
		c.now-max(b.since, r.worked) >= c.cfg.Limits.Phase
}

// behindLate acts on an overdue rank.
func (c *Coordinator) behindLate(r *rankState) {
	why := fmt.Sprintf("made no progress for %v while ", c.cfg.Limits.Phase)
	if c.behind.step == droppingBehind {
		c.declareDead(r, why+aborting.String())
		return
	}
	c.dropBehind(r.rank, why+"writing its image behind the computation", nil)
}
