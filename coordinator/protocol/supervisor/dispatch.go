package supervisor

import (
	"slices"

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
		g.vectors, g.passing = e.Vectors, e.Passing
	case protocol.Settled:
		s.arrived(g, e.Number)
		return
	case protocol.Passed:
		g.lose(e.Number)
		return
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

func (s *Supervisor) spawned(g *group, a *protocol.Spawn) {
	g.incarnation, g.from = a.Incarnation, a.From
	a.Line, a.Fresh = g.line, g.fresh
	g.line, g.fresh = nil, false
	g.live, g.asks, g.down, g.rest = false, false, false, nil
	for _, rank := range g.ranks {
		s.addr[rank], s.ready[rank] = "", false
	}
}

// outside returns what the ranks of other groups have sent, if all stand still for a stop, by
// sender.
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

func (s *Supervisor) start(g *group) {
	g.live, g.asks = true, false
	s.feed(g, protocol.Permit{Step: protocol.StartStep})
}

// startReady lets the groups that went back together compute, when all of them are ready: until
// then they have sent no news, so that another failure finds the same history as this one did.
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

// announce tells the other groups where a new process is.
func (s *Supervisor) announce(g *group, rank int) {
	for _, o := range s.groups {
		for _, peer := range o.ranks {
			if o != g && s.ready[peer] {
				s.do(o.id, s.moved(peer, rank))
			}
		}
	}
}

// introduce tells a new process where the others are.
func (s *Supervisor) introduce(g *group, rank int) {
	for _, o := range s.groups {
		for _, peer := range o.ranks {
			if o != g && s.addr[peer] != "" {
				s.do(g.id, s.moved(rank, peer))
			}
		}
	}
	s.recollect(g, rank)
}

func (s *Supervisor) moved(to, rank int) protocol.Send {
	return protocol.Send{Rank: to, Message: protocol.Moved{Life: s.life(rank), Address: s.addr[rank]}}
}

func (s *Supervisor) life(rank int) protocol.Life {
	return protocol.Life{Rank: rank, Incarnation: uint64(s.of[rank].incarnation)}
}

// startOver restarts the whole job from scratch, with empty logs.
func (s *Supervisor) startOver() {
	for _, g := range s.groups {
		if g.co.Commits() {
			return
		}
	}
	r := s.recovery
	s.recovery = nil
	account := protocol.Recovery{Failed: r.failed, Decided: s.now - r.since, From: make([]int, len(s.groups))}
	s.do(Job, protocol.Report{Notice: protocol.Notice{Kind: protocol.FallingBack, Rank: -1,
		Text: "no recovery line is left in the checkpoints and logs: the job restarts from scratch"}})
	for _, g := range s.groups {
		s.halt(g)
		account.RolledBack, account.Ranks = append(account.RolledBack, g.id), account.Ranks+len(g.ranks)
		account.Iterations = append(account.Iterations, g.lost(0))
	}
	s.do(Job, account)
	s.wipe()
	for _, g := range s.groups {
		g.fresh = true
		s.rollBack(g, 0)
	}
	s.do(Job, protocol.Collect{Base: slices.Clone(s.base)})
}

// wipe abandons all checkpoints. Until the logs are empty, a coordinator that takes the job over
// has to restart it from scratch too: a part of the old history would look like a whole one.
func (s *Supervisor) wipe() {
	for i := range s.base {
		s.base[i] = -1
	}
	s.do(Job, protocol.Collect{Base: slices.Clone(s.base)})
	for _, g := range s.groups {
		s.do(g.id, protocol.Forget{Numbers: g.forget(0)})
		s.base[g.id], g.floor = 0, nil
	}
}

// A request is one for a checkpoint of every group.
type request struct {
	id      int // who asked
	left    int // groups that have yet to answer
	number  int // the newest checkpoint so far
	failure string
}

func (s *Supervisor) request(r protocol.Request) {
	switch {
	case !s.several():
		s.feed(s.groups[0], protocol.Requested{Request: r})
	case s.ended || s.outcome != nil:
		s.do(Job, protocol.Answer{ID: r.ID, Err: "the job has ended"})
	case r.Stop && r.Now:
		s.endJob(protocol.Outcome{Result: protocol.StoppedByRequest, Rank: -1})
		s.do(Job, protocol.Answer{ID: r.ID})
	case r.Stop:
		s.stops = append(s.stops, r.ID)
	default:
		s.nextID--
		s.asked[s.nextID] = &request{id: r.ID, left: len(s.groups)}
		id := s.nextID
		for _, g := range s.groups {
			s.feed(g, protocol.Requested{Request: protocol.Request{ID: id}})
		}
	}
}

// finishingText is what a Coordinator answers when it takes no more checkpoints.
const finishingText = "the job is finishing"

func (s *Supervisor) answered(a protocol.Answer) {
	if !s.several() {
		s.do(Job, a)
		return
	}
	if s.stop != nil && a.ID == s.stop.internal && s.outcome == nil {
		if a.Err != "" {
			s.spoilStop(a.Err)
		} else {
			s.stop.number = max(s.stop.number, a.Number)
		}
		return
	}
	r := s.asked[a.ID]
	if r == nil {
		return // of a stop that failed already
	}
	r.left--
	r.number = max(r.number, a.Number)
	if a.Err != "" && (r.failure == "" || r.failure == finishingText) {
		r.failure = a.Err
	}
	if r.left > 0 {
		return
	}
	delete(s.asked, a.ID)
	if r.failure == finishingText && r.number > 0 {
		r.failure = "" // those that have ended do without
	}
	if r.failure != "" {
		r.number = 0
	}
	s.do(Job, protocol.Answer{ID: r.id, Number: r.number, Err: r.failure})
}
