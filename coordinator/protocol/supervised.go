package protocol

import "slices"

// A Coordinator decides by itself what concerns its group alone. At each turning point it asks,
// with one of the following actions, and stays where it is until the answer comes as an event.
// Package supervisor gives the answers; these actions do not leave it.
type (
	// Down says that the incarnation has ended: a rank died, or the group could not be set up.
	// RollBack answers.
	Down struct {
		Rank    int // -1: unknown
		Cause   string
		Damaged int // checkpoint that turned out to be unusable for good, or 0
	}
	// Await asks for leave to take a step. Permit answers.
	Await struct{ Step Step }
	// Agreed says that all ranks of the group hold for a stop, and the first boundary that no
	// rank has passed. Boundary or CancelStop answers.
	Agreed struct{ Iter int }
	// Rest says that nothing is left to do: all ranks have told their results, or stand still for
	// a stop after checkpoint Number, which may be 0. The processes live on. End, GoOn or
	// RollBack answers.
	Rest struct {
		Number  int
		Results [][]byte  // nil: stopped
		Lost    *RankLost // of a rank that has told its result; nil: all live
	}
)

// A Step is one that a group must not take without leave.
type Step uint8

// The steps.
const (
	StartStep Step = iota // all ranks are ready: to compute
	DrainStep             // all ranks stand at the boundary: to drain and to store
)

// A supervisor tells a Coordinator:
type (
	// Halt ends the incarnation, whatever it is doing, through no fault of its own. It must not
	// come while Commits says true. RollBack has to follow.
	Halt struct{}
	// RollBack answers Down: the next incarnation is spawned from checkpoint From, 0 for the
	// beginning. Checkpoints after From are forgotten.
	RollBack struct{ From int }
	// Permit answers Await. Outside, with DrainStep, are the messages sent by ranks of other
	// groups that have to arrive too: the counts by sender.
	Permit struct {
		Step    Step
		Outside map[int][]Count
	}
	// Gate keeps the group from beginning a checkpoint, but for a stop, or lets it again.
	Gate struct{ Closed bool }
	// Hurry says that another group waits for the end of the checkpoint that is written behind:
	// from now on a rank that makes no progress is overdue.
	Hurry struct{}
	// Boundary answers Agreed: all groups stop at iteration Iter.
	Boundary struct{ Iter int }
	// CancelStop ends a stop and aborts its checkpoint.
	CancelStop struct{ Reason string }
	// GoOn answers Rest after a stop that is not to be.
	GoOn struct{}
	// End ends the group. Its ranks are told to leave unless the job failed.
	End struct{ Outcome Outcome }
)

func (Down) action()   {}
func (Await) action()  {}
func (Agreed) action() {}
func (Rest) action()   {}

func (Halt) event()       {}
func (RollBack) event()   {}
func (Permit) event()     {}
func (Gate) event()       {}
func (Hurry) event()      {}
func (Boundary) event()   {}
func (CancelStop) event() {}
func (GoOn) event()       {}
func (End) event()        {}

func (c *Coordinator) ask(a Action) {
	c.do(a)
	c.asked = true
}

func stops(requests []Request) bool {
	return slices.ContainsFunc(requests, func(r Request) bool { return r.Stop })
}

// rest leaves the ranks alone until the whole job ends, or until they are needed again. It keeps
// requests for then.
func (c *Coordinator) rest(r Rest) {
	if c.phase == aborting {
		c.next += c.cfg.Stride
	}
	c.phase = resting
	c.waiting, c.serving = append(c.serving, c.waiting...), nil
	c.ask(r)
}

// mayDrain asks for leave to drain when all ranks stand at the boundary, unless too many
// checkpoints are still behind.
func (c *Coordinator) mayDrain() {
	c.phase = holding
	if c.mayTake() {
		c.ask(Await{DrainStep})
	}
}

// obey takes an event of the supervisor.
func (c *Coordinator) obey(ev Event) {
	switch ev := ev.(type) {
	case Permit:
		switch {
		case ev.Step == StartStep && c.phase == ready:
			c.started()
		case ev.Step == DrainStep && c.phase == holding && c.mayTake():
			c.drain(ev.Outside)
		}
	case Halt:
		c.halt()
	case RollBack:
		c.rollBack(ev.From)
	case Gate:
		c.gated = ev.Closed
	case Hurry:
		c.hurried = c.behind
	case Boundary:
		c.stopAt(ev.Iter)
		c.asked = c.phase == holding && c.mayTake() // Await is still to be answered
	case CancelStop:
		c.cancelStop(ev.Reason)
	case GoOn:
		if c.phase == resting {
			c.resume()
		}
	case End:
		if ev.Outcome.Result == Failed {
			c.finish(ev.Outcome)
			return
		}
		c.end(ev.Outcome)
	}
}

// halt ends the incarnation because other groups force it back.
func (c *Coordinator) halt() {
	if c.phase == down || c.phase == finished {
		return
	}
	const why = "the group has to go back"
	c.loseBehind(-1, why)
	c.dropCheckpoint(-1, why)
	c.phase, c.behind = down, nil
}

// rollBack begins the next incarnation where the supervisor says.
func (c *Coordinator) rollBack(from int) {
	if c.phase != down {
		return
	}
	for n := range c.known {
		if n > from {
			delete(c.known, n)
		}
	}
	c.respawn(from)
}

// stopAt sends all ranks to the boundary of a stop. One that was agreed on before is raised, as
// long as nothing is drained.
func (c *Coordinator) stopAt(iter int) {
	switch c.phase {
	case agreeing:
	case stopping, holding:
		if !stops(c.serving) || iter <= c.boundary {
			return
		}
		for i := range c.ranks {
			c.ranks[i].stopped = c.began - 1 // it goes on once more
		}
	default:
		return
	}
	c.boundary = iter
	c.enter(stopping)
	c.do(Broadcast{StopAt{c.next, iter}})
}

// cancelStop has a stop be forgotten, unless it is being committed.
func (c *Coordinator) cancelStop(reason string) {
	keep := c.waiting[:0]
	for _, r := range c.waiting {
		if r.Stop {
			c.answer(r, 0, reason)
			continue
		}
		keep = append(keep, r)
	}
	c.waiting = keep
	if !stops(c.serving) {
		return
	}
	switch c.phase {
	case proposing, agreeing, stopping, holding, emptying, storing:
		c.abort(-1, reason, nil)
	}
}

// Commits reports whether a checkpoint is being committed: whatever happens, its end is waited
// for.
func (c *Coordinator) Commits() bool { return c.commits() }

// Holds reports whether all ranks stand at the boundary and wait for leave to drain.
func (c *Coordinator) Holds() bool { return c.phase == holding && c.mayTake() }

// Stores reports whether the group drains or stores, or gives a checkpoint up.
func (c *Coordinator) Stores() bool {
	switch c.phase {
	case emptying, storing, committing, aborting:
		return true
	}
	return c.behind != nil && c.phase != resting
}

// Sent returns the messages that a rank had sent to each peer when it stopped last.
func (c *Coordinator) Sent(rank int) []Count { return c.rank(rank).counts }

// Results returns the results of all ranks of the group, if all have ended and no rank has failed
// since.
func (c *Coordinator) Results() ([][]byte, bool) {
	if c.phase == down {
		return nil, false
	}
	return c.results()
}

// Finishing reports whether a rank has passed its last boundary.
func (c *Coordinator) Finishing() bool { return c.finishing }

// Stopping returns the boundary that the ranks have been told to stop at, and have not all
// reached.
func (c *Coordinator) Stopping() (iter int, ok bool) { return c.boundary, c.phase == stopping }
