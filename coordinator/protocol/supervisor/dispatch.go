package supervisor

import (
	"ckpt/coordinator/protocol"
)

// feed gives an event to the Coordinator of a group and deals with what comes of it.
func (s *Supervisor) feed(g *group, ev protocol.Event) { s.handle(g, g.co.Step(s.now, ev)) }

// happened takes an event of a group from outside.
func (s *Supervisor) happened(g *group, ev protocol.Event) {
	switch e := ev.(type) {
	case protocol.FromRank:
		if e.Incarnation == g.incarnation && e.Rank >= 0 && e.Rank < s.ranks && s.of[e.Rank] == g {
			s.hear(g, e.Rank, e.Message)
		}
	case protocol.Committed:
		g.vectors = e.Vectors
	}
	s.feed(g, ev)
}

// hear takes what a message of a rank means beyond its group.
func (s *Supervisor) hear(g *group, rank int, m protocol.Message) {
	switch m := m.(type) {
	case protocol.Hello:
		s.addr[rank] = m.Address
		s.announce(g, rank)
	case protocol.Ready:
		s.ready[rank] = true
		s.introduce(g, rank)
	case protocol.Fenced:
		s.fenced(g, rank, m)
	case protocol.Output:
		if m.Index > s.printed[rank] {
			s.printed[rank] = m.Index
			s.do(Job, protocol.Print{Rank: rank, Index: m.Index, Text: m.Text})
		}
	}
}

// handle passes the actions of a group's Coordinator on, and answers its questions.
func (s *Supervisor) handle(g *group, acts []protocol.Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case protocol.Spawn:
			s.spawned(g, &a)
			s.do(g.id, a)
		case protocol.Report:
			if n := a.Notice; n.Kind == protocol.CheckpointTaken {
				s.taken(g, n.Checkpoint, n.Iter)
			}
			s.do(g.id, a)
		case protocol.Answer:
			s.answered(a)
		case protocol.Finish:
			s.finished(a.Outcome)
		case protocol.Down:
			s.down(g, a)
		case protocol.Await:
			s.await(g, a.Step)
		case protocol.Agreed:
			s.agree(g, a.Iter)
		case protocol.Rest:
			s.rested(g, a)
		default:
			s.do(g.id, a)
		}
	}
}

// spawned notes that a group begins a new incarnation.
func (s *Supervisor) spawned(g *group, a *protocol.Spawn) {
	g.incarnation, g.from = a.Incarnation, a.From
	a.Line, a.Fresh = g.line, g.fresh
	g.line, g.fresh = nil, false
	g.live, g.asks, g.down, g.rest = false, false, false, nil
	for _, rank := range g.ranks {
		s.addr[rank], s.ready[rank] = "", false
	}
}

// outside returns what the ranks of other groups have sent, if all stand still for a
// stop, by sender.
func (s *Supervisor) outside(g *group) map[int][]protocol.Count {
	if s.stop == nil || !s.stop.still {
		return nil
	}
	sent := map[int][]protocol.Count{}
	for rank, o := range s.of {
		if o != g {
			sent[rank] = o.co.Sent(rank)
		}
	}
	return sent
}

// await answers a question for leave. Most are answered at once.
func (s *Supervisor) await(g *group, step protocol.Step) {
	switch {
	case step == protocol.StartStep:
		g.asks = true
		if !s.lines() {
			s.start(g)
		}
	case !s.several():
		s.feed(g, protocol.Permit{Step: protocol.DrainStep})
	}
}

// start lets the ranks of a group compute.
func (s *Supervisor) start(g *group) {
	g.live, g.asks = true, false
	s.feed(g, protocol.Permit{Step: protocol.StartStep})
}

// startReady lets the groups that went back together compute, when all of them
// are ready: until then none of them can have told anybody anything new, so that
// another failure finds the same history as this one did.
func (s *Supervisor) startReady() {
	if !s.lines() || s.recovery != nil || s.outcome != nil {
		return
	}
	for _, g := range s.groups {
		if !g.live && !g.asks {
			return
		}
	}
	for _, g := range s.groups {
		if g.asks {
			s.start(g)
		}
	}
}
