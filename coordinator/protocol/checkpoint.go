package protocol

import (
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

func (c *Coordinator) stop(r Request, number int) {
	c.answer(r, number, "")
	c.rest(Rest{Number: number})
}

// startDue begins a checkpoint, or stops the job, when it is due or asked for. Only a commit is
// waited for: it will be over in a moment.
func (c *Coordinator) startDue() {
	if c.phase == finished || c.commits() {
		return
	}
	for i, r := range c.waiting {
		if r.Stop && r.Now {
			if results, ended := c.results(); ended {
				c.complete(results, nil)
				return
			}
			c.waiting = slices.Delete(c.waiting, i, i+1)
			c.stop(r, 0)
			return
		}
	}
	if c.phase != running || c.mustWait() || c.gated && !stops(c.waiting) {
		return
	}
	if c.finishing {
		if c.demands() {
			c.refuseDemands()
		}
		return
	}
	due, scheduled := c.due()
	if len(c.waiting) == 0 && !c.demands() && (!scheduled || c.now < due) {
		return
	}
	c.propose()
	c.do(Broadcast{Propose{c.next}})
}

func (c *Coordinator) receive(r *rankState, m Message) {
	r.heard = c.now
	switch m := m.(type) {
	case Hello:
		r.joined = true
		r.moved = c.now
	case Beat:
		if m.Iter > r.iter && r.progress > 0 {
			c.longest = max(c.longest, c.now-r.moved)
		}
		r.iter = max(r.iter, m.Iter)
		if m.Progress != r.progress {
			r.progress = m.Progress
			r.moved = c.now
		}
		if work := m.Progress - uint64(m.Iter); work != r.work {
			r.work, r.worked = work, c.now
		}
	case InjectDue:
		r.iter, r.moved = max(r.iter, m.Iter), c.now
	case Ready:
		if c.phase == starting && c.answered(r) {
			c.phase = ready
			c.ask(Await{StartStep})
		}
	case SetupFailed:
		if c.phase == starting {
			c.setupFailed(r.rank, m)
		}
	case Done:
		c.rankDone(r, m)
	case Stopped:
		c.rankStopped(r, m)
	case Demand:
		c.demanded(r, m)
	default:
		switch number := numberOf(m); {
		case number == c.next:
			c.progress(r, m)
		case c.behind != nil && number == c.behind.cp.Number:
			c.progressBehind(r, m)
		}
	}
}

// numberOf returns the number of the checkpoint that a message is about, or 0.
func numberOf(m Message) int {
	switch m := m.(type) {
	case Holding:
		return m.Number
	case Drained:
		return m.Number
	case Captured:
		return m.Number
	case Written:
		return m.Number
	case WriteFailed:
		return m.Number
	case Aborted:
		return m.Number
	}
	return 0
}

// progress takes a rank's answer within the checkpoint under way.
func (c *Coordinator) progress(r *rankState, m Message) {
	switch m := m.(type) {
	case Holding:
		if c.phase != proposing {
			return
		}
		r.iter = max(r.iter, m.Iter)
		c.boundary = max(c.boundary, m.Iter)
		if c.answered(r) {
			c.agreed()
		}
	case Drained:
		if c.phase == emptying && c.answered(r) {
			c.store()
		}
	case Captured:
		if c.phase == storing {
			c.captured(r)
		}
	case Written:
		if c.phase == storing {
			c.held = max(c.held, time.Duration(min(m.Held, maxHeld)))
			c.written(r, m.Body)
		}
	case WriteFailed:
		if c.phase == storing {
			c.abort(r.rank, m.Text, m.Body)
		}
	case Aborted:
		if c.phase == aborting && c.answered(r) {
			c.abandoned()
		}
	}
}

// store has the ranks write, or copy what they write when its turn comes: a job that may have
// several checkpoints in flight needs no storage to go on. A checkpoint that stops the job is
// written at once.
func (c *Coordinator) store() {
	c.enter(storing)
	c.wrote, c.held = c.now, 0
	if c.queues = c.cfg.Async && c.cfg.InFlight > 1 && !stops(c.serving); c.queues {
		c.do(Broadcast{Capture{Number: c.next, Iter: c.boundary}})
		return
	}
	c.do(Prepare{c.next})
	c.do(Broadcast{Write{Number: c.next, Iter: c.boundary, Last: stops(c.serving)}})
}

// maxHeld bounds what a rank tells: 73 years.
const maxHeld = 1 << 61

// written notes that the image of a rank is durable.
func (c *Coordinator) written(r *rankState, body []byte) {
	r.body = body
	last := c.answered(r)
	c.captured(r)
	if last && c.phase == storing {
		c.commit()
	}
}

// agreed sends all ranks to the first boundary that no rank has passed.
func (c *Coordinator) agreed() {
	if c.cfg.Iterations > 0 && c.boundary > c.cfg.Iterations {
		// A rank is past its last boundary: there is nothing left to share.
		c.finishing = true
		c.abort(-1, "the job is finishing", nil)
		return
	}
	if stops(c.serving) {
		c.phase = agreeing
		c.ask(Agreed{c.boundary})
		return
	}
	c.enter(stopping)
	c.do(Broadcast{StopAt{c.next, c.boundary}})
}

// rankStopped takes Stopped, which may also begin a scheduled checkpoint.
func (c *Coordinator) rankStopped(r *rankState, m Stopped) {
	if m.Number != c.next {
		return
	}
	switch c.phase {
	case running:
		c.enter(stopping)
		c.boundary = m.Iter
		c.began = c.now
		c.serving, c.waiting = c.waiting, nil
		if c.finishing {
			c.abort(-1, "the job is finishing", nil)
			return
		}
		c.passDemands()
		if stops(c.serving) {
			c.ask(Agreed{c.boundary})
		}
	case stopping:
		if m.Iter != c.boundary {
			return
		}
	case proposing:
		// It stopped at the armed boundary before it heard of the proposal, and will say so again
		// after StopAt.
		r.stopped = c.now
		return
	default:
		return
	}
	r.iter, r.counts = m.Iter, m.Sent
	if r.stopped < c.began {
		r.stopped = c.now
	}
	if c.answered(r) {
		c.mayDrain()
	}
}

// drain tells every rank how many messages each peer has sent to it, in the group and, if outside
// is given, outside.
func (c *Coordinator) drain(outside map[int][]Count) {
	expected := make([][]Count, len(c.ranks))
	expect := func(from int, sent []Count) {
		for _, s := range sent {
			if i, ok := slices.BinarySearch(c.cfg.Ranks, s.Peer); ok && s.N > 0 {
				expected[i] = append(expected[i], Count{Peer: from, N: s.N})
			}
		}
	}
	for i := range c.ranks {
		expect(c.ranks[i].rank, c.ranks[i].counts)
	}
	for from, sent := range outside {
		expect(from, sent)
	}
	c.enter(emptying)
	for i, rank := range c.cfg.Ranks {
		slices.SortFunc(expected[i], func(a, b Count) int { return a.Peer - b.Peer })
		c.do(Send{rank, Drain{c.next, expected[i]}})
	}
}
