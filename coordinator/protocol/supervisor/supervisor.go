package supervisor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// A Supervisor is the protocol of a job. Its zero value is not usable.
type Supervisor struct {
	cfg    Config
	ranks  int
	of     []*group // by rank
	addr   []string // by rank: of the present process, empty until Hello
	ready  []bool   // by rank
	now    time.Duration
	out    []Action
	groups []*group

	recovery *rollback // nil: no failure is being decided about
	round    int       // of the last recovery
	stop     *stop     // nil: no stop is under way
	stops    []int     // those asked for; they have to wait while no boundary is left
	asked    map[int]*request
	nextID   int
	shut     bool // the gates are
	unseen   int  // checkpoints taken since the last look for garbage
	turns    int  // given to groups that wait to store

	base    []int
	printed []uint64
	ended   bool
	outcome *protocol.Outcome // decided; commits are waited for
}

// A group is what the Supervisor knows of one.
type group struct {
	id          int
	ranks       []int
	co          *protocol.Coordinator
	known       []Stored // that it may go back to, by number
	incarnation int
	from        int
	line        []uint64 // for the next Spawn
	fresh       bool
	// live says that the ranks have a state of their own: they compute, or have ended, and did
	// not fail.
	live    bool
	asks    bool // for leave to start
	down    bool // the incarnation has ended and the next one not begun
	slot    bool // one of Config.Storing
	rest    *protocol.Rest
	vectors []channel.Vector // of the checkpoint that was committed last
	passing bool             // and whether it is on nodes, on its way to the store
	floor   []channel.Vector // of the checkpoint at Base, nil for the beginning
	agreed  int              // boundary it holds at for a stop, or 0
	since   int              // its turn to store, 0: it does not wait
}

// New returns the Supervisor of a job, or says what is wrong with the configuration; an error
// that wraps recovery.ErrNoLine means that checkpoints or logs are missing. The first actions
// come from Begin.
func New(cfg Config) (*Supervisor, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.chooseFirst(); err != nil {
		return nil, err
	}
	next := max(1, cfg.Next)
	for _, k := range cfg.Known {
		next = max(next, k.Number+1)
	}
	for _, g := range s.groups {
		g.co = protocol.NewCoordinator(s.groupConfig(g, next))
	}
	return s, nil
}

// prepare returns a Supervisor whose groups know their checkpoints.
func prepare(cfg Config) (*Supervisor, error) {
	s := &Supervisor{cfg: cfg, asked: map[int]*request{}, base: make([]int, len(cfg.Groups))}
	if err := s.layout(); err != nil {
		return nil, err
	}
	copy(s.base, cfg.Base)
	s.printed = make([]uint64, s.ranks)
	copy(s.printed, cfg.Printed)
	for _, k := range cfg.Known {
		if err := s.checkStored(k); err != nil {
			return nil, err
		}
		if base := s.base[k.Group]; base >= 0 && k.Number >= base {
			s.groups[k.Group].known = append(s.groups[k.Group].known, k)
		}
	}
	for _, g := range s.groups {
		slices.SortFunc(g.known, func(a, b Stored) int { return a.Number - b.Number })
	}
	for _, g := range s.groups {
		if len(g.known) > 0 && g.known[0].Number == s.base[g.id] {
			g.floor = g.known[0].Vectors
		}
	}
	return s, nil
}

// layout makes the groups.
func (s *Supervisor) layout() error {
	for id, ranks := range s.cfg.Groups {
		if len(ranks) == 0 {
			return fmt.Errorf("group %d has no ranks", id)
		}
		s.ranks += len(ranks)
		s.groups = append(s.groups, &group{id: id, ranks: ranks})
	}
	if s.ranks == 0 {
		return fmt.Errorf("there are no groups of ranks")
	}
	s.of, s.addr, s.ready = make([]*group, s.ranks), make([]string, s.ranks), make([]bool, s.ranks)
	for _, g := range s.groups {
		for i, r := range g.ranks {
			switch {
			case r < 0 || r >= s.ranks || s.of[r] != nil:
				return fmt.Errorf("rank %d of group %d: the groups have to hold each of %d ranks once", r, g.id, s.ranks)
			case i > 0 && r < g.ranks[i-1]:
				return fmt.Errorf("the ranks of group %d are not in ascending order", g.id)
			case s.cfg.Log == channel.Optimistic && len(s.groups) > 1 && len(g.ranks) > 1:
				return fmt.Errorf("an optimistic log needs groups of one rank, and group %d has %d", g.id, len(g.ranks))
			}
			s.of[r] = g
		}
	}
	switch {
	case !s.cfg.Log.Valid():
		return fmt.Errorf("%v is unknown", s.cfg.Log)
	case s.cfg.Jitter < 0 || s.cfg.Jitter >= 1:
		return fmt.Errorf("a jitter of %v is not in [0, 1)", s.cfg.Jitter)
	}
	return nil
}

func (s *Supervisor) checkStored(k Stored) error {
	if k.Group < 0 || k.Group >= len(s.groups) {
		return fmt.Errorf("checkpoint %d is of group %d of %d", k.Number, k.Group, len(s.groups))
	}
	return s.checkVectors(s.groups[k.Group], k.Number, k.Vectors)
}

func (s *Supervisor) checkVectors(g *group, number int, vectors []channel.Vector) error {
	if !s.several() {
		return nil
	}
	if len(vectors) != len(g.ranks) {
		return fmt.Errorf("checkpoint %d has vectors of %d ranks, and group %d has %d", number, len(vectors), g.id, len(g.ranks))
	}
	for _, v := range vectors {
		if !s.fits(&v) {
			return fmt.Errorf("checkpoint %d has vectors of %d ranks in a job of %d", number, len(v.Sent), s.ranks)
		}
	}
	return nil
}

func (s *Supervisor) fits(v *channel.Vector) bool {
	return len(v.Sent) == s.ranks && len(v.Received) == s.ranks && len(v.Depends) == s.ranks
}

// several reports whether there is more than one group: with one there are no channels, and its
// Coordinator decides all.
func (s *Supervisor) several() bool { return len(s.groups) > 1 }

func (s *Supervisor) groupConfig(g *group, next int) protocol.Config {
	n := len(s.groups)
	for next%n != (g.id+1)%n {
		next++
	}
	cfg := protocol.Config{Ranks: g.ranks, Iterations: s.cfg.Iterations, Schedule: s.schedule(g.id), Limits: s.cfg.Limits,
		AutoRestart: s.cfg.AutoRestart, From: g.from, Known: map[int]int{}, Start: s.cfg.Start, Next: next, Stride: n, Cost: s.cfg.Cost, Async: s.cfg.Async, InFlight: s.cfg.InFlight, Lone: s.cfg.Lone,
		FallBack: s.several() || s.cfg.FallBack, Stored: !s.several(), Incarnation: max(0, s.cfg.Incarnation-1)}
	for _, k := range g.known {
		cfg.Known[k.Number] = k.Iter
	}
	return cfg
}

// Begin starts all groups.
func (s *Supervisor) Begin(now time.Duration) []Action {
	s.now = now
	anew := slices.Contains(s.base, -1)
	for _, g := range s.groups {
		g.fresh = anew
		if dropped := g.forget(g.from); s.lines() && !anew {
			s.do(g.id, protocol.Forget{After: g.from, Numbers: dropped})
		}
	}
	if anew {
		s.wipe()
	}
	for _, g := range s.groups {
		s.handle(g, g.co.Begin(now))
	}
	if anew {
		s.do(Job, protocol.Collect{Base: slices.Clone(s.base)})
	}
	s.settle()
	return s.take()
}

// Step takes an event that happened at time now and returns what to do.
func (s *Supervisor) Step(now time.Duration, ev Event) []Action {
	s.now = max(s.now, now)
	switch e := ev.Event.(type) {
	case protocol.Requested:
		s.request(e.Request)
	case protocol.Tick:
		for _, g := range s.groups {
			if at, ok := g.co.Deadline(); ok && at <= s.now || !s.several() {
				s.feed(g, e)
			}
		}
	case protocol.Examined:
		s.examined(e)
	default:
		if ev.Group >= 0 && ev.Group < len(s.groups) {
			s.happened(s.groups[ev.Group], e)
		}
	}
	s.settle()
	return s.take()
}

// Heard says that rank, of the present incarnation of its group, gave a sign of life at time at.
func (s *Supervisor) Heard(rank int, at time.Duration) {
	s.of[rank].co.Heard(rank, at)
}

// Deadline returns when to call Step with a Tick at the latest.
func (s *Supervisor) Deadline() (time.Duration, bool) {
	at, any := time.Duration(math.MaxInt64), false
	for _, g := range s.groups {
		if d, ok := g.co.Deadline(); ok {
			at, any = min(at, d), true
		}
	}
	if d, ok := s.fenceEnds(); ok {
		at = min(at, d)
	}
	return at, any
}

// Upcoming returns the iteration, or the time, of the next checkpoint of any group's schedule, as
// far as it is known.
func (s *Supervisor) Upcoming() (iteration int, at time.Duration, ok bool) {
	for _, g := range s.groups {
		i, t, known := g.co.Upcoming()
		if known && (!ok || i < iteration || i == iteration && t < at) {
			iteration, at, ok = i, t, true
		}
	}
	return iteration, at, ok
}

// Iteration returns the smallest iteration any rank is known to be in.
func (s *Supervisor) Iteration() int {
	low := math.MaxInt
	for _, g := range s.groups {
		low = min(low, g.co.Iteration())
	}
	return low
}

// InFlight is how many checkpoints of all groups are behind the computation.
func (s *Supervisor) InFlight() (n int) {
	for _, g := range s.groups {
		n += g.co.InFlight()
	}
	return n
}

// Phase says in words what the job is doing.
func (s *Supervisor) Phase() string {
	if !s.several() {
		return s.groups[0].co.Phase()
	}
	var order []string
	counts := map[string]int{}
	for _, g := range s.groups {
		p := g.co.Phase()
		if counts[p]++; counts[p] == 1 {
			order = append(order, p)
		}
	}
	if len(order) == 1 {
		return order[0]
	}
	for i, p := range order {
		order[i] = fmt.Sprintf("%s (%d)", p, counts[p])
	}
	return strings.Join(order, ", ")
}

func (s *Supervisor) do(group int, a protocol.Action) { s.out = append(s.out, Action{group, a}) }

func (s *Supervisor) take() []Action {
	out := s.out
	s.out = nil
	return out
}

// settle goes on with all that may have waited for the event.
func (s *Supervisor) settle() {
	if s.ended || !s.several() {
		return
	}
	s.checkFence()
	s.recover()
	s.moveStop()
	s.allot()
	s.startReady()
	s.collect()
	s.tryEnd()
}
