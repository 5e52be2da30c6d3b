package mpi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Receives take these for any source and any tag.
const (
	AnySource = -1
	AnyTag    = -1
)

const (
	defaultMaxMessage       = math.MaxInt32 // an MPI count is an int
	defaultHandshakeTimeout = 20 * time.Second
)

type Config struct {
	Rank, Size int
	NodeOf     []int // the node of each rank

	// Segment is the shared memory of the rank's node. It may be nil if the rank is alone there.
	Segment *Segment
	// Listener takes connections from ranks of other nodes. The Comm owns it from a successful
	// Join on. It may be nil if there is only one node.
	Listener net.Listener
	// Dial connects to an address of Peers; nil does it over TCP. A Dial that encrypts needs a
	// Listener that does.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Peers are the TCP addresses of the ranks' listeners, by rank; on the same node they do not
	// count.
	Peers []string
	// Token is the secret of the job, which both ends of a connection have to prove that they
	// know. It may be empty if there is only one node.
	Token []byte

	// MaxMessage is the longest message in bytes; 0 means 2³¹−1, or with an Optimistic log what
	// that leaves beside the numbers it depends on.
	MaxMessage int
	// HandshakeTimeout is how long a connection may take to be dialled and to prove itself; 0
	// means 20 s.
	HandshakeTimeout time.Duration
	// Lost, if set, hears of each connection that ended before Abort or Close: io.EOF if the peer
	// closed it, as a dead process does. It is called from a goroutine of the Comm and must not
	// block.
	Lost func(peer int, err error)

	// Channels, if set, divide the job into groups; see there. Then Segment is shared by the
	// members of the own group on the node, and may be nil all the same, Peers of other groups
	// may be empty until PeerMoved names them, and Lost is told once each time such a rank cannot
	// be reached any more, which is no error.
	Channels *Channels
}

// A Comm is one rank's end of the communicator of all ranks. Its methods may be called from
// several goroutines, but collective operations, as in MPI, by one at a time and in the same
// order in every rank.
type Comm struct {
	cfg   Config
	peers []peer // by rank
	in    inbox
	shm   *shmPort     // nil without a segment
	tcp   *tcpPort     // nil on a single node
	chans *channelPort // nil with a single group

	// done is closed when failure is set, by Abort, Close or damage found.
	done    chan struct{}
	failure atomic.Pointer[failure]
	ending  sync.Mutex // held while a failure is spread; see fail

	workers sync.WaitGroup // the receiver, the acceptor and a reader per connection
}

type failure struct{ err error }

// A peer is what a Comm knows about one rank to send to.
type peer struct {
	// mu keeps one message from being cut by another, and the segment from being touched after
	// Close.
	mu    sync.Mutex
	sent  atomic.Uint64
	local int // its index on our node; -1 on other nodes
	ring  producer
	conn  outConn
}

// Join makes a rank part of its job. It returns at once: peers need not have joined yet. Counters
// of sent and received messages start at zero, while the segment may come from an earlier run, if
// it was quiescent.
func Join(cfg Config) (*Comm, error) {
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = defaultMaxMessage - cfg.Channels.perMessage(cfg.Size)
	}
	if cfg.HandshakeTimeout == 0 {
		cfg.HandshakeTimeout = defaultHandshakeTimeout
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) { return Dial(ctx, "tcp", address) }
	}
	nodeRanks, err := cfg.check()
	if err != nil {
		return nil, fmt.Errorf("join as rank %d of %d: %w", cfg.Rank, cfg.Size, err)
	}
	c := &Comm{cfg: cfg, peers: make([]peer, cfg.Size), done: make(chan struct{})}
	c.in.init(cfg.Size)
	for r := range c.peers {
		c.peers[r].local = -1
	}
	for i, r := range nodeRanks {
		c.peers[r].local = i
	}
	if cfg.Listener != nil {
		c.tcp = newTCPPort(c)
	}
	if cfg.Channels != nil {
		// Restored messages have to be in front of all that arrive.
		if c.chans, err = newChannelPort(c); err != nil {
			return nil, fmt.Errorf("join as rank %d of %d: %w", cfg.Rank, cfg.Size, err)
		}
	}
	if cfg.Segment != nil {
		c.shm = newShmPort(c, nodeRanks)
		c.workers.Go(c.shm.receive)
	}
	if c.tcp != nil {
		c.workers.Go(c.tcp.accept)
	}
	if c.chans != nil {
		c.chans.start()
	}
	return c, nil
}

// check returns the ranks of our node in ascending order, or what is wrong.
func (cfg *Config) check() (nodeRanks []int, err error) {
	switch {
	case cfg.Size < 1 || cfg.Size > math.MaxInt32:
		return nil, errors.New("size is out of range")
	case cfg.Rank < 0 || cfg.Rank >= cfg.Size:
		return nil, errors.New("rank is out of range")
	case len(cfg.NodeOf) != cfg.Size:
		return nil, fmt.Errorf("nodes of %d ranks are given", len(cfg.NodeOf))
	case cfg.MaxMessage < 0 || cfg.MaxMessage > math.MaxInt32-cfg.Channels.perMessage(cfg.Size):
		return nil, fmt.Errorf("longest message of %d bytes is out of range", cfg.MaxMessage)
	}
	for r, node := range cfg.NodeOf {
		if node == cfg.NodeOf[cfg.Rank] && cfg.Channels.shares(cfg, r) {
			nodeRanks = append(nodeRanks, r)
		}
	}
	if err := cfg.Channels.check(); err != nil {
		return nil, err
	}
	if seg := cfg.Segment; seg != nil {
		if seg.mem == nil {
			return nil, &SegmentError{Path: seg.path, Err: errors.New("closed")}
		}
		if seg.geo.ranks != len(nodeRanks) {
			return nil, &SegmentError{Path: seg.path, Err: fmt.Errorf("made for %d ranks; the node has %d", seg.geo.ranks, len(nodeRanks))}
		}
		// A restore may have written over it since it was opened.
		if err := seg.geo.checkHeader(seg.mem); err != nil {
			return nil, &SegmentError{Path: seg.path, Err: err}
		}
	} else if len(nodeRanks) > 1 {
		return nil, fmt.Errorf("no segment, with %d ranks on the node", len(nodeRanks))
	}
	if len(nodeRanks) == cfg.Size && cfg.Channels == nil {
		return nodeRanks, nil
	}
	switch {
	case cfg.Listener == nil:
		return nil, errors.New("no listener, with ranks on other nodes")
	case len(cfg.Token) == 0:
		return nil, errors.New("no token, with ranks on other nodes")
	case len(cfg.Peers) != cfg.Size:
		return nil, fmt.Errorf("addresses of %d ranks are given", len(cfg.Peers))
	}
	for r, addr := range cfg.Peers {
		if addr == "" && !slices.Contains(nodeRanks, r) && (cfg.Channels == nil || slices.Contains(cfg.Channels.Group, r)) {
			return nil, fmt.Errorf("no address for rank %d on node %d", r, cfg.NodeOf[r])
		}
	}
	return nodeRanks, nil
}

func (c *Comm) Rank() int { return c.cfg.Rank }

func (c *Comm) Size() int { return c.cfg.Size }

func (c *Comm) Node() int { return c.cfg.NodeOf[c.cfg.Rank] }

// Abort makes every blocked and every later operation fail with err, promptly, as when another
// rank has died. Only the first Abort or Close counts; the Comm still has to be closed.
func (c *Comm) Abort(err error) {
	if err == nil {
		err = errors.New("aborted")
	}
	c.fail(err)
}

// Close ends the rank's part in the job, after which its operations return ErrClosed, and waits
// for the goroutines of the Comm. Messages that the rank has sent still reach its peers of the
// group. Peers in other groups may miss what they have not acknowledged, so that a job closes its
// ranks when all have ended. Messages that the rank has not received are dropped.
func (c *Comm) Close() error {
	c.fail(ErrClosed)
	if c.tcp != nil {
		c.tcp.close()
	}
	c.workers.Wait()
	// A Send of another goroutine may be copying into the segment. Once we have had its lock it
	// is out, and the next one sees the failure first.
	for r := range c.peers {
		c.peers[r].mu.Lock()
		c.peers[r].mu.Unlock() //nolint:staticcheck // empty on purpose
	}
	return nil
}

// fail records why the Comm ended and wakes all who are blocked in it. It holds the lock until
// all are woken, so that a second Close does not return, and have the segment unmapped, while
// bells are still being rung.
func (c *Comm) fail(err error) {
	c.ending.Lock()
	defer c.ending.Unlock()
	if !c.failure.CompareAndSwap(nil, &failure{err}) {
		return
	}
	close(c.done)
	c.in.fail(err)
	if c.shm != nil {
		c.shm.wake()
	}
	if c.tcp != nil {
		c.tcp.interrupt()
	}
	if c.chans != nil {
		c.chans.interrupt()
	}
}

func (c *Comm) err() error {
	if f := c.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

func (c *Comm) wrap(op string, peer int, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Rank: c.cfg.Rank, Peer: peer, Err: err}
}

var ErrClosed = errors.New("communicator is closed")

// An Error is a failed operation of a Comm. After Abort(err), errors.Is(e, err) holds for every
// Error.
type Error struct {
	Op   string // "send", "receive", "barrier", …
	Rank int    // the rank that called
	Peer int    // the rank at the other end; AnySource if there is no single one
	Err  error
}

func (e *Error) Error() string {
	switch {
	case e.Peer == AnySource:
		return fmt.Sprintf("rank %d: %s: %v", e.Rank, e.Op, e.Err)
	case e.Op == "receive":
		return fmt.Sprintf("rank %d: receive from rank %d: %v", e.Rank, e.Peer, e.Err)
	}
	return fmt.Sprintf("rank %d: %s to rank %d: %v", e.Rank, e.Op, e.Peer, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// A DrainError says which messages a Drain has missed.
type DrainError struct {
	Peer      int    // the first peer in the list that is behind
	Want, Got uint64 // messages from it
	Others    int    // further peers that are behind
	Err       error  // why the wait ended
}

func (e *DrainError) Error() string {
	others := ""
	if e.Others > 0 {
		others = fmt.Sprintf(" (and %d more peers are behind)", e.Others)
	}
	return fmt.Sprintf("%d of %d messages from rank %d have arrived%s: %v", e.Got, e.Want, e.Peer, others, e.Err)
}

func (e *DrainError) Unwrap() error { return e.Err }

// A LengthError is a message that is longer than the buffer it was to be received in, or, for
// RecvFloat64s, of another length. The message stays where it was and can be received again.
type LengthError struct {
	Source, Tag int
	Bytes, Room int // of the message, of the buffer
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("message of %d bytes from rank %d with tag %d, for a buffer of %d", e.Bytes, e.Source, e.Tag, e.Room)
}

// A SegmentError is a shared segment that cannot be used.
type SegmentError struct {
	Path string
	Err  error
}

func (e *SegmentError) Error() string { return fmt.Sprintf("segment %s: %v", e.Path, e.Err) }
func (e *SegmentError) Unwrap() error { return e.Err }

// ErrCorrupt marks bytes in the segment, in a frame, in a message log or among pending messages
// that no rank of this version writes.
var ErrCorrupt = errors.New("corrupt")

// errRefused is a handshake in which one side could not prove that it knows the job's token.
var errRefused = errors.New("handshake refused: the token is another")
