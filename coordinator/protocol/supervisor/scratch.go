package supervisor

import (
	"slices"

	"ckpt/coordinator/protocol"
)

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

// wipe abandons all checkpoints. From here on until the logs are empty, a coordinator
// that takes the job over has to restart it from scratch too: a part of the old history
// would look like a whole one.
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
