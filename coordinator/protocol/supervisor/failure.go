package supervisor

import (
	"slices"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// pessimistic reports whether a failed group always gets back to where it was, so
// that nobody else has to go back.
func pessimistic(log channel.Kind) bool { return log == channel.Receiver || log == channel.Sender }

// lines reports whether recoveries need a line: what a group has lost can force
// others back.
func (s *Supervisor) lines() bool { return s.several() && !pessimistic(s.cfg.Log) }

// down takes the end of a group's incarnation.
func (s *Supervisor) down(g *group, d protocol.Down) {
	g.live, g.asks, g.down, g.rest = false, false, true, nil
	if d.Damaged > 0 {
		g.known = slices.DeleteFunc(g.known, func(k Stored) bool { return k.Number == d.Damaged })
	}
	if s.outcome != nil {
		return
	}
	s.spoilStop(d.Cause)
	newest, ok := s.newest(g)
	if s.lines() || !ok || s.recovery != nil {
		s.failed(g, !ok && !s.lines())
		return
	}
	if s.several() {
		s.do(Job, protocol.Recovery{Failed: []int{g.id}, RolledBack: []int{g.id}, From: []int{newest.Number},
			Iterations: []int{g.lost(newest.Iter)}, Ranks: len(g.ranks)})
	}
	s.rollBack(g, newest.Number)
}

// newest returns the newest state that the group can go back to. The beginning is
// one as long as no log has been cut.
func (s *Supervisor) newest(g *group) (Stored, bool) {
	if n := len(g.known); n > 0 {
		return g.known[n-1], true
	}
	return Stored{Group: g.id}, s.base[g.id] == 0
}

// lost returns how many iterations the group has to do again from iteration iter.
func (g *group) lost(iter int) int { return max(0, g.co.Furthest()-iter) }

func (s *Supervisor) rollBack(g *group, from int) {
	g.forget(from)
	s.feed(g, protocol.RollBack{From: from})
}

// halt ends a group's incarnation, unless that has happened.
func (s *Supervisor) halt(g *group) {
	s.feed(g, protocol.Halt{})
	g.live, g.asks, g.down, g.rest = false, false, true, nil
}

// forget drops what is known of checkpoints after number from and returns their
// numbers, the newest first: were only some of them removed, the rest would
// still be a history.
func (g *group) forget(from int) []int {
	var dropped []int
	for n := len(g.known); n > 0 && g.known[n-1].Number > from; n-- {
		dropped = append(dropped, g.known[n-1].Number)
		g.known = g.known[:n-1]
	}
	return dropped
}
