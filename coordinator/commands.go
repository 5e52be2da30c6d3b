package coordinator

import (
	"bufio"
	"net"
	"sync"
	"time"

	"ckpt/coordinator/wire"
	"ckpt/image"
)

// A CommandServer answers the commands of other processes about a job whose processes do
// not connect to its coordinator.
type CommandServer struct {
	socket  socket
	job     *image.Job
	obey    func(wire.Command, chan<- wire.Reply)
	done    chan struct{}
	serving sync.WaitGroup
	mending sync.Mutex
}

// ServeCommands announces the run of a job, and passes commands to obey, which answers
// each once, perhaps later.
func ServeCommands(j *image.Job, obey func(wire.Command, chan<- wire.Reply), failing func(error)) (*CommandServer, error) {
	s := &CommandServer{job: j, obey: obey, done: make(chan struct{})}
	if err := s.socket.open("unix", "", 1); err != nil {
		return nil, err
	}
	if err := s.socket.announce(j); err != nil {
		s.socket.close()
		s.socket.remove(j)
		return nil, err
	}
	s.serving.Go(func() {
		wire.AcceptAll(s.socket.listener, func(conn net.Conn) { s.serving.Go(func() { s.serve(conn) }) }, acceptPatience, failing)
	})
	s.serving.Go(func() { mendUntil(s.done, func() { _, _ = s.Scratch() }) })
	return s, nil
}

// acceptPatience is how long connections may fail before that is told.
const acceptPatience = 10 * time.Second

func (s *CommandServer) serve(conn net.Conn) {
	if !s.socket.conns.add(conn) {
		return
	}
	defer s.socket.conns.remove(conn)
	defer conn.Close()
	r := bufio.NewReaderSize(conn, wire.GreetingLimit)
	if g, err := wire.ReadGreeting(conn, r, s.socket.token); err == nil && g.Role == wire.RoleControl {
		answerCommands(conn, r, s.done, s.obey)
	}
}

// Scratch is a directory of this run, outside the store. It is made again if it has gone.
func (s *CommandServer) Scratch() (string, error) {
	s.mending.Lock()
	defer s.mending.Unlock()
	err := s.socket.mend(s.job)
	return s.socket.run.Scratch(0), err
}

// Close ends all connections, after it has passed on the answers that were given.
func (s *CommandServer) Close() {
	close(s.done)
	s.socket.listener.Close()
	s.socket.conns.hurry(time.Now().Add(time.Second))
	s.serving.Wait()
	s.socket.close()
	s.socket.remove(s.job)
}
