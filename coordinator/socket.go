package coordinator

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire"
	"ckpt/image"
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
