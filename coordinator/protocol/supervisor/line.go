package supervisor

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/recovery"
)

// Config describes a job of one or several groups.
type Config struct {
	// Groups are the ranks of each group, ascending. Together they are all ranks of the job, each
	// once.
	Groups [][]int
	// Log is how messages between groups are logged. With one group it does not matter.
	// Optimistic needs groups of one rank.
	Log channel.Kind

	Start       int // the iteration of the beginning
	StopAt      int // a stop of several groups is at this iteration or later, if there is one
	Iterations  int
	Schedule    protocol.Schedule // of each group
	Stagger     Stagger
	Jitter      float64 // of each time or boundary of the schedule, as a fraction of its period, in [0, 1)
	Seed        uint64  // of Jitter and of a random Stagger
	Storing     int     // most groups that drain and store at the same time; 0: any number
	Limits      protocol.Limits
	AutoRestart bool
	FallBack    bool // the first incarnation of a lone group may begin with an earlier checkpoint
	Async       bool
	InFlight    int           // checkpoints of a group behind the computation; 0 is 1
	Cost        protocol.Cost // as in protocol.Config
	Lone        bool          // as in protocol.Config

	// From, with one group, is the checkpoint to begin with, 0 for the beginning. Several groups
	// begin with the recovery line of what is Known.
	From int
	// Known are the checkpoints in the store that the job may go back to.
	Known []Stored
	// Logged, with Optimistic, are the states in the logs: by rank, what channel.State.Logged
	// returns for each of its checkpoints in Known and, with Base 0, for checkpoint 0.
	Logged []map[int][]channel.Vector
	// Base is, by group, the last Base of Collect that was durable; nil for 0. With −1 in it the
	// job restarts from scratch, whatever is Known.
	Base []int
	// Next is the number of the next checkpoint; it exceeds all used before.
	Next int
	// Incarnation exceeds that of every process that the job has had; a process has its group's
	// incarnation, Spawn.Incarnation.
	Incarnation int
	// Printed is, by rank, the highest index of Print that is durable; nil for 0.
	Printed []uint64
	// Keep is how many of its newest checkpoints are kept for each group, so that a damaged one
	// can be done without; at least 1. With log None or Optimistic all that a recovery line can
	// come to lie on are kept in any case.
	Keep int
}

// Stored is a checkpoint of a group in the store.
type Stored struct {
	Group, Number, Iter int
	// Vectors are the vectors of the group's ranks, in their order; not needed with one group.
	Vectors []channel.Vector
	// Passing says that nodes have it, and the store has not: a group can go back to it, but what
	// is older is still needed.
	Passing bool
}

// Stagger is how the checkpoints of the groups are spread over the period of the schedule.
// Iterations that are given one by one are kept to by all.
type Stagger uint8

// The ways to spread them.
const (
	Together Stagger = iota // all at the same times or iterations
	Spread                  // evenly over the period
	Random                  // by Seed
)

var staggerNames = [...]string{"none", "spread", "random"}

func (s Stagger) String() string {
	if int(s) < len(staggerNames) {
		return staggerNames[s]
	}
	return fmt.Sprintf("Stagger(%d)", uint8(s))
}

func ParseStagger(name string) (Stagger, error) {
	for s, n := range staggerNames {
		if n == name {
			return Stagger(s), nil
		}
	}
	return 0, fmt.Errorf("unknown stagger %q (want none, spread, random)", name)
}

// Job is the Group of events and actions that concern the whole job.
const Job = -1

// An Event happened to a group, or to the job: Requested, Tick. Ranks are numbered within the
// job. Committed carries the Vectors of the checkpoint.
type Event struct {
	Group int
	protocol.Event
}

// An Action is to be done for a group, or for the job: Answer, Collect, Recovery, Print, Finish.
// Actions are carried out in the order given. Ranks are numbered within the job; bodies and times
// in a Checkpoint are by the order of the group.
type Action struct {
	Group int
	protocol.Action
}

// A history is what recovery lines are found from. A rank of it is a group.
type history struct {
	*recovery.History
	s    *Supervisor
	from [][]Stored // by group and index of its state: the checkpoint, or that it is rebuilt from
}

// options are the rules of consistency. Messages between groups are in transit when a rank takes
// its checkpoint; without a log they are lost if it goes back there, and the receiver has to go
// back as well, or the sender.
func (s *Supervisor) options() recovery.Options {
	if s.cfg.Log == channel.None {
		return recovery.Options{InTransit: recovery.Forbidden}
	}
	return recovery.Options{InTransit: recovery.Allowed}
}

// candidates are the checkpoints that a group can go back to, oldest first, with the beginning
// unless a log has been cut.
func (s *Supervisor) candidates(g *group) []Stored {
	var list []Stored
	if s.base[g.id] <= 0 || s.cfg.Log == channel.None {
		list = append(list, Stored{Group: g.id, Iter: s.cfg.Start})
	}
	return append(list, g.known...)
}

func (s *Supervisor) history(r *rollback) *history {
	h := s.storedHistory(s.candidates, r.states)
	for _, g := range s.groups {
		if g.live {
			h.setCurrent(g, r.vectors)
		}
	}
	return h
}

// storedHistory returns the history of what is on stable storage: checkpoints, and what logs hold
// behind them, as far as that is known.
func (s *Supervisor) storedHistory(stored func(*group) []Stored, logged []map[int][]channel.Vector) *history {
	h := &history{History: &recovery.History{Ranks: make([]recovery.Rank, len(s.groups)), Members: s.cfg.Groups}, s: s, from: make([][]Stored, len(s.groups))}
	for _, g := range s.groups {
		list := stored(g)
		for k := range list {
			c := &list[k]
			h.add(g, c, c.Vectors, false)
			if rank := g.ranks[0]; logged == nil || logged[rank] == nil {
				continue
			}
			for _, l := range logged[g.ranks[0]][c.Number] {
				// States behind the next checkpoint follow it as well.
				if l.Matches > c.matches() && (k+1 == len(list) || l.Matches <= list[k+1].matches()) {
					h.add(g, c, []channel.Vector{l}, true)
				}
			}
		}
	}
	return h
}

// matches are the matches of a group of one rank.
func (c *Stored) matches() uint64 {
	if len(c.Vectors) == 0 {
		return 0
	}
	return c.Vectors[0].Matches
}

// counters fills in the counters of messages, which decide whether states of groups are
// consistent. One group is consistent with itself, without counters, whose number is the square
// of the ranks'.
func (h *history) counters(g *group, state *recovery.State, vectors []channel.Vector) {
	if len(h.s.groups) == 1 {
		return
	}
	n := h.s.ranks
	state.Sent, state.Received = make([]uint64, len(g.ranks)*n), make([]uint64, len(g.ranks)*n)
	for i, v := range vectors {
		sent, received := state.Sent[i*n:], state.Received[i*n:]
		if h.s.cfg.Log != channel.Optimistic {
			copy(sent, v.Sent)
			copy(received, v.Received)
			continue
		}
		for r := range sent {
			sent[r] = v.Matches
		}
		copy(received, v.Depends)
		received[g.ranks[i]] = 0 // on itself it depends anyway
	}
}

func (h *history) add(g *group, c *Stored, vectors []channel.Vector, logged bool) {
	state := recovery.State{Number: c.Number, Iteration: c.Iter, Logged: logged}
	h.counters(g, &state, vectors)
	h.Ranks[g.id].Checkpoints = append(h.Ranks[g.id].Checkpoints, state)
	h.from[g.id] = append(h.from[g.id], *c)
}

// setCurrent adds the state that survivors are in; vectors are by rank. A vector may be older
// than a checkpoint that was committed since; its application went on.
func (h *history) setCurrent(g *group, vectors []*channel.Vector) {
	var present []channel.Vector
	for _, rank := range g.ranks {
		present = append(present, *vectors[rank])
	}
	cur := recovery.State{Iteration: g.co.Iteration()}
	h.counters(g, &cur, present)
	if states := h.Ranks[g.id].Checkpoints; len(states) > 0 {
		last := &states[len(states)-1]
		cur.Number, cur.Iteration = last.Number, max(cur.Iteration, last.Iteration)
		for c := range cur.Sent {
			cur.Sent[c], cur.Received[c] = max(cur.Sent[c], last.Sent[c]), max(cur.Received[c], last.Received[c])
		}
	}
	h.Ranks[g.id].Current = &cur
}

// find returns the recovery line if all groups without a current state have failed. The error is
// of a group that has no state left to go back to, or of package recovery.
func (h *history) find() (*recovery.Line, error) { return h.findIn(h.binding()) }

func (h *history) findIn(states *recovery.History) (*recovery.Line, error) {
	var failed []int
	for _, g := range h.s.groups {
		if len(h.from[g.id]) == 0 {
			return nil, noState(g)
		}
		if h.Ranks[g.id].Current == nil {
			failed = append(failed, g.id)
		}
	}
	return recovery.Find(states, failed, h.s.options())
}

// binding returns the history with only the counters that force groups back: a pessimistic log
// takes each of them from its newest checkpoint to where it was.
func (h *history) binding() *recovery.History {
	if !pessimistic(h.s.cfg.Log) {
		return h.History
	}
	free := &recovery.History{Members: h.Members}
	for _, r := range h.Ranks {
		states := slices.Clone(r.Checkpoints)
		for k := range states {
			states[k].Sent, states[k].Received = nil, nil
		}
		free.Ranks = append(free.Ranks, recovery.Rank{Checkpoints: states})
	}
	return free
}

func (h *history) stored(g *group, line *recovery.Line) Stored {
	return h.from[g.id][line.Places[g.id].Index]
}

// determinants returns, by rank, how many determinants a line keeps: what channel.Restore is
// given. It is nil unless the log is optimistic.
func (s *Supervisor) determinants(line *recovery.Line) []uint64 {
	if s.cfg.Log != channel.Optimistic {
		return nil
	}
	keep := make([]uint64, s.ranks)
	for r, g := range s.of { // each is alone in its group
		keep[r] = math.MaxUint64
		if p := line.Places[g.id]; !p.Current {
			keep[r] = p.State.Sent[r]
		}
	}
	return keep
}

func (s *Supervisor) chooseFirst() error {
	switch {
	case !s.several():
		s.groups[0].from = s.cfg.From
		return nil
	case slices.Contains(s.base, -1):
		return nil // all at the beginning
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

// A Line is the recovery line of a job of which all groups fail at once, and what it was found
// from. A rank of all of these is a group.
type Line struct {
	*recovery.Line
	History *recovery.History
	Garbage *recovery.Garbage
}

// FindLine returns the line of a job, from what a Supervisor would be told of it. The error wraps
// recovery.ErrNoLine if checkpoints or logs are missing.
func FindLine(cfg Config) (*Line, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	h := s.storedHistory(s.candidates, cfg.Logged)
	l := &Line{History: h.History}
	if l.Line, err = h.find(); err != nil {
		return nil, err
	}
	for g := range l.Places {
		p := &l.Places[g]
		p.State = h.Ranks[g].Checkpoints[p.Index]
	}
	l.Garbage, err = recovery.Collect(h.binding(), s.options())
	return l, err
}

// LineWithoutLogs returns the recovery line, by group, of a job whose logs are lost: checkpoints
// of Config.Known, Number 0 for the beginning. No message may cross it, since no log gives it
// again; with Sender, the sender's checkpoint does.
func LineWithoutLogs(cfg Config) ([]Stored, error) {
	if cfg.Log != channel.Sender {
		cfg.Log = channel.None
	}
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	h := s.storedHistory(s.candidates, nil)
	line, err := h.findIn(h.History) // no log takes a group from its checkpoint to where it was
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
