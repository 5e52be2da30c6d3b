package rank

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A process is the process of one rank. Two goroutines share it: the application, which computes
// and waits at iteration boundaries, and the agent, which speaks to the coordinator and decides
// through a protocol.Member when the application may go on. Drains and writes happen while the
// application waits.
type process struct {
	fs              vfs.FS // of the store
	id, incarnation int
	token           string
	link            *wire.Link
	network         wire.Network
	beside          bool                         // the coordinator is a process that this one can see
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
	peers           map[int]*wire.PeerClient // by rank

	mail    chan protocol.MemberEvent
	proceed chan struct{}
	failed  chan error // of the application

	// For channels to other groups: what the coordinator says of them, and what came before there
	// was a communicator.
	channelMail chan protocol.Message
	joined      chan *mpi.Comm
	channelComm *mpi.Comm
	news        []protocol.Message

	together meeting // to write checkpoints
	drain    *drain  // the last copy into the store; may be nil. It belongs to hear.

	program *program // of which this is the agent; nil if the rank is simulated

	iter     atomic.Int64
	progress atomic.Uint64
	// The rank waits for its log before it is ready, and the log waits for the disk.
	early, logWaits          atomic.Bool
	logTimer                 *time.Timer // ends this rank if its log stays broken; may be nil
	cancelDrain, cancelWrite context.CancelFunc
}

// worked counts a sign of progress beside iterations.
func (r *process) worked(bytes int64) { r.progress.Add(uint64(bytes)) }

// beat tells the coordinator that this process is alive and how far it is. Its only I/O is on its
// connection, which never blocks, and it waits for no lock that is held during I/O.
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

// place returns the iteration in progress and, of a program, its own number of the last boundary.
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
			if d := r.drain; d.of(m.Number) {
				hand(d.ctx, d.together.told, m)
			} else {
				hand(ctx, r.together.told, m)
			}
		case protocol.Store:
			r.drain = newDrain(ctx, m.Number)
			go r.storePart(r.drain, m)
		case protocol.Abort:
			if d := r.drain; d.of(m.Number) {
				d.end()
				continue
			}
			hand(ctx, r.mail, protocol.MemberEvent(protocol.Received{Message: m}))
		default:
			hand(ctx, r.mail, protocol.MemberEvent(protocol.Received{Message: m}))
		}
	}
}

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

type nodeServer struct {
	server *wire.DirServer
	parity atomic.Pointer[parity] // that this rank holds; may be nil
}

func (n *nodeServer) contribute(ctx context.Context, name string) (nodes.Contributor, error) {
	p := n.parity.Load()
	if p == nil {
		return nil, errors.New("no parity is held here")
	}
	return p.serve(ctx, name)
}

func (r *process) serveNode(m protocol.Serve) {
	var o wire.ServeOrder
	err := json.Unmarshal(m.Body, &o)
	if err == nil {
		err = r.openServer(o)
	}
	if err != nil {
		r.link.Send(protocol.Serving{Text: err.Error(), Body: wire.EncodeError(err)})
		return
	}
	r.link.Send(protocol.Serving{Address: r.served.server.Address()})
}

func (r *process) openServer(o wire.ServeOrder) error {
	if r.served != nil {
		return errors.New("the directory of the node is served already")
	}
	if o.Lose {
		if err := durable.RemoveAll(r.fs, filepath.Join(o.Dir, "jobs", o.Job)); err != nil {
			return err
		}
	}
	_ = durable.MkdirAll(r.fs, o.Dir) // what is wrong with it those are told that use it
	n, fsys := &nodeServer{}, r.fs
	if _, machine := fsys.(vfs.OS); machine {
		fsys = vfs.NewBeneath(o.Dir)
	}
	var err error
	n.server, err = wire.ServeDirs(r.self(), wire.ServedDirs{FS: fsys, Dir: o.Dir, Job: o.Job, Contribute: n.contribute})
	if err != nil {
		return err
	}
	r.served = n
	return nil
}

func (r *process) self() wire.Self { return wire.Self{Rank: r.id, Token: r.token, Network: r.network} }

// reach returns the file system of a node: of this host, or of the rank there that has the same
// place on its node as this one, so that all ranks serve.
func (r *process) reach(ctx context.Context, node int) vfs.FS {
	if len(r.cfg.Served) != r.spec.NP {
		return r.fs
	}
	of := r.spec.Mapping
	to := of.First(node) + (r.id-of.First(r.spec.Nodes[r.id]))%of[node]
	at := r.cfg.Served[to]
	if host, _ := wire.ThisHost(); at.Host == host || at.Address == "" { // of another group, on this host
		return r.fs
	}
	return r.client(to).FS(ctx)
}

func (r *process) client(rank int) *wire.PeerClient {
	r.peersMu.Lock()
	defer r.peersMu.Unlock()
	c := r.peers[rank]
	if c == nil {
		at := r.cfg.Served[rank]
		c = wire.NewPeerClient(r.self(), wire.Peer{Rank: rank, Host: at.HostName, Address: at.Address,
			Dir: r.spec.Tier.NodeDir(r.spec.Nodes[rank]), Job: r.cfg.Job, Silence: r.cfg.Silence})
		r.peers[rank] = c
	}
	return c
}

func (r *process) closePeers() {
	r.peersMu.Lock()
	defer r.peersMu.Unlock()
	for _, c := range r.peers {
		c.Close()
	}
	if r.served != nil {
		r.served.server.Close()
	}
}
