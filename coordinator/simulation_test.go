package coordinator

import (
	"bytes"
	"context"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
)

// simulation launches ranks that are only connections. One goroutine serves
// all of them with epoll, so that what a benchmark measures is the coordinator
// and not thousands of goroutines that stand in for other machines.
type simulation struct {
	epoll int
	wake  int // an eventfd that ends the loop
	loop  sync.WaitGroup

	mu    sync.Mutex
	ranks map[int32]*simulatedRank // by descriptor
}

func newSimulation() (*simulation, error) {
	s := &simulation{ranks: map[int32]*simulatedRank{}}
	var err error
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, err
	}
	if err := s.add(s.wake); err != nil {
		return nil, err
	}
	s.loop.Go(s.serve)
	return s, nil
}

func (s *simulation) add(fd int) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (s *simulation) close() {
	_, _ = unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	s.loop.Wait()
	unix.Close(s.epoll)
	unix.Close(s.wake)
}

// simulatedRank answers at once: it ends its iteration whenever it is told
// where to stop.
type simulatedRank struct {
	fd     int
	id     int
	member *protocol.Member
	in     []byte
	peers  []protocol.Count
	over   chan struct{}
	ended  func(string)
	once   sync.Once
}

func (r *simulatedRank) Done() <-chan struct{} { return r.over }
func (r *simulatedRank) PID() int              { return 0 }
func (r *simulatedRank) Explains() bool        { return true }

func (r *simulatedRank) Kill() {
	r.once.Do(func() {
		unix.Close(r.fd)
		close(r.over)
		go r.ended("left")
	})
}

func (s *simulation) Start(at launch.Rank, ended func(string)) (launch.Process, error) {
	conn, err := wire.Dial(context.Background(), at.Socket, at.Token)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := wire.Greet(conn, wire.Greeting{Token: at.Token, Role: wire.RoleRank, Rank: at.Rank, Incarnation: at.Incarnation}); err != nil {
		return nil, err
	}
	var fd int
	raw, err := conn.(interface {
		net.Conn
		syscall.Conn
	}).SyscallConn()
	if err != nil {
		return nil, err
	}
	if cerr := raw.Control(func(f uintptr) { fd, err = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil || err != nil {
		return nil, err
	}
	r := &simulatedRank{fd: fd, id: at.Rank, member: protocol.NewMember(0), over: make(chan struct{}), ended: ended,
		peers: []protocol.Count{{Peer: 0, N: 1}, {Peer: at.Rank, N: 1}}}
	r.tell(protocol.Hello{})
	s.mu.Lock()
	s.ranks[int32(fd)] = r
	s.mu.Unlock()
	return r, s.add(fd)
}

func (s *simulation) serve() {
	events := make([]unix.EpollEvent, 256)
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		for _, ev := range events[:n] {
			if int(ev.Fd) == s.wake {
				return
			}
			s.mu.Lock()
			r := s.ranks[ev.Fd]
			s.mu.Unlock()
			n, err := unix.Read(r.fd, buf)
			if n <= 0 && err != unix.EAGAIN {
				r.Kill()
				continue
			}
			r.take(buf[:max(0, n)])
		}
	}
}

// take handles all whole messages that have arrived.
func (r *simulatedRank) take(b []byte) {
	r.in = append(r.in, b...)
	in := bytes.NewReader(r.in)
	for {
		rest := in.Len()
		m, err := protocol.ReadFrame(in)
		if err != nil {
			r.in = append(r.in[:0], r.in[len(r.in)-rest:]...)
			return
		}
		r.handle(m)
	}
}

func (r *simulatedRank) handle(m protocol.Message) {
	events := []protocol.MemberEvent{protocol.Received{Message: m}}
	switch m.(type) {
	case protocol.Welcome:
		r.tell(protocol.Ready{})
	case protocol.StopAt:
		events = append(events, protocol.Reached{Iter: r.member.Iteration(), Counts: r.peers})
	case protocol.Drain:
		events = append(events, protocol.DrainDone{})
	case protocol.Write:
		events = append(events, protocol.WriteEnded{Text: "simulated"})
	}
	for _, ev := range events {
		for _, a := range r.member.Step(ev) {
			switch a := a.(type) {
			case protocol.Tell:
				r.tell(a.Message)
			case protocol.Leave:
				r.Kill()
			}
		}
	}
}

func (r *simulatedRank) tell(m protocol.Message) {
	if frame, err := protocol.AppendFrame(nil, m); err == nil {
		_, _ = unix.Write(r.fd, frame)
	}
}
