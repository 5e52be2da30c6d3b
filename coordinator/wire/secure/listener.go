package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// MaxUnproven bounds the connections of a listener whose other ends have not proved
	// themselves.
	MaxUnproven = 256
	// slow is how long one of them may take when others wait. A rank needs milliseconds.
	slow = time.Second
)

// Listen takes connections of processes that know the token.
func (k *Key) Listen(address string) (net.Listener, error) { return k.listen(address, slow) }

func (k *Key) listen(address string, slow time.Duration) (net.Listener, error) {
	inner, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &listener{Listener: inner, key: k, slow: slow, proved: make(chan arrival), slots: make(chan struct{}, MaxUnproven),
		unproven: make(map[net.Conn]time.Time)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.workers.Go(l.take)
	return l, nil
}

// A listener has strangers prove themselves beside each other, so that one that says
// nothing holds up no rank.
type listener struct {
	net.Listener
	key     *Key
	slow    time.Duration
	ctx     context.Context // ends when it is closed
	cancel  context.CancelFunc
	proved  chan arrival
	slots   chan struct{}
	workers sync.WaitGroup

	mu       sync.Mutex
	unproven map[net.Conn]time.Time // since when
}

type arrival struct {
	conn net.Conn
	err  error
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.proved:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends the listener, and the connections that Accept has not returned.
func (l *listener) Close() error {
	l.cancel()
	err := l.Listener.Close()
	l.dropOlder(0)
	l.workers.Wait()
	return err
}

// take takes connections until the listener is closed.
func (l *listener) take() {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.pass(arrival{err: err})
		case l.enter(conn):
			l.workers.Go(func() { l.prove(conn) })
		default:
			conn.Close()
		}
	}
}

// enter waits for a slot. While all are taken, the slowest connections make room.
func (l *listener) enter(conn net.Conn) bool {
	for {
		select {
		case l.slots <- struct{}{}:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.unproven[conn] = time.Now()
			return l.ctx.Err() == nil
		case <-time.After(l.slow):
			l.dropOlder(l.slow)
		case <-l.ctx.Done():
			return false
		}
	}
}

func (l *listener) dropOlder(than time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn, since := range l.unproven {
		if time.Since(since) >= than {
			conn.Close()
		}
	}
}

// prove has the other end prove that it knows the token.
func (l *listener) prove(plain net.Conn) {
	c := &Conn{tls.Server(plain, l.key.config)}
	ctx, done := context.WithTimeout(l.ctx, proofTime)
	err := c.HandshakeContext(ctx)
	done()
	l.mu.Lock()
	delete(l.unproven, plain)
	l.mu.Unlock()
	<-l.slots
	if err != nil || !l.pass(arrival{conn: c}) {
		plain.Close()
	}
}

// pass hands a connection to Accept, unless the listener is closed.
func (l *listener) pass(a arrival) bool {
	select {
	case l.proved <- a:
		return true
	case <-l.ctx.Done():
		return false
	}
}
