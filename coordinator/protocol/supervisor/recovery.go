package supervisor

import (
	"errors"
	"math"
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/recovery"
)

// A rollback decides who goes back where, after a failure that may force others back. The
// survivors are fenced first: they exchange nothing with other groups any more and say what they
// depend on, so that what is decided upon is one moment. With an optimistic log, what the logs of
// those who go back hold is found out next; that may well show that others have to go back too.
type rollback struct {
	round  int
	since  time.Duration
	failed []int // groups
	anew   bool  // no checkpoint will do: the job begins again

	asked    []bool // by group: Fence or Examine
	fencedAt time.Duration
	vectors  []*channel.Vector          // by rank, of Fenced
	states   []map[int][]channel.Vector // by rank, of Examined
}

// failed adds a group to the recovery under way, or begins one.
func (s *Supervisor) failed(g *group, anew bool) {
	r := s.recovery
	if r == nil {
		s.round++
		r = &rollback{round: s.round, since: s.now, asked: make([]bool, len(s.groups)),
			vectors: make([]*channel.Vector, s.ranks), states: make([]map[int][]channel.Vector, s.ranks)}
		s.recovery = r
	}
	r.asked[g.id] = false
	r.anew = r.anew || anew
	if !slices.Contains(r.failed, g.id) {
		r.failed = append(r.failed, g.id)
		slices.Sort(r.failed)
	}
}

// recover brings the recovery under way on as far as what is known allows.
func (s *Supervisor) recover() {
	r := s.recovery
	if r == nil || s.outcome != nil {
		return
	}
	if r.anew {
		s.startOver()
		return
	}
	for s.inquire() {
		h := s.history(r)
		line, err := h.find()
		switch {
		case errors.Is(err, recovery.ErrNoLine):
			r.anew = true
			s.startOver()
			return
		case err != nil:
			s.endJob(protocol.Outcome{Result: protocol.Failed, Rank: -1, Text: "the recovery line cannot be found: " + err.Error()})
			return
		}
		forced := s.forced(line)
		if slices.ContainsFunc(forced, func(g *group) bool { return g.co.Commits() }) {
			return // it will be over in a moment
		}
		for _, g := range forced {
			r.asked[g.id] = false
			s.halt(g)
		}
		if len(forced) == 0 || s.cfg.Log != channel.Optimistic {
			s.goBack(h, line)
			return
		}
	}
}

// forced returns the live groups that a line forces back. With an optimistic log it returns only
// those that are forced by groups whose logs have been examined: how far these go back
// themselves, and whom they force, is not known yet.
func (s *Supervisor) forced(line *recovery.Line) []*group {
	first := math.MaxInt
	for _, step := range line.Steps {
		if s.groups[step.Rank].live {
			first = min(first, step.Wave)
		}
	}
	var forced []*group
	for _, g := range s.groups {
		if !g.live {
			continue
		}
		for _, step := range line.Steps {
			if step.Rank == g.id && (step.Wave == first || s.cfg.Log != channel.Optimistic) {
				forced = append(forced, g)
				break
			}
		}
	}
	return forced
}

// goBack carries the line out.
func (s *Supervisor) goBack(h *history, line *recovery.Line) {
	r := s.recovery
	s.recovery = nil
	account := protocol.Recovery{Failed: r.failed, Decided: s.now - r.since}
	keep := s.determinants(line)
	var back []*group
	for _, g := range s.groups {
		if g.live {
			continue
		}
		at := h.stored(g, line)
		if !g.down {
			if g.from == at.Number {
				continue // it is on its way there
			}
			s.halt(g)
		}
		back = append(back, g)
		account.RolledBack, account.From = append(account.RolledBack, g.id), append(account.From, at.Number)
		account.Iterations, account.Ranks = append(account.Iterations, g.lost(at.Iter)), account.Ranks+len(g.ranks)
		s.do(g.id, protocol.Forget{After: at.Number, Numbers: g.forget(at.Number)})
	}
	s.do(Job, account)
	for i, g := range back {
		g.line = slices.Clone(keep)
		s.rollBack(g, account.From[i])
	}
	s.unfence(r.round)
}
