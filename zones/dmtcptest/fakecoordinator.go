package dmtcptest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
)

// A server is the coordinator: it has at most one program, and passes orders to it.
type server struct {
	mu       sync.Mutex
	program  net.Conn // nil if there is none
	pid      int
	rank     int // another process, 0 without
	peers    int
	stopped  bool          // for a checkpoint
	hangs    bool          // the program does not compute again
	finished chan struct{} // closed when the checkpoint is written, or the program is gone
}

func coordinate(args []string) int {
	a := read(args, "q")
	if a.set["p"] != "0" || a.set["i"] != "0" || a.set["stale-timeout"] != "-1" || os.Getenv("DMTCP_CHECKPOINT_DIR") != a.set["ckptdir"] {
		return complain("settings %v", a.set)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return complain("%v", err)
	}
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	for file, text := range map[string]string{a.set["status-file"]: "Port: " + port + "\n", a.set["port-file"]: port} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return complain("%v", err)
		}
	}
	s := &server{}
	for {
		conn, err := l.Accept()
		if err != nil {
			return complain("%v", err)
		}
		go s.serve(conn)
	}
}

func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	if !in.Scan() {
		return
	}
	what, rest, _ := strings.Cut(in.Text(), " ")
	if what == "command" {
		fmt.Fprint(conn, s.obey(rest))
		return
	}
	s.mu.Lock()
	s.program = conn
	_, _ = fmt.Sscan(rest, &s.pid, &s.peers, &s.rank)
	s.mu.Unlock()
	for in.Scan() {
		if in.Text() == "hangs" {
			s.mu.Lock()
			s.hangs = true
			s.mu.Unlock()
		}
		s.finish(conn)
	}
	s.mu.Lock()
	s.program, s.peers = nil, 0
	s.mu.Unlock()
	s.finish(nil)
}

// finish ends a checkpoint.
func (s *server) finish(program net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = program
	if s.stopped {
		s.stopped = false
		close(s.finished)
	}
}

// obey carries out a command of dmtcp_command.
func (s *server) obey(what string) string {
	s.mu.Lock()
	program, finished := s.program, make(chan struct{})
	running := program != nil && !s.stopped && !s.hangs
	if what == "-bc" && running {
		s.stopped, s.finished = true, finished
	}
	pid, peers, rank := s.pid, s.peers, s.rank
	s.mu.Unlock()
	switch {
	case what == "-s":
		return fmt.Sprintf("Coordinator:\nStatus...\n  NUM_PEERS=%d\n  RUNNING=%s\n", peers, map[bool]string{true: "yes", false: "no"}[running])
	case what == "-l" && program != nil:
		list := fmt.Sprintf("Client List:\n1, count[40000:%d]@host, 7f-40000-66a, WorkerState::RUNNING, \n", pid)
		if rank > 0 {
			list += fmt.Sprintf("2, count[40001:%d]@host, 7f-40001-66a, WorkerState::RUNNING, \n", rank)
		}
		return list
	case what == "-k" && program != nil:
		fmt.Fprintln(program, "kill")
	case what == "-bc" && !running:
		return "not running\n"
	case what == "-bc":
		fmt.Fprintln(program, "checkpoint")
		<-finished
	}
	return ""
}
