package supervisor

import (
	"ckpt/coordinator/protocol"
)

// A request is one for a checkpoint of every group.
type request struct {
	id      int // that of who asked
	left    int // groups that have yet to answer
	number  int // the newest checkpoint so far
	failure string
}

// request takes one from outside.
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

// answered takes the answer of a group.
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
		r.failure = "" // those that have ended need none any more
	}
	if r.failure != "" {
		r.number = 0
	}
	s.do(Job, protocol.Answer{ID: r.id, Number: r.number, Err: r.failure})
}
