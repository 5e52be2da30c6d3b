package supervisor

import (
	"errors"
	"math"
	"slices"

	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/recovery"
)

// A history is what recovery lines are found from, rank by rank: the channels
// are between ranks, and an orphan in one is not made up for by a message in
// transit in another. That the ranks of a group go back together is told by
// counters between them, of messages that were never sent: state number k of
// each has sent k and received k, which is consistent with state k of the others
// and with no other.
type history struct {
	*recovery.History
	s    *Supervisor
	from [][]Stored // by group and index of a rank's state: the checkpoint, or that it is rebuilt from
}

// options are the rules of consistency. Messages between groups are in transit
// when a rank takes its checkpoint; without a log they are lost if it goes back
// there, and the receiver has to go back as well, or the sender.
func (s *Supervisor) options() recovery.Options {
	if s.cfg.Log == channel.None {
		return recovery.Options{InTransit: recovery.Forbidden}
	}
	return recovery.Options{InTransit: recovery.Allowed}
}

// candidates are the checkpoints that a group can go back to, oldest first. The
// beginning is one as long as no log has been cut, or if there is none.
func (s *Supervisor) candidates(g *group) []Stored {
	var list []Stored
	if s.base[g.id] == 0 || s.cfg.Log == channel.None {
		list = append(list, Stored{Group: g.id})
	}
	return append(list, g.known...)
}

// history returns that of the recovery under way.
func (s *Supervisor) history(r *rollback) *history {
	h := s.storedHistory(func(g *group) []Stored { return s.candidates(g) }, r.states)
	for _, g := range s.groups {
		for _, rank := range g.ranks {
			if g.live {
				h.setCurrent(g, rank, r.vectors[rank])
			}
		}
	}
	return h
}

// storedHistory returns the history of what is on stable storage: checkpoints,
// and what logs hold behind them, as far as that is known.
func (s *Supervisor) storedHistory(stored func(*group) []Stored, logged []map[int][]channel.Vector) *history {
	h := &history{History: &recovery.History{Ranks: make([]recovery.Rank, s.ranks)}, s: s, from: make([][]Stored, len(s.groups))}
	for _, g := range s.groups {
		list := stored(g)
		for i, rank := range g.ranks {
			h.from[g.id] = h.from[g.id][:0]
			for k, c := range list {
				v := c.vector(i)
				h.add(g, rank, c, v, false)
				if logged == nil || logged[rank] == nil {
					continue
				}
				for _, l := range logged[rank][c.Number] {
					// Those behind the next checkpoint follow it as well.
					if l.Matches > v.Matches && (k+1 == len(list) || l.Matches <= list[k+1].vector(i).Matches) {
						h.add(g, rank, c, l, true)
					}
				}
			}
		}
	}
	return h
}

// vector returns that of a rank of the group; at the beginning all is 0.
func (c *Stored) vector(local int) channel.Vector {
	if local < len(c.Vectors) {
		return c.Vectors[local]
	}
	return channel.Vector{}
}

// counters are what the consistency of a rank's state is told by.
func (h *history) counters(rank int, v *channel.Vector) (sent, received []uint64) {
	n := h.s.ranks
	sent, received = make([]uint64, n), make([]uint64, n)
	if h.s.cfg.Log != channel.Optimistic {
		copy(sent, v.Sent)
		copy(received, v.Received)
		return sent, received
	}
	for r := range sent {
		sent[r] = v.Matches
	}
	copy(received, v.Depends)
	received[rank] = 0 // on itself it depends anyway
	return sent, received
}

func (h *history) add(g *group, rank int, c Stored, v channel.Vector, logged bool) {
	states := &h.Ranks[rank].Checkpoints
	state := recovery.State{Number: c.Number, Iteration: c.Iter, Logged: logged}
	state.Sent, state.Received = h.counters(rank, &v)
	h.couple(g, rank, &state, len(*states))
	*states = append(*states, state)
	h.from[g.id] = append(h.from[g.id], c)
}

// couple binds a state to those of the same index of the other ranks of its group.
func (h *history) couple(g *group, rank int, state *recovery.State, index int) {
	for _, peer := range g.ranks {
		if peer != rank {
			state.Sent[peer], state.Received[peer] = uint64(index), uint64(index)
		}
	}
}

// setCurrent adds the state that a survivor is in. Its vector may be older than
// a checkpoint that was committed since; its application went on.
func (h *history) setCurrent(g *group, rank int, v *channel.Vector) {
	states := h.Ranks[rank].Checkpoints
	cur := recovery.State{Iteration: g.co.Iteration()}
	cur.Sent, cur.Received = h.counters(rank, v)
	if n := len(states); n > 0 {
		last := &states[n-1]
		cur.Number, cur.Iteration = last.Number, max(cur.Iteration, last.Iteration)
		for p := range cur.Sent {
			cur.Sent[p], cur.Received[p] = max(cur.Sent[p], last.Sent[p]), max(cur.Received[p], last.Received[p])
		}
	}
	h.couple(g, rank, &cur, len(states))
	h.Ranks[rank].Current = &cur
}

// without returns the ranks that have no current state.
func (h *history) without() []int {
	var list []int
	for r := range h.Ranks {
		if h.Ranks[r].Current == nil {
			list = append(list, r)
		}
	}
	return list
}

// find returns the recovery line. The error is that of a group that has no state
// left to go back to, or what package recovery says.
func (h *history) find() (*recovery.Line, error) {
	for _, g := range h.s.groups {
		if len(h.from[g.id]) == 0 {
			return nil, noState(g)
		}
	}
	return recovery.Find(h.History, h.without(), h.s.options())
}

// stored returns the checkpoint that a group goes back to.
func (h *history) stored(g *group, line *recovery.Line) Stored {
	return h.from[g.id][line.Places[g.ranks[0]].Index]
}

// determinants returns, by rank, how many determinants a line keeps: what
// channel.Restore is given. It is nil unless the log is optimistic.
func (s *Supervisor) determinants(line *recovery.Line) []uint64 {
	if s.cfg.Log != channel.Optimistic {
		return nil
	}
	keep := make([]uint64, s.ranks)
	for r, p := range line.Places {
		keep[r] = math.MaxUint64
		if !p.Current {
			keep[r] = p.State.Sent[r]
		}
	}
	return keep
}

// chooseFirst finds where the groups begin.
func (s *Supervisor) chooseFirst() error {
	switch {
	case !s.several():
		s.groups[0].from = s.cfg.From
		return nil
	case slices.Contains(s.base, -1):
		return nil // all at the beginning
	}
	if !s.lines() {
		for _, g := range s.groups {
			newest, ok := s.newest(g)
			if !ok {
				return noState(g)
			}
			g.from = newest.Number
		}
		return nil
	}
	h := s.storedHistory(s.candidates, s.cfg.Logged)
	line, err := h.find()
	if err != nil {
		return err
	}
	keep := s.determinants(line)
	for _, g := range s.groups {
		g.from, g.line = h.stored(g, line).Number, keep
	}
	return nil
}

// LineWithoutLogs returns the recovery line, by group, of a job whose logs are lost:
// checkpoints of Config.Known, Number 0 for the beginning. No message may cross it,
// since no log gives it again; with Sender, the sender's checkpoint does.
func LineWithoutLogs(cfg Config) ([]Stored, error) {
	if cfg.Log != channel.Sender {
		cfg.Log = channel.None
	}
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	h := s.storedHistory(s.candidates, nil)
	line, err := h.find()
	if errors.Is(err, recovery.ErrNoLine) {
		return make([]Stored, len(s.groups)), nil // all that is left is to begin again
	}
	if err != nil {
		return nil, err
	}
	var from []Stored
	for _, g := range s.groups {
		from = append(from, h.stored(g, line))
	}
	return from, nil
}
