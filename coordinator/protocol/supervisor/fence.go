package supervisor

import (
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// inquire asks everybody for what the line is found from and reports whether all
// of it is known.
func (s *Supervisor) inquire() bool {
	r, known := s.recovery, true
	for _, g := range s.groups {
		if !r.asked[g.id] {
			r.asked[g.id] = true
			s.ask(g)
		}
		for _, rank := range g.ranks {
			switch {
			case g.live:
				known = known && r.vectors[rank] != nil
			case s.cfg.Log == channel.Optimistic:
				known = known && r.states[rank] != nil
			}
		}
	}
	return known
}

func (s *Supervisor) ask(g *group) {
	r := s.recovery
	if g.live {
		r.fencedAt = s.now
		s.do(g.id, protocol.Broadcast{Message: protocol.Fence{Round: r.round}})
		return
	}
	if s.cfg.Log != channel.Optimistic {
		return
	}
	s.halt(g) // it may be on its way back already
	var numbers []int
	for _, c := range s.candidates(g) {
		numbers = append(numbers, c.Number)
	}
	for _, rank := range g.ranks {
		r.states[rank] = nil
		s.do(g.id, protocol.Examine{Round: r.round, Rank: rank, Numbers: numbers})
	}
}

// fenced takes the answer of a survivor.
func (s *Supervisor) fenced(g *group, rank int, m protocol.Fenced) {
	r := s.recovery
	if r == nil || m.Round != r.round || !g.live {
		return
	}
	v := &m.Vector
	if !s.fits(v) {
		s.declareDead(g, rank, fmt.Sprintf("sent a vector of %d ranks in a job of %d", len(v.Sent), s.ranks))
		return
	}
	r.vectors[rank] = v
}

// examined takes what a log holds.
func (s *Supervisor) examined(e protocol.Examined) {
	r := s.recovery
	if r == nil || e.Round != r.round || e.Rank < 0 || e.Rank >= s.ranks {
		return
	}
	g := s.of[e.Rank]
	g.known = slices.DeleteFunc(g.known, func(k Stored) bool { _, ok := e.States[k.Number]; return !ok })
	if r.states[e.Rank] = e.States; e.States == nil {
		r.states[e.Rank] = map[int][]channel.Vector{}
	}
}

// fenceEnds returns until when survivors have to answer.
func (s *Supervisor) fenceEnds() (time.Duration, bool) {
	if s.recovery == nil || s.outcome != nil {
		return 0, false
	}
	for _, g := range s.groups {
		for _, rank := range g.ranks {
			if g.live && s.recovery.asked[g.id] && s.recovery.vectors[rank] == nil {
				return s.recovery.fencedAt + s.cfg.Limits.Phase, true
			}
		}
	}
	return 0, false
}

// checkFence declares survivors dead that do not answer.
func (s *Supervisor) checkFence() {
	at, ok := s.fenceEnds()
	if !ok || s.now < at {
		return
	}
	if late := s.now - at; late > s.cfg.Limits.Silence/2 {
		// It was the coordinator that did not run, as after a laptop's sleep: the
		// answers are still in the sockets.
		s.recovery.fencedAt += late + s.cfg.Limits.Silence
		return
	}
	s.recovery.fencedAt = s.now
	for _, g := range s.groups {
		for _, rank := range g.ranks {
			if g.live && s.recovery.vectors[rank] == nil {
				s.declareDead(g, rank, "did not answer while the recovery line was looked for")
			}
		}
	}
}

func (s *Supervisor) declareDead(g *group, rank int, why string) {
	s.do(g.id, protocol.Kill{Rank: rank})
	s.feed(g, protocol.RankLost{Incarnation: g.incarnation, Rank: rank, Cause: why})
}

// unfence lets the survivors go on, and tells them of whom nothing old must be
// taken any more.
func (s *Supervisor) unfence(round int) {
	var moved []protocol.Life
	for _, g := range s.groups {
		for _, rank := range g.ranks {
			if !g.live {
				moved = append(moved, s.life(rank))
			}
		}
	}
	for _, g := range s.groups {
		if g.live {
			s.do(g.id, protocol.Broadcast{Message: protocol.Unfence{Round: round, Moved: moved}})
		}
	}
}
