package protocol

import "slices"

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
	if c.cfg.Supervised {
		c.rest(Rest{Number: number})
		return
	}
	c.end(Outcome{Result: StoppedByRequest, Rank: -1})
}

// startDue begins a checkpoint, or stops the job, when it is due or asked for.
// Only a commit is waited for: it will be over in a moment.
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
	if c.phase != running || c.finishing || c.behind != nil || c.gated && !stops(c.waiting) {
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
	case Beat, InjectDue:
		r.iter = max(r.iter, m.Iter)
		if m.Progress != r.progress {
			r.progress = m.Progress
			r.moved = c.now
		}
		if work := m.Progress - uint64(m.Iter); m.Kind == Beat && work != r.work {
			r.work, r.worked = work, c.now
		}
	case Ready:
		if c.phase == starting && c.answered(m.Rank) {
			c.mayStart()
		}
	case SetupFailed, Unrestorable:
		if c.phase == starting {
			c.setupFailed(m.Rank, m.Kind == Unrestorable, m.Text, m.Body)
		}
	case Done:
		c.rankDone(m)
	case Stopped:
		c.rankStopped(m)
	case Holding, Drained, Captured, Written, WriteFailed, Aborted:
		switch {
		case m.Number == c.next:
			c.progress(m)
		case c.behind != nil && m.Number == c.behind.cp.Number:
			c.progressBehind(m)
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
	case m.Kind == Captured && c.phase == storing:
		c.captured(m.Rank)
	case m.Kind == Written && c.phase == storing:
		r.body = m.Body
		last := c.answered(m.Rank)
		c.captured(m.Rank)
		if last && c.phase == storing {
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
	if c.cfg.Supervised && stops(c.serving) {
		c.phase = agreeing
		c.ask(Agreed{c.boundary})
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
		if c.cfg.Supervised && stops(c.serving) {
			c.ask(Agreed{c.boundary})
		}
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
		c.mayDrain()
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
