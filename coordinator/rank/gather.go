package rank

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image/container"
	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// A gatherer lets the aggregators among the ranks pull bytes out of this one, and pulls out of
// others. A connection carries requests one after the other:
//
//	request   u32 number of ranges; for each key, offset and length, 64 bits each
//	answer    u8 0, then the bytes of all ranges
//	          u8 1, u32 length, what went wrong
//
// Both ends have proved that they belong to the job before.
type gatherer struct {
	self wire.Self
	port *wire.Port

	mu      sync.Mutex
	ctx     context.Context // of what the pieces are served for
	piece   func(context.Context, int) ([]byte, error)
	peers   []string
	dialled map[int]*gatherConn
	closed  bool
}

// gatherConn is the connection to one rank. The holder of mu may use it.
type gatherConn struct {
	mu   sync.Mutex
	conn net.Conn // may be nil; changed with the lock of the gatherer too
	r    *bufio.Reader
}

const (
	maxRanges = 1 << 20

	gatherDone   = 0
	gatherFailed = 1
)

func newGatherer(self wire.Self) (*gatherer, error) {
	g := &gatherer{self: self, ctx: context.Background(), dialled: make(map[int]*gatherConn)}
	var err error
	g.port, err = self.Listen(func(conn net.Conn, _ int) { g.serve(conn) })
	return g, err
}

func (g *gatherer) address() string { return g.port.Address() }

func (g *gatherer) close() {
	g.mu.Lock()
	g.closed = true
	for _, c := range g.dialled {
		if c.conn != nil {
			c.conn.Close()
		}
	}
	g.mu.Unlock()
	g.port.Close()
}

func (g *gatherer) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		list, err := readRanges(r)
		if err != nil {
			return
		}
		bufs, err := g.find(list)
		if err != nil {
			text := err.Error()
			head := binary.LittleEndian.AppendUint32([]byte{gatherFailed}, uint32(len(text)))
			bufs = net.Buffers{append(head, text...)}
		}
		// One call for the whole, out of the memory of the application.
		if _, err := bufs.WriteTo(conn); err != nil {
			return
		}
	}
}

type gatherRange struct{ key, offset, bytes int64 }

func readRanges(r io.Reader) ([]gatherRange, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxRanges {
		return nil, fmt.Errorf("%d ranges in a request", n)
	}
	list := make([]gatherRange, 0, min(n, 1024))
	var b [24]byte
	for range n {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, err
		}
		le := binary.LittleEndian
		list = append(list, gatherRange{int64(le.Uint64(b[:])), int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:]))})
	}
	return list, nil
}

func (g *gatherer) find(list []gatherRange) (net.Buffers, error) {
	g.mu.Lock()
	piece, ctx := g.piece, g.ctx
	g.mu.Unlock()
	if piece == nil {
		return nil, fmt.Errorf("rank %d serves nothing", g.self.Rank)
	}
	bufs := net.Buffers{{gatherDone}}
	for _, x := range list {
		b, err := piece(ctx, int(x.key))
		if err != nil {
			return nil, err
		}
		if x.offset < 0 || x.bytes < 0 || x.offset > int64(len(b)) || x.bytes > int64(len(b))-x.offset {
			return nil, fmt.Errorf("bytes %d to %d of piece %d, which has %d", x.offset, x.offset+x.bytes, x.key, len(b))
		}
		bufs = append(bufs, b[x.offset:x.offset+x.bytes])
	}
	return bufs, nil
}

// Pull implements exec.Puller.
func (g *gatherer) Pull(ctx context.Context, from int, ranges []exec.Range) error {
	c, address, err := g.wayTo(from)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		if err := g.dial(ctx, c, from, address); err != nil {
			return fmt.Errorf("rank %d: %w", from, err)
		}
	}
	conn := c.conn // which hangUp forgets, perhaps before what follows runs
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = c.pull(ranges)
	if !stop() || err != nil {
		// Bytes still under way on the connection belong to this request.
		g.hangUp(c)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *gatherConn) pull(ranges []exec.Range) error {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(ranges)))
	for _, x := range ranges {
		b = le.AppendUint64(b, uint64(x.Key))
		b = le.AppendUint64(b, uint64(x.Offset))
		b = le.AppendUint64(b, uint64(len(x.P)))
	}
	if _, err := c.conn.Write(b); err != nil {
		return err
	}
	status, err := c.r.ReadByte()
	if err != nil {
		return err
	}
	if status != gatherDone {
		var head [4]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return err
		}
		text := make([]byte, min(le.Uint32(head[:]), 4096))
		if _, err := io.ReadFull(c.r, text); err != nil {
			return err
		}
		return errors.New(string(text))
	}
	for _, x := range ranges {
		// A bufio.Reader reads large pieces past its buffer.
		if _, err := io.ReadFull(c.r, x.P); err != nil {
			return err
		}
	}
	return nil
}

// wayTo returns the connection to a rank, perhaps not dialled yet.
func (g *gatherer) wayTo(rank int) (*gatherConn, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || rank < 0 || rank >= len(g.peers) {
		return nil, "", fmt.Errorf("there is no way to rank %d", rank)
	}
	c := g.dialled[rank]
	if c == nil {
		c = new(gatherConn)
		g.dialled[rank] = c
	}
	return c, g.peers[rank], nil
}

// dial connects c, whose lock the caller holds, and no other: the other side may be dialling as
// well.
func (g *gatherer) dial(ctx context.Context, c *gatherConn, rank int, address string) error {
	conn, err := g.self.Dial(ctx, rank, address)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		conn.Close()
		return net.ErrClosed
	}
	c.conn, c.r = conn, bufio.NewReader(conn)
	return nil
}

// hangUp ends a connection; the next pull makes another.
func (g *gatherer) hangUp(c *gatherConn) {
	c.conn.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	c.conn = nil
}

func (g *gatherer) setPeers(peers []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.peers = peers
}

// serveFrom sets what others can pull, or nothing.
func (g *gatherer) serveFrom(ctx context.Context, piece func(context.Context, int) ([]byte, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx, g.piece = ctx, piece
}

// follow has the next checkpoint be written in a way, nil for the description's. The encoder
// keeps its experience if the codec stays.
func (s *state) follow(way *job.Way) error {
	w := s.spec.Way()
	if way != nil {
		w = *way
	}
	if w == s.way {
		return nil
	}
	joint, err := s.spec.Joint(s.spec.GroupOf[s.rank], w)
	if err != nil {
		return err
	}
	if w.Codec != s.way.Codec {
		setting, err := w.CodecOf()
		if err != nil {
			return err
		}
		s.codec = container.NewCodec(setting, 0)
	}
	s.way, s.joint = w, joint
	return nil
}

// layoutNetwork connects this rank with the others that write a checkpoint: through the
// coordinator for what all have to know, directly for the bytes.
type layoutNetwork struct {
	*gatherer
	ctx    context.Context // of the writing
	link   *wire.Link
	number int
	ranks  int
	round  int
	told   <-chan protocol.Shares
}

// A meeting is how this rank writes files together with others.
type meeting struct {
	gatherer *gatherer            // nil until it first does
	told     chan protocol.Shares // what they tell each other
}

func newMeeting() meeting { return meeting{told: make(chan protocol.Shares, 16)} }

func (m *meeting) close() {
	if m.gatherer != nil {
		m.gatherer.close()
	}
}

// open prepares to write checkpoint number with other ranks. They tell each other where to pull;
// an earlier checkpoint may have ended before all knew.
func (r *process) open(ctx context.Context, m *meeting, number int, ranks []plan.Source) (*layoutNetwork, error) {
	if m.gatherer == nil {
		var err error
		if m.gatherer, err = newGatherer(wire.Self{Rank: r.id, Token: r.token, Network: r.network}); err != nil {
			return nil, err
		}
	}
	n := &layoutNetwork{gatherer: m.gatherer, ctx: ctx, link: r.link, number: number, ranks: len(ranks), told: m.told}
	all, err := n.Exchange(ctx, []byte(m.gatherer.address()))
	if err != nil {
		return nil, err
	}
	peers := make([]string, r.spec.NP)
	for i, b := range all {
		peers[ranks[i].Rank] = string(b)
	}
	m.gatherer.setPeers(peers)
	return n, nil
}

func (n *layoutNetwork) Serve(piece func(context.Context, int) ([]byte, error)) {
	n.serveFrom(n.ctx, piece)
}

func (n *layoutNetwork) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	n.link.Send(protocol.Share{Number: n.number, Round: n.round, Body: mine})
	for {
		select {
		case m := <-n.told:
			if m.Number != n.number || m.Round != n.round {
				continue // of a checkpoint that was aborted
			}
			n.round++
			return wire.Split(m.Body, n.ranks)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *state) writeJoint(ctx context.Context, fsys vfs.FS, number int, order wire.WriteOrder, net *layoutNetwork, regions []zones.Region, opt container.WriteOptions, report *wire.WriteReport) error {
	// Memory that may change again is not pulled from.
	defer net.serveFrom(context.Background(), nil)
	g := container.Joint{Settings: s.joint.Settings, Ranks: s.joint.Ranks, Rank: s.rank, Paths: order.Group, Network: net, Buffers: &s.buffers}
	h := container.Header{Job: s.cfg.Job, Number: number, Rank: -1, Node: -1, Kind: s.joint.Kind()}
	info, err := container.WriteJoint(ctx, fsys, g, h, regions, opt)
	if err != nil {
		return err
	}
	report.File = info.File
	for _, f := range info.Closed {
		report.Files = append(report.Files, wire.WrittenFile{Kind: s.joint.Kind(), Path: f.Path, Bytes: f.Bytes, Holes: f.Holes, Index: f.IndexBlake3})
	}
	report.Management += info.ManagementTime
	report.Storage += info.StorageTime
	return nil
}
