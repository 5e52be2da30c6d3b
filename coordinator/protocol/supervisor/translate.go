package supervisor

import (
	"slices"

	"ckpt/coordinator/protocol"
)

// feed gives an event to the Coordinator of a group, ranks being numbered within
// the group, and deals with what comes of it.
func (s *Supervisor) feed(g *group, ev protocol.Event) { s.handle(g, g.co.Step(s.now, ev)) }

// happened takes an event of a group from outside.
func (s *Supervisor) happened(g *group, ev protocol.Event) {
	switch e := ev.(type) {
	case protocol.FromRank:
		local, ok := s.local(g, e.Message.Rank)
		if !ok {
			return
		}
		if e.Gen == g.gen {
			s.hear(g, local, &e.Message)
		}
		e.Message.Rank = local
		s.feed(g, e)
	case protocol.RankLost:
		if local, ok := s.local(g, e.Rank); ok {
			e.Rank = local
			s.feed(g, e)
		}
	case protocol.Committed:
		g.vectors = e.Vectors
		s.feed(g, e)
	default:
		s.feed(g, e)
	}
}

func (s *Supervisor) local(g *group, rank int) (int, bool) {
	if rank < 0 || rank >= s.ranks || s.place[rank].group != g.id {
		return 0, false
	}
	return s.place[rank].local, true
}

// hear takes what a message of a rank means beyond its group. The counts left in
// it are those of peers in the group.
func (s *Supervisor) hear(g *group, local int, m *protocol.Message) {
	switch m.Kind {
	case protocol.Hello:
		g.addr[local] = m.Text
		s.announce(g, local)
	case protocol.Ready:
		g.ready[local] = true
		s.introduce(g, local)
	case protocol.Stopped:
		g.counts[local] = m.Counts
		var inside []protocol.Count
		for _, c := range m.Counts {
			if i, ok := s.local(g, c.Peer); ok {
				inside = append(inside, protocol.Count{Peer: i, N: c.N})
			}
		}
		m.Counts = inside
	case protocol.Fenced:
		s.fenced(g, local, m)
	case protocol.Output:
		if m.Progress > s.printed[m.Rank] {
			s.printed[m.Rank] = m.Progress
			s.do(Job, protocol.Print{Rank: m.Rank, Index: m.Progress, Text: m.Text})
		}
	}
}

// handle passes the actions of a group's Coordinator on, ranks being numbered
// within the job, and answers its questions.
func (s *Supervisor) handle(g *group, acts []protocol.Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case protocol.Send:
			a.Message.Rank = g.ranks[a.Message.Rank]
			if a.Message.Kind == protocol.Drain {
				a.Message.Counts = s.expected(g, a.Message.Rank, a.Message.Counts)
			}
			s.do(g.id, a)
		case protocol.Kill:
			s.do(g.id, protocol.Kill{Rank: g.ranks[a.Rank]})
		case protocol.Spawn:
			s.spawned(g, &a)
			s.do(g.id, a)
		case protocol.Report:
			s.reported(g, &a.Notice)
			s.do(g.id, a)
		case protocol.Answer:
			s.answered(a)
		case protocol.Finish:
			s.finished(g, a.Outcome)
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

// spawned notes that a group begins a new generation.
func (s *Supervisor) spawned(g *group, a *protocol.Spawn) {
	g.gen, g.from = a.Gen, a.From
	a.Line, a.Fresh = g.line, g.fresh
	g.line, g.fresh = nil, false
	g.live, g.asks, g.down, g.rest = false, false, false, nil
	clear(g.addr)
	clear(g.ready)
}

func (s *Supervisor) reported(g *group, n *protocol.Notice) {
	if n.Kind == protocol.CheckpointTaken {
		s.taken(g, n.Checkpoint, n.Iter)
	}
	if n.Rank >= 0 {
		n.Rank = g.ranks[n.Rank]
	}
}

// expected adds to what a rank has to drain what the other groups have sent to
// it, if all stand still for a stop.
func (s *Supervisor) expected(g *group, rank int, inside []protocol.Count) []protocol.Count {
	var counts []protocol.Count
	for _, c := range inside {
		counts = append(counts, protocol.Count{Peer: g.ranks[c.Peer], N: c.N})
	}
	if s.stop == nil || !s.stop.still {
		return counts
	}
	for _, o := range s.groups {
		for i, sent := range o.counts {
			for _, c := range sent {
				if o != g && c.Peer == rank && c.N > 0 {
					counts = append(counts, protocol.Count{Peer: o.ranks[i], N: c.N})
				}
			}
		}
	}
	slices.SortFunc(counts, func(a, b protocol.Count) int { return a.Peer - b.Peer })
	return counts
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
		if !g.live && !g.asks && !s.faults.startTogether {
			return
		}
	}
	for _, g := range s.groups {
		if g.asks {
			s.start(g)
		}
	}
}
