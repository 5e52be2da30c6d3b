package wire

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/mpi"
)

// Encrypted connections of a run: TLS 1.3 between processes that know its token.
//
// Each process derives the same Ed25519 key from the token, with HKDF, and signs a certificate
// with it. Both ends present theirs, and accept no other key. So a process without the token can
// neither connect nor answer in the place of another, and a recorded connection reads as noise:
// TLS 1.3 agrees on keys that the token does not reveal.

// TLS is the network of these connections in addresses.
const TLS = "tls"

// proofTime is how long either end may take to prove that it knows the token.
const proofTime = 10 * time.Second

// errStranger refuses a certificate that was made of another token.
var errStranger = errors.New("the other end does not belong to this run")

// A Key is what a process derives from the token of its run.
type Key struct{ config *tls.Config }

func NewKey(token string) (*Key, error) {
	if token == "" {
		return nil, errors.New("no token of a run")
	}
	seed, err := hkdf.Key(sha256.New, []byte(token), nil, "ckpt connection key 1", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	// The key is what counts. Names and dates of the certificate are not looked at, so that
	// clocks may differ.
	like := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<37, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, like, like, public, private)
	if err != nil {
		return nil, err
	}
	return &Key{&tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: private}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // no authority has signed it; VerifyConnection compares the key
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return errStranger
			}
			return nil
		},
		// A ticket would lie unread in a connection whose dialler only writes. Closing that
		// connection would then destroy what is on its way.
		SessionTicketsDisabled: true,
		// Checkpoints are long: whole records from the first byte on.
		DynamicRecordSizingDisabled: true,
	}}, nil
}

func (k *Key) Dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, proofTime)
	defer done()
	plain, err := mpi.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &SecureConn{tls.Client(plain, k.config)}
	if err := c.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return c, nil
}

const (
	// MaxUnproven bounds the connections of a listener whose other ends have not proved
	// themselves.
	MaxUnproven = 256
	// slow is how long one of them may take when others wait. A rank needs milliseconds.
	slow = time.Second
)

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

// A listener has strangers prove themselves beside each other, so that a silent one holds up no
// rank.
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

func (l *listener) prove(plain net.Conn) {
	c := &SecureConn{tls.Server(plain, l.key.config)}
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

// A SecureConn is a connection whose other end has proved that it knows the token.
type SecureConn struct{ *tls.Conn }

// Close ends the connection at once, without a farewell, for which it would have to wait while
// the other end does not read. Every message has its length, so that a cut one is noticed.
func (c *SecureConn) Close() error { return c.NetConn().Close() }

// HangUp tells the other end that nothing more comes, also while a message waits for it to read.
// Its messages can still be received.
func (c *SecureConn) HangUp() {
	if tcp, ok := c.NetConn().(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // an error means that the connection has ended
	}
}

// SetPatience ends the connection when the other host has acknowledged nothing for so long.
func (c *SecureConn) SetPatience(d time.Duration) error {
	tcp, ok := c.NetConn().(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
