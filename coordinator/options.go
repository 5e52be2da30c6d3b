package coordinator

import (
	"context"
	"log/slog"
	"time"

	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/internal/vfs"
)

// Options are what a run needs besides the description of the job.
type Options struct {
	Store    string // directory
	Job      string // name; Launch makes one up if it is empty
	Failures []Failure
	Limits   protocol.Limits // zero: protocol.DefaultLimits
	Observer Observer
	Log      *slog.Logger // of the coordinator's actions; nil for none
	// Interrupts asks the run to stop: the first after a last checkpoint, the
	// second at once, with a *LeftError if the store blocks it.
	Interrupts <-chan struct{}
	// Checkpoints asks the run for a checkpoint now; nil for never.
	Checkpoints <-chan struct{}
	// Until is when the run has to have ended, zero for no limit. It stops the job after a
	// last checkpoint, early enough for that.
	Until time.Time
	// Streams are those of a program of the user, and Nodes its nodes where the hosts of its
	// ranks are not to tell; may be nil.
	Streams launch.Streams
	Nodes   func(np int) (job.Mapping, error)
	// StopOnFull ends the run when a checkpoint is aborted because the storage
	// is full; otherwise that checkpoint is skipped. The error answers to
	// durable.ErrStorageFull.
	StopOnFull bool
	// FS holds the store; nil is the machine's.
	FS vfs.FS

	// Listen is the address, HOST or HOST:PORT, at which ranks on other hosts reach the
	// coordinator; empty for a job on this host.
	Listen string

	// Room refuses so many ranks on this machine if they would be without threads or memory
	// in the middle of the run; may be nil.
	Room func(ranks int) error
	// StartTurns starts a controller of storage turns for a directory, and returns when it can
	// be found or cannot be started; nil: none is started.
	StartTurns func(ctx context.Context, dir string) error

	DMTCP dmtcp.Options // zero: the usual

	watch func(protocol.Action)
	ways  func(checkpoint int) *job.Way // of tests: how to write it
	alive *launch.Account               // of the run; may be nil
	// excused of tests takes the place of launch.WaitsForStorage.
	excused func(pid int) bool
	grace   time.Duration // of tests, if longer than endGrace

	withoutLog bool
	input      *launch.Input // of a program
	inventory  *inventory    // of the nodes of a stored job; may be nil
	levels     *job.Levels   // where its checkpoints are; nil if it has no nodes
}

func (o Options) fileSystem() vfs.FS {
	if o.FS == nil {
		return vfs.OS{}
	}
	return o.FS
}

// RestartOptions say how to continue a job.
type RestartOptions struct {
	Options
	Checkpoint int // 0: the newest
	Mapping    func(np int) (job.Mapping, error)
	// NP is the number of ranks to restart with, 0 for those of the checkpoint, or for as
	// many as Command starts. Command starts a program of the user in
	// place of the command that the job was launched with; nil for that one.
	NP          int
	Command     []string
	Dir         string // takes the place of the directory that a program was launched in
	AutoRestart bool   // besides what the job was launched with
	// Moved says that the store was moved here from another file system, so that the
	// directories of its nodes are still its own.
	Moved bool
	// WithoutLog has a job of several groups resume from the newest checkpoints that
	// fit together without what the message logs hold, which is removed: a *LogError
	// tells which ones they are.
	WithoutLog bool
	// StorageTurns takes the place of what the job was launched with; nil: that holds.
	StorageTurns *job.StorageTurns
}
