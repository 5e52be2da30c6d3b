package coordinator

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
	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/wording"
)

// A socket is where ranks and commands reach the coordinator.
type socket struct {
	run      *launch.RunDir
	token    string
	address  string // network, colon, address
	listener net.Listener
	conns    connections
	untold   bool // commands do not know the address
}

// open makes the socket of a run on some nodes. The network is unix; tests also measure
// tcp. With an address to listen on, ranks on other hosts reach it as well.
func (s *socket) open(network, listen string, nodes int) error {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	s.token = hex.EncodeToString(secret)
	var err error
	if s.run, err = launch.NewRunDir(mpi.SegmentDir(0), nodes); err != nil {
		return &launch.TempError{Err: err}
	}
	switch {
	case listen != "":
		err = s.listenAt(listen)
	case network == "unix":
		l := new(lasting)
		s.listener, err = l, l.renew(s.run.Socket())
	default:
		s.listener, err = net.Listen(network, "127.0.0.1:0")
	}
	if err == nil && listen == "" {
		s.address = network + ":" + s.listener.Addr().String()
	}
	if err != nil {
		return errors.Join(err, s.run.Remove())
	}
	return nil
}

// announce tells commands through the store where the socket is.
func (s *socket) announce(j *image.Job) error { return wire.Announce(j, s.address, s.token) }

// mend makes the directory of the run and the socket again, as far as they have gone, and
// tells commands where it is now.
func (s *socket) mend(j *image.Job) error {
	if err := s.run.Mend(); err != nil {
		return &launch.TempError{Err: err}
	}
	if l, ok := s.listener.(*lasting); ok {
		at := s.run.Socket()
		if fi, err := os.Lstat(at); err != nil || fi.Mode()&fs.ModeSocket == 0 {
			if err := l.renew(at); err != nil {
				return &launch.TempError{Err: err}
			}
			s.address, s.untold = "unix:"+at, true
		}
	}
	if s.untold {
		s.untold = s.announce(j) != nil
	}
	return nil
}

// mendPeriod is how long a coordinator may not be reached whose socket has gone.
const mendPeriod = 2 * time.Second

// mendUntil has mend called again and again until done is closed.
func mendUntil(done <-chan struct{}, mend func()) {
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

// close ends all connections.
func (s *socket) close() {
	s.listener.Close()
	s.conns.end()
}

// remove removes what open has made, after all that used it has ended. Job is nil if it
// was not announced.
func (s *socket) remove(j *image.Job) {
	if j != nil {
		wire.Withdraw(j)
	}
	s.run.Remove()
}

// connections are the open ones: the end of the run ends them, whatever they
// are waiting for.
type connections struct {
	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
}

func (c *connections) add(conn net.Conn) bool {
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

func (c *connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

func (c *connections) end() {
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

// listenAddress reads what {listen} takes, HOST or HOST:PORT, and returns the address to
// listen on. Other hosts are told this address: it must name one interface.
func listenAddress(listen string) (string, error) {
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
func (s *socket) listenAt(address string) error {
	key, err := wire.NewKey(s.token)
	if err != nil {
		return err
	}
	if s.listener, err = key.Listen(address); err != nil {
		return err
	}
	s.address = wire.TLS + ":" + s.listener.Addr().String()
	return nil
}
