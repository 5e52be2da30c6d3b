package mpi

import (
	"context"
	"fmt"
	"slices"

	"ckpt/coordinator/protocol/channel"
)

// Channels divide a job into groups of ranks that fail and restart apart from
// each other. Messages to members of the own group travel as ever; those to
// others in channels, which survive the death and the restart of either end.
type Channels struct {
	// Kind is how messages between groups are logged, the same in all ranks.
	Kind channel.Kind
	// Group are the ranks that restart together with this one. The segment, if
	// there is one, is shared by those of them on its node; without one they
	// use TCP.
	Group []int
	// Incarnation is how often the rank has been started before. Incarnations
	// are those of all ranks as far as they are known, by rank; nil: all are in
	// their first.
	Incarnation  uint64
	Incarnations []uint64
	// Log is the rank's message log. None has none.
	Log Log
	// Restore is the state that the rank resumes from; nil: the beginning.
	Restore *Restored
	// MaxUnacked is how many bytes to one peer may be without acknowledgement,
	// channel.Overhead for each message included, before Send waits; 0 means
	// 256 MiB. It bounds what is kept for a peer that
	// is dead or slow, but not what Sender keeps for its next checkpoint.
	MaxUnacked int64
	// LogFailed, if set, is told when the log has failed, and with nil when it is
	// in order again. It is called from a goroutine of the Comm and must not
	// block.
	LogFailed func(error)
}

// A Log is where a rank's frames go. Append puts one at the end and returns its
// number; Wait returns when it and all before are durable. Frames that Wait has
// failed for are lost, and those behind them.
//
// If it has a method Reopen() error as well, a log that has failed is reopened,
// again and again until that succeeds, and is given again what it has lost.
type Log interface {
	Append(f channel.Frame) (lsn uint64, err error)
	Wait(ctx context.Context, lsn uint64) error
	Next() uint64 // the number of the next frame
}

// Restored is what a rank is restored from.
type Restored struct {
	// State and Pending are those of the Snapshot in its checkpoint.
	State, Pending []byte
	// Frames returns the frames of its log from Snapshot.LogFrom on, or from
	// earlier, io.EOF at the end. Their data must stay as it is.
	Frames func() (channel.Frame, error)
	// Line is the recovery line, nil if nobody else goes back; see
	// channel.Restore. The log loses the frames behind it only when
	// the log is durable. No restarting rank may continue before the logs of all of
	// them are: one would log messages of the old life of another as those of its
	// new life.
	Line []uint64
}

// A Snapshot is the part of a rank's state that lies in its channels and in its
// inbox.
type Snapshot struct {
	State   []byte
	Pending []byte
	// Vector says what the state depends on.
	Vector channel.Vector
	// LogFrom is the number in the log of the first frame that is needed on top
	// of this snapshot. If it is committed, and no earlier one is needed any
	// more, those before it are not either.
	LogFrom uint64
}

const defaultMaxUnacked = 256 << 20

// shares reports whether a rank of our node shares the segment with us.
func (ch *Channels) shares(cfg *Config, r int) bool {
	return ch == nil || r == cfg.Rank || cfg.Segment != nil && slices.Contains(ch.Group, r)
}

// perMessage is what a log has to hold of each message besides its data.
func (ch *Channels) perMessage(size int) int {
	if ch == nil || ch.Kind != channel.Optimistic {
		return 0
	}
	return 8 * size
}

func (ch *Channels) check() error {
	switch {
	case ch == nil:
	case ch.Kind.Logs() && ch.Log == nil:
		return fmt.Errorf("no log for messages between groups, which are to be logged %v", ch.Kind)
	case ch.MaxUnacked < 0:
		return fmt.Errorf("limit of %d bytes to a peer is out of range", ch.MaxUnacked)
	}
	return nil
}
