package supervisor

import "ckpt/coordinator/protocol"

// A stop brings all groups to one boundary, where every rank has received what any other has
// sent, has them store and ends the job: whatever the log, the line so stored is consistent and
// loses nothing.
//
//	all groups hold           Agreed: the boundary that each can reach
//	to the latest of them     some run on; it is raised as long as another comes
//	all stand still           they drain, the channels between groups too
//	all store and commit      Rest
//
// Whatever goes wrong is answered, and the groups go on.
//
// (The counts that ranks send at a boundary are of messages inside their groups. An application
// that has messages between groups under way at a boundary keeps them, but without a log its line
// lies before that boundary.)
type stop struct {
	ids      []int // of those who asked
	internal int   // of the requests to the groups
	boundary int
	still    bool // all groups stand at the boundary
	number   int  // the newest checkpoint of it
	failure  string
}

// finishing reports whether some group has passed its last boundary, so that all share no more
// boundaries.
func (s *Supervisor) finishing() bool {
	for _, g := range s.groups {
		if g.co.Finishing() {
			return true
		}
	}
	return false
}

func (s *Supervisor) agree(g *group, iter int) {
	if !s.several() {
		s.feed(g, protocol.Boundary{Iter: iter})
		return
	}
	if s.stop == nil {
		s.feed(g, protocol.CancelStop{Reason: "the stop was cancelled"})
		return
	}
	g.agreed = iter
	s.stop.boundary = max(s.stop.boundary, iter)
	s.feed(g, protocol.Boundary{Iter: s.stop.boundary})
}

// moveStop begins a stop that is asked for, as long as there is a boundary left, and brings it
// on.
func (s *Supervisor) moveStop() {
	if s.outcome != nil {
		return
	}
	if s.stop == nil {
		if len(s.stops) == 0 || s.finishing() {
			return
		}
		s.nextID--
		s.stop = &stop{ids: s.stops, internal: s.nextID, boundary: min(s.cfg.StopAt, s.cfg.Iterations)}
		s.stops = nil
		for _, g := range s.groups {
			s.feed(g, protocol.Requested{Request: protocol.Request{ID: s.nextID, Stop: true}})
		}
	}
	if s.finishing() {
		s.spoilStop(finishingText)
	}
	if s.stop.failure != "" {
		s.failStop()
		return
	}
	if s.stop.still {
		return
	}
	for _, g := range s.groups {
		if b, ok := g.co.Stopping(); ok && g.agreed == 0 {
			// It is on its way to a checkpoint of its own, and may need messages that others send
			// before that boundary.
			s.stop.boundary = max(s.stop.boundary, b)
		}
	}
	still := true
	for _, g := range s.groups {
		if g.agreed > 0 && g.agreed < s.stop.boundary {
			g.agreed = s.stop.boundary
			s.feed(g, protocol.Boundary{Iter: s.stop.boundary})
		}
		still = still && g.agreed > 0 && g.agreed == s.stop.boundary && g.co.Holds()
	}
	s.stop.still = still
}

// spoilStop notes that a stop is not to be: one group could not take its checkpoint.
func (s *Supervisor) spoilStop(reason string) {
	if s.stop != nil && s.stop.failure == "" {
		s.stop.failure = reason
	}
}

// failStop cancels the stop and lets all groups go on.
func (s *Supervisor) failStop() {
	st := s.stop
	s.stop = nil
	reason := st.failure
	for _, g := range s.groups {
		g.agreed = 0
		if g.rest != nil && g.rest.Results == nil {
			g.rest = nil
			s.feed(g, protocol.GoOn{})
			continue
		}
		s.feed(g, protocol.CancelStop{Reason: reason})
	}
	for _, id := range st.ids {
		s.do(Job, protocol.Answer{ID: id, Err: reason})
	}
}

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

// finished takes the end of one group's Coordinator. Unless the job is being ended, the group has
// failed for good, and the job with it.
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

func (s *Supervisor) endJob(o protocol.Outcome) {
	if s.outcome == nil {
		s.outcome = &o
	}
}

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
