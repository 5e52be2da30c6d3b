package launch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/wording"
)

// A Socket is where ranks and commands reach the coordinator.
type Socket struct {
	Run      *RunDir
	Token    string
	Address  string // network, colon, address
	Listener net.Listener
	Conns    Connections
	untold   bool // commands do not know the address
}

// Open makes the socket of a run on some nodes. The network is unix; tests also measure
// tcp. With an address to listen on, ranks on other hosts reach it as well.
func (s *Socket) Open(network, listen string, nodes int) error {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	s.Token = hex.EncodeToString(secret)
	var err error
	if s.Run, err = NewRunDir(mpi.SegmentDir(0), nodes); err != nil {
		return &TempError{Err: err}
	}
	switch {
	case listen != "":
		err = s.listenAt(listen)
	case network == "unix":
		l := new(lasting)
		s.Listener, err = l, l.renew(s.Run.Socket())
	default:
		s.Listener, err = net.Listen(network, "127.0.0.1:0")
	}
	if err == nil && listen == "" {
		s.Address = network + ":" + s.Listener.Addr().String()
	}
	if err != nil {
		return errors.Join(err, s.Run.Remove())
	}
	return nil
}

// Announce tells commands through the store where the socket is.
func (s *Socket) Announce(j *image.Job) error { return wire.Announce(j, s.Address, s.Token) }

// Mend makes the directory of the run and the socket again, as far as they have gone, and
// tells commands where it is now.
func (s *Socket) Mend(j *image.Job) error {
	if err := s.Run.Mend(); err != nil {
		return &TempError{Err: err}
	}
	if l, ok := s.Listener.(*lasting); ok {
		at := s.Run.Socket()
		if fi, err := os.Lstat(at); err != nil || fi.Mode()&fs.ModeSocket == 0 {
			if err := l.renew(at); err != nil {
				return &TempError{Err: err}
			}
			s.Address, s.untold = "unix:"+at, true
		}
	}
	if s.untold {
		s.untold = s.Announce(j) != nil
	}
	return nil
}

// mendPeriod is how long a coordinator may not be reached whose socket has gone.
const mendPeriod = 2 * time.Second

// MendUntil has mend called again and again until done is closed.
func MendUntil(done <-chan struct{}, mend func()) {
	again := time.NewTicker(mendPeriod)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			mend()
		case <-done:
			return
		}
	}
}

// Close ends all connections.
func (s *Socket) Close() {
	s.Listener.Close()
	s.Conns.End()
}

// Remove removes what Open has made, after all that used it has ended. Job is nil if it
// was not announced.
func (s *Socket) Remove(j *image.Job) {
	if j != nil {
		wire.Withdraw(j)
	}
	s.Run.Remove()
}

// Connections are the open ones: the end of the run ends them, whatever they
// are waiting for.
type Connections struct {
	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
}

// Add adds one, and reports whether it may stay open.
func (c *Connections) Add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		conn.Close()
		return false
	}
	if c.open == nil {
		c.open = map[net.Conn]bool{}
	}
	c.open[conn] = true
	return true
}

// Remove forgets one that is closed.
func (c *Connections) Remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// End closes all, and those that come.
func (c *Connections) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for conn := range c.open {
		conn.Close()
	}
}

// A lasting listener accepts connections on a Unix socket, and on another one once the file
// of the first has gone.
type lasting struct {
	mu     sync.Mutex
	now    *net.UnixListener
	closed bool
}

// renew listens on a socket of this name instead.
func (l *lasting) renew(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	next, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return next.Close()
	}
	if l.now != nil {
		l.now.SetUnlinkOnClose(false) // the next may have its name
		l.now.Close()
	}
	l.now = next
	return nil
}

func (l *lasting) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Accept implements net.Listener.
func (l *lasting) Accept() (net.Conn, error) {
	for {
		now := l.current()
		conn, err := now.Accept()
		if err == nil || now == l.current() {
			return conn, err
		}
	}
}

// Close implements net.Listener.
func (l *lasting) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.now.Close()
}

// Addr implements net.Listener.
func (l *lasting) Addr() net.Addr { return l.current().Addr() }

// ListenAddress reads what {listen} takes, HOST or HOST:PORT, and returns the address to
// listen on. Other hosts are told this address: it must name one interface.
func ListenAddress(listen string) (string, error) {
	bad := func(why string) (string, error) {
		return "", &job.UsageError{Text: wording.Sprintf("{listen} %s: %s", listen, why), Fix: "give an address of this host that the other hosts reach, like 10.0.0.1 or 10.0.0.1:7000"}
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(listen, "["), "]"), "0"
	}
	ips := []net.IP{net.ParseIP(host)}
	if host == "" {
		return bad("no address that other hosts can be told")
	}
	if ips[0] == nil {
		if ips, err = net.LookupIP(host); err != nil {
			return bad(fmt.Sprintf("the name has no address here: %v", err))
		}
		if ips = reachable(ips); len(ips) == 0 {
			return bad("the name means the loopback interface here, which other hosts do not reach")
		}
	}
	if ips[0].IsUnspecified() {
		return bad("all addresses of this host; other hosts can be told only one")
	}
	address := net.JoinHostPort(ips[0].String(), port)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return bad(reason(err))
	}
	return address, l.Close()
}

// reachable leaves out the loopback interface, to which distributions point the own name.
func reachable(ips []net.IP) []net.IP {
	var out []net.IP
	for _, ip := range ips {
		if !ip.IsLoopback() {
			out = append(out, ip)
		}
	}
	return out
}

// reason is an error of the network without what it was about.
func reason(err error) string {
	if op, ok := err.(*net.OpError); ok && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// listenAt opens the socket of the run for other hosts.
func (s *Socket) listenAt(address string) error {
	key, err := wire.NewKey(s.Token)
	if err != nil {
		return err
	}
	if s.Listener, err = key.Listen(address); err != nil {
		return err
	}
	s.Address = wire.TLS + ":" + s.Listener.Addr().String()
	return nil
}
