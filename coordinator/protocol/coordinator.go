package protocol

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Limits bound every wait.
type Limits struct {
	// Silence is how long a rank may give no sign of life before it is declared dead. Ranks send
	// a Beat several times as often. It doubles with each restart that gets no further than the
	// one before, up to half of Phase.
	Silence time.Duration
	// Phase is how long a phase of a checkpoint, or the start of an incarnation, may go on
	// without progress of the rank waited for.
	Phase time.Duration
	// Patience is how long a rank may keep the others waiting at the boundary of a checkpoint
	// before it is declared dead. With 0 it is not; the checkpoint is aborted after Phase, or
	// later if iterations take so long.
	Patience time.Duration
	// Restarts without a new checkpoint in between before the job fails.
	Restarts int
}

// DefaultLimits suit ranks that compute for up to minutes per iteration.
var DefaultLimits = Limits{Silence: 10 * time.Second, Phase: 5 * time.Minute, Restarts: 20}

// Config describes a group of ranks to its Coordinator.
type Config struct {
	Ranks       []int // of the group, ascending, as numbered in the job
	Start       int   // the iteration of the beginning
	Iterations  int   // 0: not known; then a rank may end at any time
	Schedule    Schedule
	Limits      Limits
	AutoRestart bool
	// From is the checkpoint to begin with, 0 for the beginning of the job.
	From int
	// Known maps the committed checkpoints to their iterations.
	Known map[int]int
	// Next is the number of the next checkpoint; it exceeds all used before.
	Next int
	// Stride is the difference between numbers, 1 if it is 0: groups of one job that count Next,
	// Next+Stride, … from different residues share no number.
	Stride int
	// Cost is what checkpoints are expected to cost, for Schedule.Overhead.
	Cost Cost
	// Async lets the job compute on as soon as every rank has captured its memory; the images are
	// written behind the computation.
	Async bool
	// InFlight is how many checkpoints may be behind the computation at a time, with Async: one
	// is written, the others wait as copies. 0 is 1.
	InFlight int

	// Lone says that one agent speaks for all ranks of a program, which fail together: no
	// rank is blamed by its number.
	Lone bool

	// FallBack lets the first incarnation, too, begin with an earlier checkpoint
	// if its own is damaged. With Stored it begins with none but a checkpoint.
	FallBack, Stored bool
	// Incarnation is the last incarnation before the first one of this Coordinator.
	Incarnation int
}

type phase uint8

const (
	starting   phase = iota // ranks join, allocate and restore
	running                 // no checkpoint under way
	proposing               // asking where everybody is
	stopping                // waiting for everybody at the boundary
	holding                 // waiting there for the checkpoint before, written behind, or for leave
	emptying                // draining channels
	storing                 // ranks write
	committing              // the manifest is being renamed into place
	aborting                // waiting until no rank writes any more
	ready                   // all ranks are; waiting for leave to start them
	agreeing                // waiting for the boundary of all groups
	resting                 // nothing is left to do
	down                    // waiting for the checkpoint to go back to
	finished
)

var phaseNames = [...]string{"starting", "computing", "agreeing on an iteration", "reaching the iteration boundary",
	"waiting for the previous checkpoint", "draining its channels", "writing its image", "committing", "aborting the checkpoint",
	"ready", "agreeing with the other groups", "waiting for the other groups", "finding the recovery line", "finished"}

func (p phase) String() string { return phaseNames[p] }

// rankState is what the coordinator knows of one rank of the incarnation.
type rankState struct {
	rank     int // as numbered in the job
	joined   bool
	answered bool // in the current phase
	captured bool // or written, in the current phase
	owes     bool // an answer about the checkpoint written behind
	done     bool
	iter     int
	demand   int // boundary at which it waits for a checkpoint that it demanded, or 0
	progress uint64
	counts   []Count // of messages sent, as of its stop
	body     []byte
	stopped  time.Duration
	heard    time.Duration // last sign of life
	moved    time.Duration // last sign of progress in the current phase
	work     uint64        // done apart from iterations
	worked   time.Duration // last sign of it
}

// A Coordinator is the protocol of a group. Its zero value is not usable.
type Coordinator struct {
	cfg         Config
	now         time.Duration
	out         []Action
	phase       phase
	incarnation int
	ranks       []rankState // in the order of Config.Ranks
	left        int         // ranks that have yet to answer in the current phase
	copying     int         // ranks that have yet to capture their memory, when storing

	from      int // checkpoint this incarnation was restored from
	known     map[int]int
	computed  bool // ranks have begun to compute
	next      int  // number of the next checkpoint
	armed     int  // boundary the ranks stop at by themselves, or 0
	boundary  int  // of the checkpoint under way
	began     time.Duration
	wrote     time.Duration // Write was sent
	held      time.Duration // the longest that the writing of a rank stood still for other jobs
	durable   time.Duration // the last Written came in
	lastEnd   time.Duration // when the last checkpoint or start ended
	budget    budget
	futile    int           // restarts since the last checkpoint
	reached   int           // the furthest iteration before any of them
	longest   time.Duration // iteration of any rank
	waited    int           // number of the checkpoint of which it was told that it waits
	stuck     int           // how many of them, in a row, got no further
	inspect   time.Duration // when to look for overdue ranks next
	finishing bool

	waiting []Request // to be served by the next checkpoint
	serving []Request // by the one under way
	behind  *behind   // the one written behind the computation, or nil
	queue   []*behind // copies that wait until those before them are written, oldest first
	loss    *RankLost // came while committing

	asked   bool    // the supervisor, in this step
	gated   bool    // by the supervisor
	late    bool    // the order to write is kept back
	queues  bool    // the ranks copy the checkpoint under way, and write it later
	hurried *behind // the one that other groups wait for
}

// NewCoordinator returns the protocol of a group. The first actions come from Begin.
func NewCoordinator(cfg Config) *Coordinator {
	cfg.Stride = max(1, cfg.Stride)
	c := &Coordinator{cfg: cfg, known: map[int]int{}, next: max(1, cfg.Next), from: cfg.From, incarnation: cfg.Incarnation}
	for n, iter := range cfg.Known {
		c.known[n] = iter
		for c.next <= n {
			c.next += cfg.Stride
		}
	}
	c.budget = budget{share: cfg.Schedule.Overhead, cost: cfg.Cost, async: cfg.Async}
	return c
}

// Begin starts the first incarnation.
func (c *Coordinator) Begin(now time.Duration) []Action {
	c.now = now
	c.inspect = now + c.patrol()
	c.spawn(c.cfg.From)
	return c.take()
}

// Step takes an event that happened at time now and returns what to do.
func (c *Coordinator) Step(now time.Duration, ev Event) []Action {
	c.now = max(c.now, now)
	if c.phase == finished {
		if r, ok := ev.(Requested); ok {
			c.answer(r.Request, 0, "the job has ended")
		}
		return c.take()
	}
	switch ev := ev.(type) {
	case FromRank:
		if r := c.rank(ev.Rank); ev.Incarnation == c.incarnation && r != nil && c.phase != down {
			c.receive(r, ev.Message)
		}
	case RankLost:
		if ev.Incarnation == c.incarnation && c.rank(ev.Rank) != nil {
			c.rankLost(ev)
		}
	case Committed:
		c.committed(ev)
	case CommitFailed:
		switch {
		case ev.Number == c.next && (c.phase == committing || c.phase == storing):
			c.commitFailed(ev)
		case c.behind != nil && ev.Number == c.behind.cp.Number:
			c.failedBehind(ev)
		}
	case Unusable:
		if ev.Incarnation == c.incarnation {
			c.setupFailed(-1, SetupFailed{Damaged: ev.Damaged, Unfit: ev.Unfit, Text: ev.Reason, Body: ev.Body})
		}
	case Postponed:
		c.postponed(ev)
	case Ordered:
		c.ordered(ev)
	case Requested:
		c.request(ev.Request)
	default:
		c.obey(ev)
	}
	if c.asked {
		// The answer continues from here, or else the next event.
		c.asked = false
		return c.take()
	}
	if c.now >= c.inspect {
		c.checkDeadlines()
	}
	c.startDue()
	return c.take()
}

// Deadline returns when to call Step with a Tick at the latest.
func (c *Coordinator) Deadline() (time.Duration, bool) {
	if c.phase == finished {
		return 0, false
	}
	at := c.inspect
	if c.phase == running && !c.finishing && !c.mustWait() && !c.commits() && !c.gated {
		if due, ok := c.due(); ok {
			at = min(at, due)
		}
	}
	return at, true
}

// Upcoming returns the iteration, or the time, of the next checkpoint of the schedule, as far as
// it is known.
func (c *Coordinator) Upcoming() (iteration int, at time.Duration, ok bool) {
	if c.phase == finished || c.gated {
		return 0, 0, false
	}
	if c.armed > 0 {
		return c.armed, 0, true
	}
	at, ok = c.due()
	return 0, at, ok
}

// begins returns the iteration of a checkpoint, 0 for the beginning.
func (c *Coordinator) begins(from int) int {
	if from == 0 {
		return c.cfg.Start
	}
	return c.known[from]
}

// rank returns what is known of a rank of the group, or nil.
func (c *Coordinator) rank(rank int) *rankState {
	if i, ok := slices.BinarySearch(c.cfg.Ranks, rank); ok {
		return &c.ranks[i]
	}
	return nil
}

// Iteration returns the smallest iteration any rank is known to be in.
func (c *Coordinator) Iteration() int {
	low := math.MaxInt
	for i := range c.ranks {
		low = min(low, c.ranks[i].iter)
	}
	return low
}

// Furthest returns the largest iteration any rank is known to be in, or to have been in when it
// failed.
func (c *Coordinator) Furthest() int {
	high := 0
	for i := range c.ranks {
		high = max(high, c.ranks[i].iter)
	}
	return high
}

// Phase says in words what the job is doing.
func (c *Coordinator) Phase() string {
	if c.lacksSlot() {
		return "waiting until an earlier checkpoint is stored"
	}
	return c.phase.String()
}

func (c *Coordinator) do(a Action) { c.out = append(c.out, a) }

func (c *Coordinator) take() []Action {
	out := c.out
	c.out = nil
	return out
}

func (c *Coordinator) report(n Notice) {
	if c.cfg.Lone {
		n.Rank = -1
	}
	c.do(Report{n})
}

func (c *Coordinator) answer(r Request, number int, err string) {
	c.do(Answer{ID: r.ID, Number: number, Err: err})
}

// enter begins a phase in which every rank has to answer once.
func (c *Coordinator) enter(p phase) {
	c.phase, c.late = p, false
	c.left, c.copying = len(c.ranks), len(c.ranks)
	for i := range c.ranks {
		c.ranks[i].answered, c.ranks[i].captured = false, false
		c.ranks[i].moved = c.now
	}
}

// answered notes that a rank has answered in the current phase and reports whether it was the
// last.
func (c *Coordinator) answered(r *rankState) bool {
	if r.answered {
		return false
	}
	r.answered = true
	c.left--
	return c.left == 0
}

// waitsFor reports whether the current phase lasts until a rank answers.
func (c *Coordinator) waitsFor(r *rankState) bool {
	if c.lacksSlot() {
		return false
	}
	switch c.phase {
	case starting, proposing, stopping, emptying, storing, aborting:
		return !r.answered
	}
	return false
}

func (c *Coordinator) spawn(from int) {
	c.incarnation++
	c.from = from
	c.ranks = make([]rankState, len(c.cfg.Ranks))
	for i, rank := range c.cfg.Ranks {
		c.ranks[i].rank, c.ranks[i].iter = rank, c.begins(from)
	}
	c.finishing, c.behind, c.queue = false, nil, nil
	c.enter(starting)
	c.do(Spawn{Incarnation: c.incarnation, From: from, Delay: c.backoff()})
}

// started lets the ranks compute once all of them are ready.
func (c *Coordinator) started() {
	c.arm(c.begins(c.from))
	c.phase, c.computed = running, true
	c.lastEnd, c.budget.since = c.now, c.now
	c.budget.pace.begin(c.begins(c.from))
	c.do(Broadcast{Start{c.armed, c.next}})
	c.report(Notice{Kind: Started, Rank: -1, From: c.from, Incarnation: c.incarnation, Iter: c.begins(c.from)})
	c.announce()
}

func (c *Coordinator) finish(o Outcome) {
	c.phase = finished
	asked := slices.Concat(c.serving, c.waiting)
	if c.behind != nil {
		asked = slices.Concat(c.behind.serving, c.queued(), asked)
		c.do(Discard{c.behind.cp.Number})
	}
	for _, r := range asked {
		why := ""
		if !r.Stop || o.Result == Failed {
			why = "the job has ended"
			if o.Text != "" {
				why = fmt.Sprintf("the job has ended: %s", o.Text)
			}
		}
		c.answer(r, 0, why)
	}
	c.serving, c.waiting, c.behind, c.queue = nil, nil, nil, nil
	c.do(Finish{o})
}
