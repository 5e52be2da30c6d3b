package wire

import (
	"context"
	"fmt"
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
	return Network{key, host}, err
}

// Remote reports whether processes may be on other hosts.
func (n Network) Remote() bool { return n.key != nil }

func (n Network) Listen() (net.Listener, error) {
	address := net.JoinHostPort(n.host, "0")
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
