package wire

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"ckpt/coordinator/mpi"
)

// FromCoordinator stands for the rank of the coordinator.
const FromCoordinator = math.MaxUint32

// Self is a process of a run, as it proves itself to others.
type Self struct {
	Rank    int
	Token   string
	Network Network
}

// Dial connects to a rank, and proves that both ends belong to the run.
func (s Self) Dial(ctx context.Context, rank int, address string) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, GreetingTime)
	defer done()
	conn, err := s.Network.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = mpi.DialHandshake(conn, []byte(s.Token), s.Rank, rank)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Listen has serve handle each process of the run that connects.
func (s Self) Listen(serve func(conn net.Conn, from int)) (*Port, error) {
	l, err := s.Network.Listen()
	if err != nil {
		return nil, err
	}
	return s.listen(l, serve), nil
}

func (s Self) listen(l net.Listener, serve func(net.Conn, int)) *Port {
	p := &Port{self: s, listener: l, serve: serve, conns: make(map[net.Conn]bool)}
	p.workers.Go(func() { AcceptAll(l, p.welcome, GreetingTime, func(error) {}) }) // others lose patience
	return p
}

// A Port takes connections of other processes of the run.
type Port struct {
	self     Self
	listener net.Listener
	serve    func(net.Conn, int)
	workers  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func (p *Port) Address() string { return p.listener.Addr().String() }

// Close ends all connections, and waits until nothing is served any more.
func (p *Port) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.workers.Wait()
}

func (p *Port) welcome(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Close()
		return
	}
	p.conns[conn] = true
	p.workers.Go(func() {
		defer p.forget(conn)
		if from, err := p.prove(conn); err == nil { // else a stranger
			p.serve(conn, from)
		}
	})
}

func (p *Port) prove(conn net.Conn) (from int, err error) {
	if err := conn.SetDeadline(time.Now().Add(GreetingTime)); err != nil {
		return 0, err
	}
	from, err = mpi.AcceptHandshake(conn, []byte(p.self.Token), p.self.Rank, func(int) error { return nil })
	if err != nil {
		return 0, err
	}
	return from, conn.SetDeadline(time.Time{})
}

func (p *Port) forget(conn net.Conn) {
	conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// A Network is how processes of a run reach each other: over the loopback interface if the
// coordinator is reached through a socket of this host, else encrypted, over the interface that
// reaches the coordinator.
type Network struct {
	key  *Key   // nil: plain
	host string // address of the interface
	port string // to listen at; "": any
}

var Loopback = Network{host: "127.0.0.1"}

func NetworkOf(conn net.Conn, token string) (Network, error) {
	if _, ok := conn.(*SecureConn); !ok {
		return Loopback, nil
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return Network{}, fmt.Errorf("address of this host: %w", err)
	}
	return EncryptedPeers(host, token)
}

// EncryptedPeers is the network of a run on several hosts, at the address of an interface.
func EncryptedPeers(host, token string) (Network, error) {
	key, err := NewKey(token)
	return Network{key: key, host: host}, err
}

// Remote reports whether processes may be on other hosts.
func (n Network) Remote() bool { return n.key != nil }

// At is the network with a port to listen at.
func (n Network) At(port string) Network {
	n.port = port
	return n
}

func (n Network) Listen() (net.Listener, error) {
	address := net.JoinHostPort(n.host, cmp.Or(n.port, "0"))
	if n.key != nil {
		return n.key.Listen(address)
	}
	return net.Listen("tcp", address)
}

func (n Network) Dial(ctx context.Context, address string) (net.Conn, error) {
	if n.key != nil {
		return n.key.Dial(ctx, address)
	}
	return mpi.Dial(ctx, "tcp", address)
}

// A request, little-endian:
//
//	u32 number   u8 operation   u8 0      u16 bytes of name   u16 bytes of other   u16 0
//	u32 handle   u32 bytes of data       i64 offset          i64 size
//	name, other name, data
//
// and its answer:
//
//	u32 number   u8 status   u8 0, u16 0   u32 bytes of data   i64 value
//	data
//
// Number 0 is a sign of life of the server, which answers nothing.
const (
	requestBytes = 36
	answerBytes  = 20
	// maxData is the most that a request or its answer carries; larger reads and writes are cut.
	maxData = 1 << 20
	// maxList bounds an answer with a list.
	maxList = 4 << 20
	maxName = 4096
	// inFlight is how many requests a connection has at a time. With their data they bound the
	// memory of the server.
	inFlight = 8
	// maxOpen bounds what a connection has open.
	maxOpen = 1024
)

const (
	opHello = iota + 1
	opCreate
	opOpen
	opOpenWrite
	opRename
	opRemove
	opMkdir
	opReadDir
	opStat
	opSyncDir
	opLock
	opFree
	opReadAt
	opWriteAt
	opSync
	opSize
	opPreallocate
	opTruncate
	opClose
	opContribute
	opAdd
	opEnd
	opAsk
)

const (
	statusDone = iota
	statusEnd  // done, at the end of the file
	statusFailed
)

type request struct {
	number    uint32
	op        byte
	handle    uint32
	off, size int64
	name, to  string
	data      []byte
}

func (q *request) appendTo(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, q.number)
	b = append(b, q.op, 0)
	b = le.AppendUint16(b, uint16(len(q.name)))
	b = le.AppendUint16(b, uint16(len(q.to)))
	b = append(b, 0, 0)
	b = le.AppendUint32(b, q.handle)
	b = le.AppendUint32(b, uint32(len(q.data)))
	b = le.AppendUint64(b, uint64(q.off))
	b = le.AppendUint64(b, uint64(q.size))
	return append(append(b, q.name...), q.to...)
}

// read reads a request into buffer, which holds maxData bytes once one is needed.
func (q *request) read(r io.Reader, buffer func(n int) []byte) error {
	var h [requestBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	q.number, q.op, q.handle = le.Uint32(h[0:]), h[4], le.Uint32(h[12:])
	q.off, q.size = int64(le.Uint64(h[20:])), int64(le.Uint64(h[28:]))
	name, to, data := int(le.Uint16(h[6:])), int(le.Uint16(h[8:])), le.Uint32(h[16:])
	if name > maxName || to > maxName || data > maxData || q.off < 0 || q.size < 0 {
		return fmt.Errorf("request %d is malformed", q.number)
	}
	names := make([]byte, name+to)
	if _, err := io.ReadFull(r, names); err != nil {
		return err
	}
	q.name, q.to, q.data = string(names[:name]), string(names[name:]), nil
	if data == 0 {
		return nil
	}
	q.data = buffer(int(data))
	_, err := io.ReadFull(r, q.data)
	return err
}

type answer struct {
	number uint32
	status byte
	value  int64
	data   []byte
}

func (a *answer) writeTo(w io.Writer) error {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, answerBytes), a.number)
	b = append(b, a.status, 0, 0, 0)
	b = le.AppendUint32(b, uint32(len(a.data)))
	b = le.AppendUint64(b, uint64(a.value))
	bufs := net.Buffers{b}
	if len(a.data) > 0 {
		bufs = append(bufs, a.data)
	}
	_, err := bufs.WriteTo(w)
	return err
}

// readHead reads all but the data, and returns their length.
func (a *answer) readHead(r io.Reader) (data int, err error) {
	var h [answerBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	a.number, a.status, a.value = le.Uint32(h[0:]), h[4], int64(le.Uint64(h[12:]))
	n := le.Uint32(h[8:])
	if n > maxList || a.status > statusFailed || a.value < 0 {
		return 0, fmt.Errorf("answer %d is malformed", a.number)
	}
	return int(n), nil
}
