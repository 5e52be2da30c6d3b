package supervisor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// inquire asks everybody for what the line is found from and reports whether all of it is known.
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

func (s *Supervisor) checkFence() {
	at, ok := s.fenceEnds()
	if !ok || s.now < at {
		return
	}
	if late := s.now - at; late > s.cfg.Limits.Silence/2 {
		// The coordinator did not run, as after a laptop's sleep: the answers are still in the
		// sockets.
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

// unfence lets the survivors go on, and tells them which ranks' old messages to refuse.
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

// pessimistic reports whether a failed group always gets back to where it was, alone.
func pessimistic(log channel.Kind) bool { return log == channel.Receiver || log == channel.Sender }

// lines reports whether recoveries need a line: what a group has lost can force others back.
func (s *Supervisor) lines() bool { return s.several() && !pessimistic(s.cfg.Log) }

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

// newest returns the newest state that the group can go back to. The beginning is one as long as
// no log has been cut.
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

// forget drops the checkpoints after number from and returns their numbers, the newest first:
// were only some of them removed, the rest would still be a history.
func (g *group) forget(from int) []int {
	var dropped []int
	for n := len(g.known); n > 0 && g.known[n-1].Number > from; n-- {
		dropped = append(dropped, g.known[n-1].Number)
		g.known = g.known[:n-1]
	}
	return dropped
}

// schedule returns a group's schedule, shifted against the others'.
func (s *Supervisor) schedule(group int) protocol.Schedule {
	sched := s.cfg.Schedule
	n := len(s.groups)
	if n == 1 && s.cfg.Jitter == 0 {
		return sched
	}
	// The groups wait for each other's messages, so that one that stands still holds up all.
	sched.Overhead /= float64(n)
	rng := rand.New(rand.NewPCG(s.cfg.Seed, uint64(group)))
	sched.Jitter, sched.Seed = s.cfg.Jitter, rng.Uint64()
	part := 0.0 // of a period
	switch s.cfg.Stagger {
	case Spread:
		part = float64(group) / float64(n)
	case Random:
		part = rng.Float64()
	default:
		return sched
	}
	sched.Offset = int(part * float64(sched.Every))
	// The first one comes early, in (0, Interval].
	sched.Shift = time.Duration((part + 1/float64(n) - 1) * float64(sched.Interval))
	if s.cfg.Stagger == Random {
		sched.Shift = time.Duration(-part * float64(sched.Interval))
	}
	return sched
}

// allot gives leave to drain and store to groups that stand at their boundaries, as many as may
// at the same time, in the order in which they came. While that is all, no group begins a
// checkpoint by its own clock: it would only have its ranks stand still.
func (s *Supervisor) allot() {
	used := 0
	for _, g := range s.groups {
		g.slot = g.slot && g.co.Stores()
		if g.slot {
			used++
		}
		if !g.co.Holds() {
			g.since = 0
		} else if g.since == 0 {
			s.turns++
			g.since = s.turns
		}
	}
	for s.cfg.Storing == 0 || used < s.cfg.Storing {
		g := s.nextToStore()
		if g == nil {
			break
		}
		g.slot, g.since = true, 0
		used++
		s.feed(g, protocol.Permit{Step: protocol.DrainStep, Outside: s.outside(g)})
	}
	if s.nextToStore() != nil {
		for _, g := range s.groups {
			if g.slot {
				s.feed(g, protocol.Hurry{})
			}
		}
	}
	shut := s.cfg.Storing > 0 && used >= s.cfg.Storing
	if shut == s.shut {
		return
	}
	s.shut = shut
	for _, g := range s.groups {
		s.feed(g, protocol.Gate{Closed: shut})
	}
}

// nextToStore returns the group that has waited longest, or nil. Those that hold for a stop wait
// until all do.
func (s *Supervisor) nextToStore() *group {
	var first *group
	for _, g := range s.groups {
		if g.since == 0 || g.agreed > 0 && (s.stop == nil || !s.stop.still) {
			continue
		}
		if first == nil || g.since < first.since {
			first = g
		}
	}
	return first
}
