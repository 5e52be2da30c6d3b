package rank

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/peer"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/internal/vfs"
)

// A process is the process of one rank. Two goroutines share it: the application,
// which computes and waits at iteration boundaries, and the agent, which speaks
// to the coordinator and decides through a protocol.Member when the application
// may go on. Drains and writes happen while the application waits.
type process struct {
	fs              vfs.FS // of the store
	id, incarnation int
	token           string
	link            *wire.Link
	network         peer.Network
	turns           atomic.Pointer[turns.Client] // nil: before the welcome, and of a job without them
	here            *hostDir                     // nil: all ranks are on the host of the coordinator
	listener        net.Listener
	cfg             wire.Welcome
	spec            *job.Resolved
	group           []int // ranks that take checkpoints with this one, itself included
	state           *state
	comm            *mpi.Comm
	tier            *nodeTier   // directories of the nodes; may be nil
	served          *nodeServer // nil: this rank serves no directory
	peersMu         sync.Mutex
	peers           map[int]*peer.Client // by rank

	mail    chan protocol.MemberEvent
	told    chan protocol.Shares // what the ranks that write together tell each other
	proceed chan struct{}
	failed  chan error // of the application

	// Of a rank with channels to other groups: what the coordinator says of them,
	// and what came before there was a communicator.
	channelMail chan protocol.Message
	joined      chan *mpi.Comm
	channelComm *mpi.Comm
	news        []protocol.Message

	gatherer *gatherer // of a rank that writes together with others; nil until it first does

	program *program // of which this is the agent; nil if the rank is simulated

	iter     atomic.Int64
	progress atomic.Uint64
	// Whether it is waiting for its log before it says that it is ready, and whether
	// the log waits for the disk.
	early, logWaits atomic.Bool
	logTimer        *time.Timer // ends this rank if its log stays broken; may be nil
	// Of the drain and of the write going on.
	cancelDrain, cancelWrite context.CancelFunc
}

// closeGatherer ends what this rank writes together with others.
func (r *process) closeGatherer() {
	if r.gatherer != nil {
		r.gatherer.close()
	}
}

// worked counts what is a sign of progress beside iterations.
func (r *process) worked(bytes int64) { r.progress.Add(uint64(bytes)) }

// beat tells the coordinator that this process is alive and how far it is. It does no
// I/O but on its connection, which never blocks, and waits for no lock that is held
// during I/O.
func (r *process) beat(ctx context.Context, period time.Duration) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		if r.early.Load() && r.logWaits.Load() {
			r.worked(1) // it waits however long the disk is full, and is not stuck
		}
		waits := r.turns.Load().Waits()
		if waits {
			r.worked(1) // for as long as other jobs have the storage
		}
		iter, step := r.place()
		r.link.Send(protocol.Beat{Iter: iter, Progress: r.progress.Load() + uint64(iter), Step: uint64(max(0, step)), Waits: waits})
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// place returns the iteration in progress and, of a program, its own number of the last
// boundary.
func (r *process) place() (iter int, step int64) {
	if r.program == nil {
		return int(r.iter.Load()), 0
	}
	n, step := r.program.client.Passed()
	return int(n), step
}

// hear hands over what the coordinator says, until it is gone.
func (r *process) hear(ctx context.Context) error {
	for {
		m, err := r.link.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case protocol.Fence, protocol.Unfence, protocol.Moved, protocol.Collected, protocol.Truncate:
			if r.cfg.Channels != nil {
				hand(ctx, r.channelMail, m)
			}
		case protocol.Shares:
			hand(ctx, r.told, m)
		case protocol.Store:
			go r.storePart(ctx, m)
		default:
			hand(ctx, r.mail, protocol.MemberEvent(protocol.Received{Message: m}))
		}
	}
}

// hand puts a thing into a mailbox.
func hand[T any](ctx context.Context, mailbox chan<- T, thing T) {
	select {
	case mailbox <- thing:
	case <-ctx.Done():
	}
}

// await waits for leave to pass a boundary.
func (r *process) await(ctx context.Context) bool {
	select {
	case <-r.proceed:
		return true
	case <-ctx.Done():
		return false
	}
}
