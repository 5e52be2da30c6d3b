package protocol

import (
	"fmt"
	"time"

	"ckpt/coordinator/protocol/channel"
)

// An Event is something that happened to the job.
type Event interface{ event() }

// The events of the coordinator.
type (
	// FromRank is a message of a rank of that incarnation.
	FromRank struct {
		Incarnation, Rank int
		Message           Message
	}
	// RankLost says that a rank of that incarnation died or disconnected.
	RankLost struct {
		Incarnation, Rank int
		Cause             string
		Final             bool // another incarnation would fare no better
	}
	// Committed answers Commit: the checkpoint exists. Vectors, in a job of several groups, are
	// what the ranks stored, in their order.
	Committed struct {
		Number  int
		Vectors []channel.Vector
		Passing bool // it is on nodes, which may lose it or make room before the store has it
	}
	// Settled says that the store has a checkpoint that was Passing, Passed that no level has it
	// any more.
	Settled      struct{ Number int }
	Passed       struct{ Number int }
	CommitFailed struct {
		Number int
		Reason string
		Body   []byte
	}
	// Unusable says that the checkpoint named in Spawn cannot be restored, found before any rank
	// was started.
	Unusable struct {
		Incarnation int
		Damaged     bool // for good; otherwise it just could not be read
		Unfit       bool // sound, but not for these ranks
		Reason      string
		Body        []byte
	}
	// Postponed says that the order to write checkpoint Number, which follows Prepare, is kept
	// back: no slot is free yet. Ordered says that it has been sent.
	Postponed struct{ Number int }
	Ordered   struct{ Number int }
	// Requested asks for a checkpoint or a stop.
	Requested struct{ Request Request }
	// Tick says only that time has passed.
	Tick struct{}
)

func (FromRank) event()     {}
func (RankLost) event()     {}
func (Committed) event()    {}
func (Settled) event()      {}
func (Passed) event()       {}
func (CommitFailed) event() {}
func (Unusable) event()     {}
func (Postponed) event()    {}
func (Ordered) event()      {}
func (Requested) event()    {}
func (Tick) event()         {}

// A Request comes from outside: a user, or the command that runs the job.
type Request struct {
	ID   int
	Stop bool // stop the job, after a checkpoint
	Now  bool // with Stop: without one
}

// An Action is something the caller has to do, in the order given.
type Action interface{ action() }

// The actions of the coordinator.
type (
	// Send a message to a rank of the current incarnation.
	Send struct {
		Rank    int
		Message Message
	}
	Broadcast struct{ Message Message }
	// Kill one rank that is silent; its RankLost has been taken into account.
	Kill struct{ Rank int }
	// Spawn ends what is left of earlier incarnations, sweeps debris and starts all ranks as that
	// incarnation from checkpoint From, 0 for the beginning, after Delay. With several groups, it
	// is about one group only; Incarnation is then its ranks' incarnation, and says more than
	// those before it.
	Spawn struct {
		Incarnation, From int
		Delay             time.Duration
		// Line is the recovery line that channel.Restore needs with an optimistic log, or nil.
		// Ready must wait until its actions are durable.
		Line []uint64
		// Fresh says that the job restarts from scratch: logs are emptied first.
		Fresh bool
	}
	// Prepare makes room for checkpoint Number before Write is sent. A failure is reported as
	// CommitFailed.
	Prepare struct{ Number int }
	// Commit renames the manifest of a checkpoint into place and answers Committed or
	// CommitFailed.
	Commit struct{ Checkpoint Checkpoint }
	// Discard removes the debris of this checkpoint alone. No rank writes to it any more, unless
	// Finish follows: then the ranks have to be ended first.
	Discard struct{ Number int }
	// Answer a Request. Err is empty on success.
	Answer struct {
		ID     int
		Number int // of the checkpoint taken, or 0
		Err    string
	}
	// Report tells the user.
	Report struct{ Notice Notice }
	// Finish the job: end all ranks.
	Finish struct{ Outcome Outcome }
)

func (Send) action()      {}
func (Broadcast) action() {}
func (Kill) action()      {}
func (Spawn) action()     {}
func (Prepare) action()   {}
func (Commit) action()    {}
func (Discard) action()   {}
func (Answer) action()    {}
func (Report) action()    {}
func (Finish) action()    {}

// A Checkpoint is what the protocol knows of one when all ranks have written.
type Checkpoint struct {
	Number, Iter int
	Bodies       [][]byte        // of Written, by rank
	Waited       []time.Duration // from the stop of each rank to the order to write
	Stopped      []time.Duration // when each rank stopped
	Coordination time.Duration   // from the first stop or the proposal to the order to write
	Writing      time.Duration   // from the order to write to the last Written
	Resumed      time.Duration   // when the ranks were resumed; 0 if they wait for the commit
}

// A Notice is one thing a user should know. Exactly one group of fields counts, by its Kind.
type Notice struct {
	Kind        NoticeKind
	Checkpoint  int // number
	Rank        int // that failed or caused an abort, or -1
	Iter        int
	From        int // checkpoint restored from
	Incarnation int
	Text        string
	Body        []byte // details of the rank, as in WriteFailed
	// Lag is how long ago the first rank stopped for the checkpoint.
	Lag     time.Duration
	Pause   time.Duration // how long the application stood still, from the first stop, or will wait
	Commit  time.Duration // from the last Written to the commit
	Stuck   int           // restarts in a row that got no further
	Plan    *Plan         // of IntervalChanged
	Silence time.Duration // how long a rank may give no sign of life from now on
}

// NoticeKind says what a Notice is about.
type NoticeKind uint8

// The notices.
const (
	Started           NoticeKind = iota // all ranks of Incarnation compute, from checkpoint From
	CheckpointTaken                     // Checkpoint at Iter; Lag, Pause, Commit
	CheckpointAborted                   // Checkpoint was aborted because of Rank: Text
	RankDied                            // Rank died at about Iter: Text
	Restarting                          // Incarnation from checkpoint From
	FallingBack                         // Checkpoint cannot be restored: Text
	BackingOff                          // Stuck restarts got no further than Iter: the next comes after Pause, with a limit of Silence
	IntervalChanged                     // Plan says when checkpoints will be taken
	Waiting                             // Checkpoint has waited for Pause for Rank, which is at about Iter, to reach its boundary
)

// A Plan says how often Schedule.Overhead lets checkpoints be taken.
type Plan struct {
	Interval time.Duration // of computing, from the end of one to the begin of the next
	Cost     time.Duration // expected, of each
	Wait     time.Duration // until the next one
	Measured int           // checkpoints behind Cost; 0: it is a prediction
	Used     float64       // of the computing time so far
}

// An Outcome is how a job ended.
type Outcome struct {
	Result   Result
	Text     string   // why, unless completed
	Rank     int      // the rank behind it, or -1
	Body     []byte   // details of that rank
	Restored bool     // with Failed: restoring the state was what failed
	Results  [][]byte // of Done, by rank, when completed
}

// A Result is the way a job ended.
type Result uint8

// The results.
const (
	Completed Result = iota
	StoppedByRequest
	Failed
)

func (r Result) String() string {
	switch r {
	case Completed:
		return "completed"
	case StoppedByRequest:
		return "stopped"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("result(%d)", uint8(r))
}

// Examined answers Examine, an event of a job of several groups: the states that the rank can be
// put into by replaying its log from each checkpoint asked for, oldest first, as
// channel.State.Logged returns them. A checkpoint that cannot be read is left out.
type Examined struct {
	Round, Rank int // as in Examine
	States      map[int][]channel.Vector
}

func (Examined) event() {}

// The actions of a job of several groups.
type (
	// Examine ends the processes of a group, so that its logs are at rest, and asks for the
	// states in the log of a rank behind each of the checkpoints; 0 is the beginning. Examined
	// answers.
	Examine struct {
		Round, Rank int
		Numbers     []int
	}
	// Forget removes all checkpoints of a group with numbers after After, also those that cannot
	// be read, and the newest first: the history that they belong to is abandoned. It has to be
	// done, durably, before the actions that follow. Numbers are the checkpoints that the job
	// could have gone back to.
	Forget struct {
		After   int
		Numbers []int
	}
	// Collect says what no recovery can need any more. Base has to be durable before any of it is
	// removed.
	Collect struct {
		// Base is the oldest checkpoint of each group that is kept, 0 for the beginning of the
		// job. The log of a rank can lose what its state there covers. All are −1 while a job is
		// being restarted from scratch.
		Base []int
		// Remove are the checkpoints that can be removed.
		Remove []int
	}
	// Recovery says what a failure costs: an account for the user, given when all that has to be
	// started again has been ordered.
	Recovery struct {
		Failed []int // groups that died or could not be set up
		// RolledBack are the groups that start again, the failed ones included, with the
		// checkpoints From, 0 for the beginning.
		RolledBack, From []int
		Ranks            int           // of all these groups
		Iterations       []int         // by group: lost, as far as is known
		Decided          time.Duration // from the first failure to the decision
	}
	// Print puts an output of a rank out. It comes once for each index of each rank, in ascending
	// order, and has to be noted durably before any Commit that follows.
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
