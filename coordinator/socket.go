package coordinator

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
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
	at := s.run.Socket()
	if network != "unix" {
		at = "127.0.0.1:0"
	}
	if listen != "" {
		err = s.listenAt(listen)
	} else if s.listener, err = net.Listen(network, at); err == nil {
		s.address = network + ":" + s.listener.Addr().String()
	}
	if err != nil {
		return errors.Join(err, s.run.Remove())
	}
	return nil
}

// announce tells commands through the store where the socket is.
func (s *socket) announce(j *image.Job) error { return wire.Announce(j, s.address, s.token) }

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

// hurry has the open connections read no more commands, and lets them write until then.
func (c *connections) hurry(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for conn := range c.open {
		_, _ = conn.SetReadDeadline(time.Now()), conn.SetWriteDeadline(until)
	}
}

func (c *connections) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for conn := range c.open {
		conn.Close()
	}
}
