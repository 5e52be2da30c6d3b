// Package life runs the life of a job in virtual time, from its start to its end: it computes,
// takes checkpoints, fails, restarts and computes again. It answers where closed forms end:
// failures that cluster by node, levels that lose their protection, spare nodes, waste by cause,
// and how far the ends of runs lie apart.
//
//	job := life.Job{Work: 30 * day, Interval: hour, Nodes: 4096, Levels: []life.Level{{Name: "store", Cost: 300, Restart: 300}}}
//	s, err := life.Simulate(ctx, []life.Job{job}, life.Machine{NodeMTBF: 5 * year, Shape: 0.7}, life.Runs{Count: 200, Seed: 1})
//	fmt.Println(s.Lives[0].End.Mean, s.Lives[0].ETTR.Mean)
//
// # The model
//
// All times are seconds. A job of one group stands still with each pause of a part. It
// computes for an interval, takes a checkpoint, and so on; after the last interval it ends.
// A checkpoint goes through the levels, the nearest first: each costs what it takes more than the
// one before. Every so many checkpoints of a level one goes on to the next.
//
// After a failure the job waits until the failure is noticed, then for a node if one was lost
// and no spare is left, and reads its newest checkpoint of the nearest level that survived.
// Failures strike at any time; those that strike while the job waits are noticed with the first.
//
// Groups take checkpoints and restart by themselves, and repeat work from logs, faster (Replay).
// They share the storage, and wait for each other's messages once they are ahead by the slack
// (pace.go, groups.go).
//
// Levels whose last one has a drain are the nodes and the store of ckpt launch --local. Which
// version has a slot, waits, is copied or reclaimed is decided by nodes.Ledger, as in a job.
//
// # Promises
//
//   - The same job, machine and seed give the same lives, on any number of processors.
//   - Jobs of one simulation meet the same failures, so that their differences are theirs.
//   - The cost of a life grows with its checkpoints and failures, and its nodes once.
//   - A job that makes no progress is an error, not a number.
package life

import (
	"fmt"
	"math"
)

// A Job is what has a life.
type Job struct {
	Work     float64 // seconds of the run without checkpoints, logs and failures
	Interval float64 // from the end of a checkpoint to the begin of the next
	Nodes    int
	Levels   []Level // nearest first; the last survives every failure

	// Slowdown is the share of the speed that message logs cost, Growth the seconds that a
	// second of work adds to a checkpoint of all groups, Replay how many times faster work is
	// repeated, 0 meaning 1. Without groups all are 0.
	Slowdown, Growth, Replay float64

	// Groups, if over 1, take checkpoints and restart each by itself; they are the ranks of nodes,
	// of several nodes, or parts of a node. Costs of levels are then those of a group that has the
	// storage alone. Spread groups store one after the other, each at its part of the interval;
	// else all at the same positions. Slack is how much further, in seconds of running, a group
	// gets than another that stands still: work that needs none of its messages, directly or
	// through others. Stretch is how many times longer a transfer takes
	// while so many groups move theirs; nil: they do not share the storage.
	// Bare groups keep no logs, and go back together (bare.go).
	Groups  int
	Spread  bool
	Bare    bool
	Slack   float64
	Stretch func(groups int) float64

	// Beside, if not nil, are other jobs on the storage that all share, with which the job's
	// checkpoints, drains and the Read of restarts share it. Of groups that store one after the other
	// Stretch has it.
	Beside *Beside

	// Walltime, if not 0, is how long the machine is the job's at a time: it stops with a
	// checkpoint in the store before the end, and goes on after Queue.
	Walltime, Queue float64
	// Shrink says that the job goes on with the nodes that are left, slower, while no spare is.
	Shrink bool
}

// A Level is where checkpoints live.
type Level struct {
	Name    string
	Cost    float64 // of a checkpoint of this level, beyond that of the level before
	Agree   float64 // of the cost: until ranks have agreed to store, which shares no storage
	Restart float64 // until all ranks compute again that go back
	// Read is the part of a group's restart that reads from the storage that all share, ReadLost
	// that after the loss of a node, 0 meaning the same.
	Read, ReadLost float64
	Every          int // of so many checkpoints of the level before one goes on to this one; 0 means 1
	// Share is how many of the failures a level survives that lies on no nodes: 1 for the last.
	Share float64
	// OnNodes says that the level survives each failure that loses no node, and the loss of
	// Strength nodes until it is Restored, so many seconds after the restart. The restart takes
	// Rebuild longer where nodes were lost.
	OnNodes           bool
	Strength          int
	Restored, Rebuild float64
	// Drain is how long a checkpoint is copied to the last level behind the job, which computes
	// slower by a share of Slow meanwhile; 0: it is written while the job waits.
	Drain, Slow float64
}

// stopTime is how long all groups take to store a checkpoint in the last level, before a stop.
func (j *Job) stopTime() float64 {
	last := &j.Levels[len(j.Levels)-1]
	if last.Drain > 0 {
		return last.Drain
	}
	sum := 0.0
	for i := range j.Levels {
		sum += j.Levels[i].Cost
	}
	agree := j.Levels[0].Agree
	return agree + (sum-agree)*j.stretch(j.Groups)
}

// resumeTime is how long all groups take to read a checkpoint in the last level.
func (j *Job) resumeTime() float64 {
	last := &j.Levels[len(j.Levels)-1]
	return last.Restart + last.Read*(j.stretch(j.Groups)-1)
}

// Moves is for how many seconds bytes go into the last level until it has a checkpoint of all groups.
func (j *Job) Moves() float64 {
	last, sum := &j.Levels[len(j.Levels)-1], 0.0
	switch {
	case last.Drain > 0:
		sum = last.Drain
	case j.Groups > 1 || j.Beside != nil:
		one := *j
		one.Groups = max(1, j.Groups)
		p := one.pace()
		return p.write * math.Ceil(float64(one.Groups)/float64(p.writers))
	default:
		for i := range j.Levels {
			sum += j.Levels[i].Cost
		}
	}
	if j.Beside != nil && sum > 0 {
		sum *= j.Beside.Slower(sum)
	}
	return sum
}

// check refuses what has no life.
func (j *Job) check() error {
	if len(j.Levels) == 0 {
		return &RangeError{"number of levels", 0, 1, 8}
	}
	for _, x := range []struct {
		name       string
		is, lo, hi float64
	}{{"work", j.Work, 1e-9, maxTime}, {"interval", j.Interval, 1e-9, maxTime}, {"nodes", float64(j.Nodes), 1, maxNodes}, {"slowdown by logs", j.Slowdown, 0, 0.999},
		{"growth of checkpoints by logs", j.Growth, 0, 1}, {"speed of replay", j.Replay, 0, 100}, {"number of levels", float64(len(j.Levels)), 1, 8}} {
		if !(x.is >= x.lo && x.is <= x.hi) {
			return &RangeError{x.name, x.is, x.lo, x.hi}
		}
	}
	if j.Groups < 0 || j.Groups > maxGroups {
		return &RangeError{"number of groups", float64(j.Groups), 0, maxGroups}
	}
	if !(j.Slack >= 0) {
		return &RangeError{"slack", j.Slack, 0, maxTime}
	}
	switch least := j.stopTime() + j.resumeTime(); {
	case !(j.Walltime >= 0 && j.Walltime <= maxTime):
		return &RangeError{"walltime", j.Walltime, 0, maxTime}
	case !(j.Queue >= 0 && j.Queue <= maxTime):
		return &RangeError{"time in the queue", j.Queue, 0, maxTime}
	case j.Walltime > 0 && j.Walltime <= least:
		return &RangeError{"walltime", j.Walltime, least, maxTime}
	case j.Shrink && j.Groups > 1:
		return fmt.Errorf("jobs of groups do not shrink: a group that went back needs as many ranks as it had")
	}
	switch bare := j.Bare && j.Groups > 1; {
	case bare && (j.Slowdown > 0 || j.Growth > 0 || j.Replay > 1):
		return fmt.Errorf("groups without logs lose no speed to them, and repeat no work from them")
	case bare && j.Spread && j.Walltime > 0:
		return fmt.Errorf("groups without logs that store apart, and stop together at the end of an allocation, are not simulated")
	}
	if j.Beside != nil {
		if err := j.Beside.check(); err != nil {
			return err
		}
	}
	if n := j.Work / j.Interval; n > maxCheckpoints {
		return &RangeError{"number of checkpoints", n, 0, maxCheckpoints}
	}
	for i := range j.Levels {
		if err := j.Levels[i].check(i == len(j.Levels)-1); err != nil {
			return fmt.Errorf("level %s: %w", j.Levels[i].Name, err)
		}
	}
	if last := &j.Levels[len(j.Levels)-1]; last.Drain > 0 && (len(j.Levels) != 2 || !j.Levels[0].OnNodes) {
		return fmt.Errorf("level %s: a drain leads from the nodes to the store: two levels, of which the first is on nodes", last.Name)
	}
	return nil
}

func (l *Level) check(last bool) error {
	for _, x := range []struct {
		name       string
		is, lo, hi float64
	}{{"cost", l.Cost, 0, maxTime}, {"time to agree", l.Agree, 0, l.Cost}, {"restart", l.Restart, 0, maxTime}, {"reading", l.Read, 0, maxTime}, {"reading after a loss", l.ReadLost, 0, maxTime}, {"every", float64(l.Every), 0, maxCheckpoints}, {"strength", float64(l.Strength), 0, maxStrength},
		{"time until it is restored", l.Restored, 0, maxTime}, {"time to rebuild", l.Rebuild, 0, maxTime}, {"drain", l.Drain, 0, maxTime}, {"slowdown by a drain", l.Slow, 0, 0.999}} {
		if !(x.is >= x.lo && x.is <= x.hi) {
			return &RangeError{x.name, x.is, x.lo, x.hi}
		}
	}
	switch {
	case last && l.OnNodes:
		return fmt.Errorf("the last level survives every failure, and nodes do not")
	case !last && l.Drain > 0:
		return fmt.Errorf("only the last level is drained to")
	case !last && !l.OnNodes && !(l.Share >= 0 && l.Share < 1):
		return &RangeError{"share of failures", l.Share, 0, 1}
	}
	return nil
}

// The limits of a simulation: some centuries, the largest machines, some seconds for a life.
const (
	maxTime        = 1e10
	maxNodes       = 10_000_000
	maxGroups      = 100_000_000
	maxCheckpoints = 10_000_000
	maxStrength    = 64         // of a scheme of package nodes
	maxFailures    = 10_000_000 // of one life
	stuckFailures  = 10_000     // of one interval
	maxRuns        = 1_000_000
)

// A RangeError says which number lies outside of what can be simulated.
type RangeError struct {
	Quantity        string
	Is, Least, Most float64
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%s of %.6g: must be %.6g to %.6g", e.Quantity, e.Is, e.Least, e.Most)
}

// A StuckError says that a job makes no progress worth the name.
type StuckError struct {
	Failures int
	Done     float64 // share of the work
	Job      int     // of those that Simulate has
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("after %d failures %.3g %% of the work is done: the job makes no progress worth the name", e.Failures, 100*e.Done)
}

// Hint says what helps.
func (e *StuckError) Hint() string {
	return "make checkpoints and restarts cheaper, or run on fewer nodes: a job of half the nodes fails half as often"
}

// A Cause is what a second of a life went to.
type Cause int

// The causes.
const (
	Work Cause = iota
	Logs
	Checkpoints
	Room  // a checkpoint waits for a slot on the nodes
	Drain // computing is slower beside one
	Rework
	Detection
	NoNode // a lost node has no spare
	Restart
	Contention // of groups on the storage
	Held       // waiting for messages of other groups
	Outage     // the storage is away
	Queue      // waiting for the next allocation
	Fewer      // computing is slower on the nodes that are left
	causes
)

// String names a cause.
func (c Cause) String() string {
	return [...]string{"work", "logs", "checkpoints", "waiting for room", "drains", "repeated work", "detection", "waiting for a node", "restarts", "contention", "waiting for groups", "waiting for storage", "queue", "fewer nodes"}[c]
}

// A Life is what happened in one.
type Life struct {
	End                  float64 // seconds from its start
	By                   [causes]float64
	Failures, LostNodes  int
	Restarts, FromLast   int // of these from the last level
	Checkpoints, Drained int
	Deepest              float64 // work that the worst failure destroyed
	Lost                 float64 // seconds of running that failures destroyed, of all groups that went back
}

// ETTR is the share of the life that was work: the effective training time ratio of fleets.
func (l *Life) ETTR() float64 { return l.By[Work] / max(l.End, 1e-300) }
