package protocol

import (
	"fmt"
	"time"
)

// patrol is the time between two looks for overdue ranks. Looking at every message instead would
// cost the square of the number of ranks per phase.
func (c *Coordinator) patrol() time.Duration {
	return max(1, min(c.cfg.Limits.Silence, c.cfg.Limits.Phase)/8)
}

// Heard says that rank gave a sign of life at time at, whenever its message comes to be handled.
// The caller says so before each Step that is due by Deadline.
func (c *Coordinator) Heard(rank int, at time.Duration) {
	if r := c.rank(rank); r.joined {
		r.heard = max(r.heard, at)
	}
}

func (c *Coordinator) checkDeadlines() {
	late := c.now - c.inspect
	c.inspect = c.now + c.patrol()
	if c.phase == finished || c.phase == down {
		return
	}
	if late > c.cfg.Limits.Silence/2 {
		// The coordinator did not run, as after a laptop's sleep: the signs of life are still in
		// the sockets, and no rank is to blame.
		for i := range c.ranks {
			c.ranks[i].heard += late
			c.ranks[i].moved += late
			c.ranks[i].worked += late
		}
		if c.behind != nil {
			c.behind.since += late
		}
		return
	}
	c.watchBehind()
	if c.waitedForSlot() {
		return
	}
	lim := c.cfg.Limits
	for i := range c.ranks {
		r := &c.ranks[i]
		if patience := c.patience(); r.joined && c.now-r.heard >= patience {
			c.declareDead(r, fmt.Sprintf("gave no sign of life for %v", patience))
			return
		}
		if c.behindOverdue(r) {
			c.behindLate(r)
			return
		}
		if c.keepsWaiting(r) {
			return
		}
		if !c.waitsFor(r) || c.now-r.moved < c.phaseLimit() {
			continue
		}
		why := fmt.Sprintf("made no progress for %v while %v", lim.Phase, c.phase)
		if c.phase == starting || c.phase == aborting {
			c.declareDead(r, why)
		} else {
			c.abort(r.rank, why, nil)
		}
		return
	}
}

func (c *Coordinator) declareDead(r *rankState, why string) {
	c.do(Kill{r.rank})
	c.rankLost(RankLost{Incarnation: c.incarnation, Rank: r.rank, Cause: why})
}

// rankLost handles a death. A checkpoint that is just being committed is left to end: all its
// files are durable already, whoever dies now.
func (c *Coordinator) rankLost(ev RankLost) {
	switch {
	case c.phase == finished || c.phase == down:
	case c.commits():
		if c.loss == nil {
			c.loss = &ev
		}
	default:
		c.lose(ev)
	}
}

// lose aborts what is under way, after the death of a rank, and ends the incarnation. A death
// after all ranks have told their results harms nothing but the checkpoint still being written
// then.
func (c *Coordinator) lose(ev RankLost) {
	c.loseBehind(ev.Rank, fmt.Sprintf("%s before all images were written", ev.Cause))
	if results, ended := c.results(); ended && c.phase != resting {
		c.complete(results, &ev)
		return
	}
	c.dropCheckpoint(ev.Rank, ev.Cause)
	c.fail(ev)
}

// dropCheckpoint aborts what is under way with the end of the incarnation.
func (c *Coordinator) dropCheckpoint(rank int, cause string) {
	switch c.phase {
	case proposing, agreeing, stopping, holding, emptying, storing:
		c.reportAborted(rank, fmt.Sprintf("%s while %v", cause, c.phase), nil)
		c.next += c.cfg.Stride
	case aborting:
		c.next += c.cfg.Stride // reported already
	}
}

func (c *Coordinator) lossAfterCommit() {
	ev := *c.loss
	c.loss = nil
	c.lose(ev)
}

func (c *Coordinator) fail(ev RankLost) {
	c.report(Notice{Kind: RankDied, Rank: ev.Rank, Iter: c.rank(ev.Rank).iter, Incarnation: c.incarnation, Text: ev.Cause})
	text := c.blame(ev.Rank, ev.Cause)
	if !c.cfg.AutoRestart || ev.Final {
		c.finish(Outcome{Result: Failed, Rank: ev.Rank, Text: text})
		return
	}
	c.tryAgain(ev.Rank, text, nil)
}

// tryAgain restarts from the newest checkpoint, unless that has brought nothing too often. A
// restart that got no further than the one before makes the next slower and more patient: perhaps
// the machine is slow, and the ranks are not at fault.
func (c *Coordinator) tryAgain(rank int, why string, body []byte) {
	if c.futile++; c.futile > c.cfg.Limits.Restarts {
		c.finish(Outcome{Result: Failed, Rank: rank, Body: body,
			Text: fmt.Sprintf("%s, and %d restarts in a row brought no new checkpoint", why, c.cfg.Limits.Restarts)})
		return
	}
	switch got := c.Furthest(); {
	case c.futile == 1 || got > c.reached:
		c.reached, c.stuck = got, 0
	default:
		c.stuck++
		c.report(Notice{Kind: BackingOff, Rank: -1, Iter: got, Stuck: c.stuck, Pause: c.backoff(), Silence: c.patience()})
	}
	c.restart(Down{Rank: rank, Cause: why})
}

// backoff returns how long to wait before the next incarnation: nothing as long as restarts get
// further, else twice as long each time.
func (c *Coordinator) backoff() time.Duration {
	if c.stuck == 0 {
		return 0
	}
	return min(5*time.Second, 40*time.Millisecond<<min(c.stuck, 16))
}

// patience is how long a rank may give no sign of life: twice as long after each restart that got
// no further than the one before. A dead rank must still be found before it counts as one that
// makes no progress.
func (c *Coordinator) patience() time.Duration {
	lim := c.cfg.Limits
	for range c.stuck {
		if lim.Silence >= lim.Phase/2 {
			break
		}
		lim.Silence = min(2*lim.Silence, lim.Phase/2)
	}
	return lim.Silence
}

// restart ends the incarnation and asks from where the next begins.
func (c *Coordinator) restart(d Down) {
	c.phase, c.behind = down, nil
	c.ask(d)
}

func (c *Coordinator) respawn(from int) {
	c.report(Notice{Kind: Restarting, Rank: -1, From: from, Iter: c.begins(from), Incarnation: c.incarnation + 1})
	c.spawn(from)
}

// setupFailed handles an incarnation that could not be set up. The checkpoint that a
// user asked for by its number is not replaced by another; other restarts
// fall back to the checkpoint before if this one is damaged, and try again
// if it is not: memory or descriptors may have been short.
func (c *Coordinator) setupFailed(rank int, m SetupFailed) {
	switch {
	case m.Final, !c.recovers(m):
		c.finish(Outcome{Result: Failed, Rank: rank, Text: m.Text, Body: m.Body, Restored: true})
	case m.Damaged && c.from > 0:
		c.report(Notice{Kind: FallingBack, Checkpoint: c.from, Rank: rank, Text: m.Text, Body: m.Body})
		delete(c.known, c.from)
		c.restart(Down{Rank: rank, Cause: c.blame(rank, "could not be set up: "+m.Text), Damaged: c.from})
	default:
		c.report(Notice{Kind: RankDied, Rank: rank, Iter: c.begins(c.from), Incarnation: c.incarnation, Text: "could not be set up: " + m.Text})
		c.tryAgain(rank, c.blame(rank, "could not be set up: "+m.Text), m.Body)
	}
}

// recovers reports whether a set-up that has failed may be followed by another. Before the ranks
// have computed, a user who restarts a job means its checkpoints: the beginning takes the place of
// none, and a sound checkpoint for other ranks is the mistake of a user.
func (c *Coordinator) recovers(m SetupFailed) bool {
	again := c.incarnation > c.cfg.Incarnation+1
	if c.cfg.FallBack && c.cfg.Stored && !c.computed && m.Damaged {
		return !m.Unfit && len(c.known) > 1
	}
	return again || c.cfg.FallBack && (!c.cfg.Stored || m.Damaged)
}

// blame says in words what happened to a rank, −1 without one.
func (c *Coordinator) blame(rank int, what string) string {
	if c.cfg.Lone {
		return "the program " + what
	}
	if rank < 0 {
		return "the ranks " + what
	}
	return fmt.Sprintf("rank %d %s", rank, what)
}

// rankDone takes the result of a rank. From the first one on there is no boundary left that all
// ranks could share, hence no further checkpoint. Where the number of iterations is not known, a
// checkpoint may just have been agreed on.
func (c *Coordinator) rankDone(r *rankState, m Done) {
	r.done, r.body, r.iter = true, m.Body, max(r.iter, c.cfg.Iterations)
	c.finishing = true
	keep := c.waiting[:0]
	for _, w := range c.waiting {
		if w.Stop {
			keep = append(keep, w)
			continue
		}
		c.answer(w, 0, "the job is finishing")
	}
	c.waiting = keep
	results, ended := c.results()
	switch {
	case ended && c.behind == nil:
		c.complete(results, nil)
	case !ended && (c.phase == proposing || c.phase == agreeing || c.phase == stopping && !r.answered):
		c.abort(-1, "the job is finishing", nil)
	}
}

// results returns the results of all ranks, if all have ended.
func (c *Coordinator) results() ([][]byte, bool) {
	for i := range c.ranks {
		if !c.ranks[i].done {
			return nil, false
		}
	}
	results := make([][]byte, 0, len(c.ranks))
	for i := range c.ranks {
		results = append(results, c.ranks[i].body)
	}
	return results, true
}

// complete ends a job whose ranks have all told their results. The process of one of them may be
// lost by now.
func (c *Coordinator) complete(results [][]byte, lost *RankLost) {
	c.rest(Rest{Results: results, Lost: lost})
}

func (c *Coordinator) end(o Outcome) {
	c.do(Broadcast{Quit{}})
	c.finish(o)
}

// lacksSlot reports whether the ranks wait at the boundary for a slot, and not for each other.
func (c *Coordinator) lacksSlot() bool { return c.late && c.phase == storing }

func (c *Coordinator) postponed(ev Postponed) {
	switch b := c.behind; {
	case c.phase == storing && ev.Number == c.next:
		c.late, c.wrote = true, c.now
	case b != nil && ev.Number == b.cp.Number && b.step == writingBehind:
		b.late, b.since = true, c.now
	}
}

// ordered notes that the ranks write from now on: the wait belongs to the coordination.
func (c *Coordinator) ordered(ev Ordered) {
	if b := c.behind; b != nil && b.late && ev.Number == b.cp.Number {
		b.late, b.ordered, b.disturbs, b.since = false, c.now, c.now, c.now
	}
	if !c.lacksSlot() || ev.Number != c.next {
		return
	}
	c.late, c.wrote = false, c.now
	for i := range c.ranks {
		c.ranks[i].moved = c.now
	}
}

// waitedForSlot aborts a checkpoint that has waited for a slot as long as a phase may last. The
// computation goes on without it.
func (c *Coordinator) waitedForSlot() bool {
	limit := c.cfg.Limits.Phase
	why := func() string {
		return fmt.Sprintf("the checkpoints before it were not stored within %v, and no slot is free for another", limit)
	}
	if b := c.behind; b != nil && b.late && b.awaited && c.now-b.since >= limit {
		c.dropBehind(-1, why(), nil)
		return true
	}
	if !c.lacksSlot() || c.now-c.wrote < limit {
		return false
	}
	c.abort(-1, why(), nil)
	return true
}

// tellAfter is how long a checkpoint waits for a rank before the user is told, unless iterations
// take longer.
const tellAfter = 30 * time.Second

// rankFactor is by how much an iteration may take longer than any before it.
const rankFactor = 3

// keepsWaiting looks at a rank that others wait for at the boundary of a checkpoint. The user is
// told once of each checkpoint. It reports whether the rank has been declared dead.
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

// phaseLimit is how long the current phase may go on without progress of the rank waited for.
func (c *Coordinator) phaseLimit() time.Duration {
	if c.phase == stopping {
		return max(c.cfg.Limits.Phase, rankFactor*c.longest)
	}
	return c.cfg.Limits.Phase
}
