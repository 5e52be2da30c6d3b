package mpi

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A tcpPort moves messages between this rank and ranks of other nodes. Each direction of a pair
// has a connection of its own, dialled by its sender with its first message: there is no race
// about who dials, and a connection's bytes flow one way, so that closing it never destroys what
// is still on its way.
type tcpPort struct {
	comm   *Comm
	ctx    context.Context // ends with the Comm, for dialling
	cancel context.CancelFunc
	slots  chan struct{} // bounds connections that have not proved themselves

	mu    sync.Mutex
	conns map[net.Conn]bool // all that are open; nil once the Comm has ended
	from  map[int]bool      // ranks that have connected to us
}

type outConn struct {
	conn net.Conn
	lost error     // why it is of no use any more
	buf  []byte    // header of the message being sent, and the payload if it is short
	vec  [2][]byte // header and payload, if it is not
}

// smallFrame is up to where copying is cheaper than a second piece in writev, header included.
const smallFrame = 2048

func newTCPPort(c *Comm) *tcpPort {
	t := &tcpPort{
		comm:  c,
		slots: make(chan struct{}, 64),
		conns: make(map[net.Conn]bool),
		from:  make(map[int]bool),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// interrupt makes everything that dials, reads or writes return. It leaves connections that we
// write to open for close, so that what was sent arrives.
func (t *tcpPort) interrupt() {
	t.cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	for conn := range t.conns {
		conn.SetDeadline(time.Unix(1, 0)) // fails only if the connection is closed
	}
	t.conns = nil
	t.comm.cfg.Listener.Close() // an error would mean that it is closed
}

func (t *tcpPort) close() {
	for r := range t.comm.peers {
		p := &t.comm.peers[r]
		p.mu.Lock()
		if p.conn.conn != nil {
			p.conn.conn.Close()
			p.conn.conn = nil
		}
		p.mu.Unlock()
	}
}

// track registers an open connection and sets its deadline, zero for no deadline. It returns
// false if the Comm has ended: then interrupt has set the last one.
func (t *tcpPort) track(conn net.Conn, deadline time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conns == nil {
		return false
	}
	t.conns[conn] = true
	return conn.SetDeadline(deadline) == nil
}

func (t *tcpPort) drop(conn net.Conn) {
	t.mu.Lock()
	delete(t.conns, conn)
	t.mu.Unlock()
	conn.Close()
}

func (t *tcpPort) accept() {
	last := time.Now() // when accepting did not fail
	for {
		select {
		case t.slots <- struct{}{}:
		case <-t.comm.done:
			return
		}
		conn, err := t.comm.cfg.Listener.Accept()
		if err != nil {
			<-t.slots
			if t.comm.err() != nil {
				return
			}
			if errors.Is(err, net.ErrClosed) {
				t.comm.fail(fmt.Errorf("listener: %w", err))
				return
			}
			// Out of descriptors, most likely: peers' dials wait in the backlog while we do.
			if time.Since(last) > t.comm.cfg.HandshakeTimeout {
				t.comm.fail(fmt.Errorf("listener: %w", err))
				return
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-t.comm.done:
			}
			continue
		}
		last = time.Now()
		t.comm.workers.Go(func() { t.serve(conn) })
	}
}

// serve checks who has connected and delivers what it sends.
func (t *tcpPort) serve(conn net.Conn) {
	defer t.drop(conn)
	c := t.comm
	if !t.track(conn, time.Now().Add(c.cfg.HandshakeTimeout)) {
		<-t.slots
		return
	}
	inside := conn
	if c.chans != nil {
		var magic [len(channelMagic)]byte
		if _, err := io.ReadFull(conn, magic[:]); err != nil {
			<-t.slots
			return
		}
		if string(magic[:]) == channelMagic {
			c.chans.serve(conn, func() { <-t.slots })
			return
		}
		inside = &prefixed{conn, magic[:]}
	}
	from, err := AcceptHandshake(inside, c.cfg.Token, c.cfg.Rank, t.admit)
	<-t.slots
	if err != nil {
		return // a stranger, for whom no rank here waits
	}
	if !t.track(conn, time.Time{}) {
		return
	}
	r := bufio.NewReaderSize(conn, 64*kib)
	var head [frameHead]byte
	for {
		m, err := readFrame(r, &head, &c.in.pool, c.cfg.MaxMessage)
		if errors.Is(err, ErrCorrupt) {
			// The peer proved to be of this job, so this is damage.
			c.fail(fmt.Errorf("from rank %d: %w", from, err))
			return
		}
		if err != nil {
			t.lost(from, err)
			return
		}
		m.src = from
		c.in.deliver(m)
	}
}

// admit decides whether a rank that knows the token may send to us. A second connection is
// refused: its messages could overtake those before.
func (t *tcpPort) admit(from int) error {
	cfg := &t.comm.cfg
	if from < 0 || from >= cfg.Size || t.comm.peers[from].local >= 0 || t.comm.chans != nil && !t.comm.chans.ep.Inside(from) {
		return fmt.Errorf("rank %d is not on another node", from)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from[from] {
		return fmt.Errorf("rank %d is connected already", from)
	}
	t.from[from] = true
	return nil
}

func (t *tcpPort) lost(peer int, err error) {
	if t.comm.err() == nil && t.comm.cfg.Lost != nil {
		t.comm.cfg.Lost(peer, err)
	}
}

// send writes a message to a rank of another node. The caller holds p.mu.
func (t *tcpPort) send(dst int, p *peer, env envelope, data []byte) error {
	oc := &p.conn
	if oc.conn == nil && oc.lost == nil {
		conn, err := t.dial(dst)
		if errors.Is(err, errRefused) {
			return err
		}
		oc.conn, oc.lost, oc.buf = conn, err, make([]byte, smallFrame)
		if err != nil {
			t.lost(dst, err)
		}
	}
	if oc.lost == nil {
		if err := oc.write(env, data); err != nil {
			oc.lost = err
			t.drop(oc.conn)
			oc.conn = nil
			t.lost(dst, err)
		}
	}
	if oc.lost == nil {
		return nil
	}
	<-t.comm.done
	return fmt.Errorf("%w (the connection was lost: %v)", t.comm.err(), oc.lost)
}

func (oc *outConn) write(env envelope, data []byte) error {
	f := frame{env, uint64(len(data))}
	f.encode(oc.buf)
	if frameHead+len(data) <= len(oc.buf) {
		n := copy(oc.buf[frameHead:], data)
		_, err := oc.conn.Write(oc.buf[:frameHead+n])
		return err
	}
	oc.vec = [2][]byte{oc.buf[:frameHead], data}
	pieces := net.Buffers(oc.vec[:])
	_, err := pieces.WriteTo(oc.conn)
	oc.vec = [2][]byte{}
	return err
}

func (t *tcpPort) dial(dst int) (net.Conn, error) {
	cfg := &t.comm.cfg
	ctx, cancel := context.WithTimeout(t.ctx, cfg.HandshakeTimeout)
	defer cancel()
	conn, err := cfg.Dial(ctx, cfg.Peers[dst])
	if err != nil {
		return nil, err
	}
	err = context.Canceled // what it is if track fails
	if deadline, _ := ctx.Deadline(); t.track(conn, deadline) {
		err = DialHandshake(conn, cfg.Token, cfg.Rank, dst)
	}
	if err == nil && !t.track(conn, time.Time{}) {
		err = context.Canceled
	}
	if err != nil {
		t.drop(conn)
		return nil, fmt.Errorf("connection to %s: %w", cfg.Peers[dst], err)
	}
	return conn, nil
}

// frameHead is the size of the header in front of each message on a TCP connection.
const frameHead = 20

const frameMark = 'M'

type frame struct {
	envelope
	length uint64
}

func (f *frame) encode(b []byte) {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = frameMark, byte(f.ctx), 0, 0
	le.PutUint32(b[4:], uint32(f.tag))
	le.PutUint64(b[8:], f.length)
	le.PutUint32(b[16:], crc32.Checksum(b[:16], castagnoli))
}

// readFrame reads one message into memory from pool. It returns io.EOF only at a boundary between
// frames. The header has a checksum because a length read from the wrong place would otherwise
// have us wait for bytes that never come.
func readFrame(r io.Reader, head *[frameHead]byte, pool *messagePool, maxMessage int) (*message, error) {
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if le.Uint32(head[16:]) != crc32.Checksum(head[:16], castagnoli) || head[0] != frameMark || head[2] != 0 || head[3] != 0 {
		return nil, fmt.Errorf("%w frame header", ErrCorrupt)
	}
	f := frame{envelope{msgContext(head[1]), int32(le.Uint32(head[4:]))}, le.Uint64(head[8:])}
	if !f.valid() || f.length > uint64(maxMessage) {
		return nil, fmt.Errorf("%w frame header: %+v", ErrCorrupt, f)
	}
	m := pool.get(int(f.length))
	m.envelope = f.envelope
	if _, err := io.ReadFull(r, m.data); err != nil {
		pool.put(m)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return m, nil
}

// Dial connects like net.Dialer. While descriptors, memory or places in a backlog are short it
// tries again, with growing pauses, until ctx ends.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dialAgain(ctx, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	})
}

func dialAgain(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	pause := time.Millisecond
	for {
		conn, err := dial(ctx)
		// ENOSPC is epoll's: there are too many watches.
		if err == nil || !Shortage(err) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.ENOBUFS) {
			return conn, err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Shortage reports whether descriptors or memory are short, so that waiting may help.
func Shortage(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN},
		func(is error) bool { return errors.Is(err, is) })
}
