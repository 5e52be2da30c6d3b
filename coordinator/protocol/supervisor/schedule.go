package supervisor

import (
	"math/rand/v2"
	"time"

	"ckpt/coordinator/protocol"
)

// schedule returns that of one group, shifted against those of the others.
func (s *Supervisor) schedule(group int) protocol.Schedule {
	sched := s.cfg.Schedule
	n := len(s.groups)
	if n == 1 && s.cfg.Jitter == 0 {
		return sched
	}
	// The groups wait for each other's messages, so each one that stands still holds
	// all of them up.
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

// allot gives leave to drain and store to groups that stand at their boundaries,
// as many as may at the same time, in the order in which they came. While that
// is all, no group begins a checkpoint by its own clock: it would only have its
// ranks stand still.
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

// nextToStore returns the group that has waited longest, nil if there is none.
// Those that hold for a stop wait until all do.
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
