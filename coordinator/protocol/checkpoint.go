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
	c.rest(Rest{Number: number})
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

func (c *Coordinator) receive(r *rankState, m Message) {
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
		if c.phase == starting && c.answered(r) {
			c.phase = ready
			c.ask(Await{StartStep})
		}
	case SetupFailed, Unrestorable:
		if c.phase == starting {
			c.setupFailed(r.rank, m.Kind == Unrestorable, m.Text, m.Body)
		}
	case Done:
		c.rankDone(r, m)
	case Stopped:
		c.rankStopped(r, m)
	case Holding, Drained, Captured, Written, WriteFailed, Aborted:
		switch {
		case m.Number == c.next:
			c.progress(r, m)
		case c.behind != nil && m.Number == c.behind.cp.Number:
			c.progressBehind(r, m)
		}
	}
}

// progress takes a rank's answer within the checkpoint under way.
func (c *Coordinator) progress(r *rankState, m Message) {
	switch {
	case m.Kind == Holding && c.phase == proposing:
		r.iter = max(r.iter, m.Iter)
		c.boundary = max(c.boundary, m.Iter)
		if c.answered(r) {
			c.agreed()
		}
	case m.Kind == Drained && c.phase == emptying:
		if c.answered(r) {
			c.enter(storing)
			c.wrote = c.now
			c.do(Prepare{c.next})
			c.do(Broadcast{Message{Kind: Write, Number: c.next, Iter: c.boundary}})
		}
	case m.Kind == Captured && c.phase == storing:
		c.captured(r)
	case m.Kind == Written && c.phase == storing:
		r.body = m.Body
		last := c.answered(r)
		c.captured(r)
		if last && c.phase == storing {
			c.commit()
		}
	case m.Kind == WriteFailed && c.phase == storing:
		c.abort(r.rank, m.Text, m.Body)
	case m.Kind == Aborted && c.phase == aborting:
		if c.answered(r) {
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
	if stops(c.serving) {
		c.phase = agreeing
		c.ask(Agreed{c.boundary})
		return
	}
	c.enter(stopping)
	c.do(Broadcast{Message{Kind: StopAt, Number: c.next, Iter: c.boundary}})
}

// rankStopped takes Stopped, which may also begin a scheduled checkpoint.
func (c *Coordinator) rankStopped(r *rankState, m Message) {
	if m.Number != c.next {
		return
	}
	switch c.phase {
	case running:
		c.enter(stopping)
		c.boundary = m.Iter
		c.began = c.now
		c.serving, c.waiting = c.waiting, nil
		if stops(c.serving) {
			c.ask(Agreed{c.boundary})
		}
	case stopping:
		if m.Iter != c.boundary {
			return
		}
	case proposing:
		// It stopped at the armed boundary before it heard of the proposal,
		// and will say so again after StopAt.
		r.stopped = c.now
		return
	default:
		return
	}
	r.iter, r.counts = m.Iter, m.Counts
	if r.stopped < c.began {
		r.stopped = c.now
	}
	if c.answered(r) {
		c.mayDrain()
	}
}

// drain tells every rank how many messages each peer has sent to it: those of the
// group and, if outside is given, others.
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
		c.do(Send{Message{Kind: Drain, Rank: rank, Number: c.next, Counts: expected[i]}})
	}
}
