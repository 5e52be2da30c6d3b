package supervisor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/recovery"
)

func noState(g *group) error {
	return fmt.Errorf("group %d (rank %d …) has no checkpoint left, and its logs do not reach back to the beginning: %w",
		g.id, g.ranks[0], recovery.ErrNoLine)
}

func (s *Supervisor) taken(g *group, number, iter int) {
	if err := s.checkVectors(g, number, g.vectors); err != nil {
		s.endJob(protocol.Outcome{Result: protocol.Failed, Rank: -1, Text: err.Error()})
		return
	}
	g.known = append(g.known, Stored{Group: g.id, Number: number, Iter: iter, Vectors: g.vectors, Passing: g.passing})
	s.unseen++
}

// arrived notes that a checkpoint which nodes have has come into the store.
func (s *Supervisor) arrived(g *group, number int) {
	if i := g.find(number); i >= 0 && g.known[i].Passing {
		g.known[i].Passing = false
		s.unseen++
	}
}

// lose forgets a checkpoint that has made room on the nodes, and never came into the store.
func (g *group) lose(number int) {
	if i := g.find(number); i >= 0 && g.known[i].Passing {
		g.known = slices.Delete(g.known, i, i+1)
	}
}

// find returns the place of a checkpoint in known, −1 without one.
func (g *group) find(number int) int {
	return slices.IndexFunc(g.known, func(k Stored) bool { return k.Number == number })
}

// settled are the candidates of a group that no loss of nodes takes away.
func (s *Supervisor) settled(g *group) []Stored {
	return slices.DeleteFunc(s.candidates(g), func(k Stored) bool { return k.Passing })
}

// collect removes what no recovery can need any more.
func (s *Supervisor) collect() {
	if s.unseen == 0 || s.recovery != nil || s.outcome != nil || s.lines() && s.unseen < s.kept()/keptPerLook {
		return
	}
	s.unseen = 0
	base := s.needed()
	if base == nil || slices.Equal(base, s.base) {
		return
	}
	var remove []int
	for _, g := range s.groups {
		for len(g.known) > 0 && g.known[0].Number < base[g.id] {
			remove = append(remove, g.known[0].Number)
			g.known = g.known[1:]
		}
	}
	slices.Sort(remove)
	moved := make([]bool, len(s.groups))
	for i := range base {
		moved[i] = base[i] != s.base[i]
	}
	s.base = base
	s.do(Job, protocol.Collect{Base: slices.Clone(base), Remove: remove})
	s.trim(moved)
}

// keptPerLook is how many checkpoints that are kept make collect wait for another new one. To
// find a recovery line takes a look at all of them, and where lines do not get on there may be
// thousands: so a checkpoint costs no more, the more there are.
const keptPerLook = 64

func (s *Supervisor) kept() int {
	n := 0
	for _, g := range s.groups {
		n += len(g.known)
	}
	return n
}

// needed returns the oldest checkpoint of each group that a recovery can need. A pessimistic log
// takes a failed group from its newest checkpoint to where it was. Without log, or with an
// optimistic one, no recovery goes back behind the line that would be found if all groups failed
// now: its states stay consistent for ever (Wang, Chung, Lin and Fuchs 1995). Logs behind the
// checkpoints can only make later lines. With Keep > 1 the line is found as if the newest
// checkpoints were damaged, and in any case as if the nodes had lost what only they have.
func (s *Supervisor) needed() []int {
	spare := max(1, s.cfg.Keep) - 1
	rest := func(g *group) []Stored {
		list := s.settled(g)
		n := max(0, len(list)-spare)
		for n < len(list) && (n == 0 || list[n].Number <= s.base[g.id]) {
			n++
		}
		return list[:n]
	}
	base := make([]int, len(s.groups))
	if pessimistic(s.cfg.Log) {
		for _, g := range s.groups {
			list := rest(g)
			base[g.id] = max(s.base[g.id], list[len(list)-1].Number)
		}
		return base
	}
	h := s.storedHistory(rest, nil)
	line, err := h.find()
	if err != nil {
		return nil // a damaged checkpoint was on it; nothing is removed
	}
	for _, g := range s.groups {
		base[g.id] = max(s.base[g.id], h.stored(g, line).Number)
	}
	return base
}

// trim tells all ranks which messages to the groups given they can forget. Only a log at the
// sender waits for that.
func (s *Supervisor) trim(moved []bool) {
	if s.cfg.Log != channel.Sender {
		return
	}
	for _, g := range s.groups {
		if moved[g.id] {
			g.floor = nil
			if i := slices.IndexFunc(g.known, func(k Stored) bool { return k.Number == s.base[g.id] }); i >= 0 {
				g.floor = g.known[i].Vectors
			}
		}
	}
	for _, g := range s.groups {
		for _, rank := range g.ranks {
			if s.ready[rank] {
				s.sendFloors(g, rank, moved)
			}
		}
	}
}

func (s *Supervisor) recollect(g *group, rank int) {
	if s.cfg.Log == channel.Sender {
		s.sendFloors(g, rank, nil)
	}
}

// sendFloors tells a rank up to which number messages to the ranks of the given groups can go,
// nil for all others.
func (s *Supervisor) sendFloors(g *group, rank int, of []bool) {
	var counts []protocol.Count
	for _, o := range s.groups {
		if o == g || of != nil && !of[o.id] {
			continue
		}
		for i, v := range o.floor {
			if n := v.Received[rank]; n > 0 {
				counts = append(counts, protocol.Count{Peer: o.ranks[i], N: n})
			}
		}
	}
	if len(counts) > 0 {
		s.do(g.id, protocol.Send{Rank: rank, Message: protocol.Collected{Received: counts}})
	}
}

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
