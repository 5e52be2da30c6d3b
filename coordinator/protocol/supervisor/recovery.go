package supervisor

import (
	"errors"
	"math"
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	rec "ckpt/coordinator/recovery"
)

// A recovery decides who goes back where, after a failure that may force others
// back. The survivors are fenced first: they exchange nothing with other groups
// any more and say what they depend on, so that what is decided upon is one
// moment. With an optimistic log, what the logs of those who go back hold is
// found out next; that may well show that others have to go back too.
type recovery struct {
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
		r = &recovery{round: s.round, since: s.now, asked: make([]bool, len(s.groups)),
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
		s.beginAnew()
		return
	}
	for s.inquire() {
		h := s.history(r)
		line, err := h.find()
		switch {
		case errors.Is(err, rec.ErrNoLine):
			r.anew = true
			s.beginAnew()
			return
		case err != nil:
			s.endJob(protocol.Outcome{Result: protocol.Failed, Rank: -1, Text: "the recovery line cannot be found: " + err.Error()})
			return
		}
		forced := s.forced(line)
		if s.faults.keepOrphans && len(forced) > 0 {
			forced = forced[1:]
		}
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

// inquire asks everybody for what the line is found from and reports whether all
// of it is known.
func (s *Supervisor) inquire() bool {
	r, known := s.recovery, true
	if s.faults.noFence {
		for rank := range r.vectors {
			r.vectors[rank] = &channel.Vector{}
		}
	}
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
		s.do(g.id, protocol.Broadcast{Message: protocol.Message{Kind: protocol.Fence, Number: r.round}})
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
func (s *Supervisor) fenced(g *group, local int, m *protocol.Message) {
	r := s.recovery
	if r == nil || m.Number != r.round || !g.live {
		return
	}
	v, err := protocol.DecodeVector(m.Body, s.ranks)
	if err != nil {
		s.giveUpOn(g, local, "says what cannot be read: "+err.Error())
		return
	}
	r.vectors[g.ranks[local]] = &v
}

// examined takes what a log holds.
func (s *Supervisor) examined(e protocol.Examined) {
	r := s.recovery
	if r == nil || e.Round != r.round || e.Rank < 0 || e.Rank >= s.ranks {
		return
	}
	g := s.groups[s.place[e.Rank].group]
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

// checkFence gives up on survivors that do not answer.
func (s *Supervisor) checkFence() {
	at, ok := s.fenceEnds()
	if !ok || s.now < at {
		return
	}
	s.recovery.fencedAt = s.now
	for _, g := range s.groups {
		for i, rank := range g.ranks {
			if g.live && s.recovery.vectors[rank] == nil {
				s.giveUpOn(g, i, "did not answer while the recovery line was looked for")
			}
		}
	}
}

func (s *Supervisor) giveUpOn(g *group, local int, why string) {
	s.do(g.id, protocol.Kill{Rank: g.ranks[local]})
	s.feed(g, protocol.RankLost{Gen: g.gen, Rank: local, Cause: why})
}

// forced returns the live groups that a line forces back. With an optimistic log
// it returns only those that are forced by groups whose logs have been examined:
// how far these go back themselves, and whom they force, is not known yet.
func (s *Supervisor) forced(line *rec.Line) []*group {
	first := math.MaxInt
	for _, step := range line.Steps {
		if s.groups[s.place[step.Rank].group].live {
			first = min(first, step.Wave)
		}
	}
	var forced []*group
	for _, g := range s.groups {
		if g.live && s.faults.rollBackAll {
			forced = append(forced, g)
			continue
		}
		if !g.live {
			continue
		}
		for _, step := range line.Steps {
			if s.place[step.Rank].group == g.id && (step.Wave == first || s.cfg.Log != channel.Optimistic) {
				forced = append(forced, g)
				break
			}
		}
	}
	return forced
}

// goBack carries the line out.
func (s *Supervisor) goBack(h *history, line *rec.Line) {
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
		if !s.faults.keepStale {
			s.do(g.id, protocol.Forget{After: at.Number, Numbers: g.forget(at.Number)})
		}
	}
	s.do(Job, account)
	for i, g := range back {
		g.line = slices.Clone(keep)
		s.rollBack(g, account.From[i])
	}
	s.unfence(r.round)
}

// unfence lets the survivors go on, and tells them of whom nothing old must be
// taken any more.
func (s *Supervisor) unfence(round int) {
	var moved []protocol.Count
	for _, g := range s.groups {
		for _, rank := range g.ranks {
			if !g.live {
				moved = append(moved, protocol.Count{Peer: rank, N: uint64(g.gen)})
			}
		}
	}
	for _, g := range s.groups {
		if g.live {
			s.do(g.id, protocol.Broadcast{Message: protocol.Message{Kind: protocol.Unfence, Number: round, Counts: moved}})
		}
	}
}

// beginAnew has the whole job begin again, with empty logs.
func (s *Supervisor) beginAnew() {
	for _, g := range s.groups {
		if g.co.Commits() {
			return
		}
	}
	r := s.recovery
	s.recovery = nil
	account := protocol.Recovery{Failed: r.failed, Decided: s.now - r.since, From: make([]int, len(s.groups))}
	s.do(Job, protocol.Report{Notice: protocol.Notice{Kind: protocol.FallingBack, Rank: -1,
		Text: "the checkpoints and logs that are left are no line: the job begins again"}})
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

// wipe gives all checkpoints up. From here on until the logs are empty, whoever
// takes the job over has to begin it anew as well: a part of the old history
// would be taken for a whole one.
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
