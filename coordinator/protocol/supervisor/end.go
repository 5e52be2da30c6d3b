package supervisor

import (
	"ckpt/coordinator/protocol"
)

// rested takes the end of a group. The job ends when all groups have.
func (s *Supervisor) rested(g *group, a protocol.Rest) {
	if !s.several() {
		o := protocol.Outcome{Result: protocol.Completed, Rank: -1, Results: a.Results}
		if a.Results == nil {
			o.Result = protocol.StoppedByRequest
		}
		s.feed(g, protocol.End{Outcome: o})
		return
	}
	g.rest = &a
	if a.Results == nil && g.agreed == 0 && s.outcome == nil {
		g.rest = nil
		s.feed(g, protocol.GoOn{}) // of a stop that failed while it committed
		return
	}
	if s.allRest() {
		s.complete()
	} else if a.Lost != nil && s.outcome == nil {
		// Others may still need what it has kept for them.
		s.feed(g, *a.Lost)
	}
}

func (s *Supervisor) allRest() bool {
	for _, g := range s.groups {
		if g.rest == nil {
			return false
		}
	}
	return true
}

// complete ends a job of which all groups rest.
func (s *Supervisor) complete() {
	if s.stop != nil {
		for _, id := range s.stop.ids {
			s.do(Job, protocol.Answer{ID: id, Number: s.stop.number})
		}
		s.stop = nil
		s.endJob(protocol.Outcome{Result: protocol.StoppedByRequest, Rank: -1})
		return
	}
	results, _ := s.results()
	s.endJob(protocol.Outcome{Result: protocol.Completed, Rank: -1, Results: results})
}

// results returns those of all ranks, if all have ended.
func (s *Supervisor) results() ([][]byte, bool) {
	all := make([][]byte, s.ranks)
	for _, g := range s.groups {
		results, ended := g.co.Results()
		if !ended {
			return nil, false
		}
		for i, r := range g.ranks {
			all[r] = results[i]
		}
	}
	return all, true
}

// finished takes the end of one group's Coordinator. Unless the job is being
// ended, the group has failed for good, and the job with it.
func (s *Supervisor) finished(o protocol.Outcome) {
	if !s.several() {
		s.ended = true
		s.do(Job, protocol.Finish{Outcome: o})
		return
	}
	if s.outcome == nil {
		s.endJob(o)
	}
}

// endJob decides how the job ends. A commit is waited for.
func (s *Supervisor) endJob(o protocol.Outcome) {
	if s.outcome == nil {
		s.outcome = &o
	}
}

// tryEnd ends the job as decided.
func (s *Supervisor) tryEnd() {
	if s.outcome == nil {
		return
	}
	for _, g := range s.groups {
		if g.co.Commits() {
			return
		}
	}
	o := *s.outcome
	if o.Result == protocol.StoppedByRequest {
		if results, ended := s.results(); ended {
			o = protocol.Outcome{Result: protocol.Completed, Rank: -1, Results: results}
		}
	}
	for _, g := range s.groups {
		end := o
		end.Results, end.Rank = nil, -1
		s.feed(g, protocol.End{Outcome: end})
	}
	why := ""
	if o.Result == protocol.Failed {
		why = "the job has ended: " + o.Text
	}
	ids := s.stops
	if s.stop != nil {
		ids = append(ids, s.stop.ids...)
	}
	for _, id := range ids {
		s.do(Job, protocol.Answer{ID: id, Err: why})
	}
	s.ended = true
	s.do(Job, protocol.Finish{Outcome: o})
}
