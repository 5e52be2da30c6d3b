package protocol

import (
	"time"

	"ckpt/coordinator/protocol/channel"
)

// Examined answers Examine, an event of a job of several groups: the states that
// the rank can be put into by replaying its log from each checkpoint asked for,
// oldest first, as channel.State.Logged returns them. A checkpoint that cannot
// be read is left out.
type Examined struct {
	Round, Rank int // as in Examine
	States      map[int][]channel.Vector
}

func (Examined) event() {}

// The actions of a job of several groups.
type (
	// Examine ends the processes of a group, so that its logs are at rest, and
	// asks for the states in the log of a rank behind each of the checkpoints;
	// 0 is the beginning. Examined answers.
	Examine struct {
		Round, Rank int
		Numbers     []int
	}
	// Forget removes all checkpoints of a group with numbers after After, those
	// that cannot be read too and the newest first: the history that they belong
	// to is abandoned. It has to be done, durably, before the actions that follow.
	// Numbers are those that the job could have gone back to.
	Forget struct {
		After   int
		Numbers []int
	}
	// Collect says what no recovery can need any more. Base has to be durable
	// before any of it is removed.
	Collect struct {
		// Base is the oldest checkpoint of each group that is kept, 0 for the
		// beginning of the job. Of the log of a rank, what its state there
		// covers can go. All are −1 while a job is being restarted from scratch.
		Base []int
		// Remove are the checkpoints that can be removed.
		Remove []int
	}
	// Recovery says what a failure costs: an account for the user, given when
	// all that has to be started again has been ordered.
	Recovery struct {
		Failed []int // groups that died or could not be set up
		// RolledBack are the groups that start again, the failed ones included,
		// with the checkpoints From, 0 for the beginning.
		RolledBack, From []int
		Ranks            int           // of all these groups
		Iterations       []int         // by group: lost, as far as is known
		Decided          time.Duration // from the first failure to the decision
	}
	// Print puts an output of a rank out. It comes once for each index of each
	// rank, in ascending order, and has to be noted durably before any Commit
	// that follows.
	Print struct {
		Rank  int
		Index uint64
		Text  string
	}
)

func (Examine) action()  {}
func (Forget) action()   {}
func (Collect) action()  {}
func (Recovery) action() {}
func (Print) action()    {}
