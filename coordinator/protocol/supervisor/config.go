package supervisor

import (
	"fmt"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// Config describes a job of one or several groups.
type Config struct {
	// Groups are the ranks of each group, ascending. Together they are all ranks
	// of the job, each once.
	Groups [][]int
	// Log is how messages between groups are logged. With one group it does not
	// matter. Optimistic needs groups of one rank.
	Log channel.Kind

	Iterations  int
	Schedule    protocol.Schedule // of each group
	Stagger     Stagger
	Jitter      float64 // of each time or boundary of the schedule, as a fraction of its period, in [0, 1)
	Seed        uint64  // of Jitter and of a random Stagger
	Storing     int     // most groups that drain and store at the same time; 0: any number
	Limits      protocol.Limits
	AutoRestart bool
	Async       bool
	Cost        protocol.Cost // as in protocol.Config

	// From, with one group, is the checkpoint to begin with, 0 for the
	// beginning. Several groups begin with the recovery line of what is Known.
	From int
	// Known are the checkpoints in the store that the job may go back to.
	Known []Stored
	// Logged, with Optimistic, are the states in the logs: by rank, what
	// channel.State.Logged returns for each of its checkpoints in Known and, with
	// Base 0, for checkpoint 0.
	Logged []map[int][]channel.Vector
	// Base is, by group, what the last Collect said that was durable; nil for 0.
	// With −1 in it the job restarts from scratch, whatever is Known.
	Base []int
	// Next is the number of the next checkpoint; it exceeds all used before.
	Next int
	// Incarnation exceeds those of all processes that the job has ever had; that
	// of a process is the incarnation of its group, Spawn.Incarnation.
	Incarnation int
	// Printed is, by rank, the highest index of Print that is durable; nil for 0.
	Printed []uint64
	// Keep is how many of its newest checkpoints are kept for each group, so that
	// one that is damaged can be done without; at least 1. With log None or
	// Optimistic all that a recovery line can come to lie on are kept in any case.
	Keep int
}

// Stored is a checkpoint of a group in the store.
type Stored struct {
	Group, Number, Iter int
	// Vectors are those of the group's ranks, in their order. With one group they
	// are not needed.
	Vectors []channel.Vector
}

// Stagger is how the checkpoints of the groups are spread over the period of
// the schedule. Iterations that are given one by one are kept to by all.
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

// ParseStagger is the inverse of String.
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

// An Event happened to a group, or to the job: Requested, Tick. Ranks are
// numbered within the job. Committed carries the Vectors of the checkpoint.
type Event struct {
	Group int
	protocol.Event
}

// An Action is to be done for a group, or for the job: Answer, Collect, Recovery,
// Print, Finish. Actions are carried out in the order given. Ranks are numbered
// within the job; bodies and times in a Checkpoint are by the order of the
// group.
type Action struct {
	Group int
	protocol.Action
}
