package dmtcptest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A program counts. Its count is in the files that DMTCP writes beside the images.
type program struct {
	conn    net.Conn
	dir     string // of the images
	steps   int
	pause   time.Duration
	step    int
	missing int // processes that do not come back
	// The shell that the program runs in, and the file that it marks the end in.
	script, mark string
}

// countName is the file with the count.
const countName = "count"

func (p *program) run() int {
	rank := 0
	if _, ok := fault("with-rank"); ok {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		runtime.LockOSThread() // the signal is of this thread's end
		if err := cmd.Start(); err != nil {
			return complain("%v", err)
		}
		rank = cmd.Process.Pid
		go func() { _ = cmd.Wait() }()
	}
	fmt.Fprintf(p.conn, "program %d %d %d\n", os.Getpid(), Peers-p.missing, rank)
	orders := make(chan string)
	go func() {
		in := bufio.NewScanner(p.conn)
		for in.Scan() {
			orders <- in.Text()
		}
		close(orders)
	}()
	clock := time.NewTicker(p.pause)
	defer clock.Stop()
	var ended chan int // by itself: the program goes on in its shell for a while
	if p.step >= p.steps {
		ended = p.end(0)
	}
	for {
		select {
		case status := <-ended:
			return status
		case order, ok := <-orders:
			switch {
			case !ok:
				return complain("read invalid message. Did DMTCP coordinator die uncleanly?")
			case order == "kill":
				return 0
			case order == "checkpoint":
				if err := p.checkpoint(); err != nil {
					return complain("%v", err)
				}
				if _, ok := fault("hang-after"); ok {
					fmt.Fprintln(p.conn, "hangs")
					hang()
				}
				fmt.Fprintln(p.conn, "done")
			}
		case <-clock.C:
			if ended != nil || p.missing > 0 || held() {
				continue
			}
			p.step++
			fmt.Println(p.step)
			if status := p.fails(); status != 0 || p.step >= p.steps {
				ended = p.end(status)
			}
		}
	}
}

// end has the shell of the program do what it does when the program has ended with a status.
// The shell dies with this process.
func (p *program) end(status int) chan int {
	ended := make(chan int, 1)
	cmd := exec.Command("/bin/sh", "-c", p.script, "sh", p.mark, "sh", "-c", fmt.Sprintf("exit %d", status))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	go func() {
		runtime.LockOSThread()
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			ended <- complain("%v", err)
			return
		}
		ended <- cmd.ProcessState.ExitCode()
	}()
	return ended
}

// fails returns the exit status with which the program is to fail now, 0 if it is not.
func (p *program) fails() int {
	for _, name := range []string{fmt.Sprintf("exit at %d with ", p.step), "exit with "} {
		what, ok := fault(name)
		if !ok {
			continue
		}
		status, err := strconv.Atoi(what)
		if err != nil {
			return complain("%v", err)
		}
		return status
	}
	return 0
}

// checkpoint writes the images of all processes.
func (p *program) checkpoint() error {
	if _, ok := fault("hang-checkpoint"); ok {
		hang()
	}
	for {
		if _, ok := fault("wait-checkpoint"); !ok {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c := Job(Ranks, Options{Seed: 7, Name: "count", Private: 64 << 10, Shared: 64 << 10, Libraries: 64 << 10})
	if err := c.WriteDir(p.dir); err != nil {
		return err
	}
	image := filepath.Join(p.dir, c.Images[0].FileName())
	count := fmt.Sprintf("%d %d %s %q %q", p.step, p.steps, p.pause, p.script, p.mark)
	if err := os.WriteFile(filepath.Join(companions(image), countName), []byte(count), 0o600); err != nil {
		return err
	}
	if _, ok := fault("missing-image"); ok {
		return os.Remove(image)
	}
	if _, ok := fault("temp-left"); ok {
		return os.Rename(image, image+".temp")
	}
	if _, ok := fault("short-image"); ok {
		return os.Truncate(image, c.Images[0].Size()/2)
	}
	return nil
}

func companions(image string) string { return strings.TrimSuffix(image, ".dmtcp") + "_files" }

// restore reads the count of the images of a checkpoint.
func restore(images []string) (*program, error) {
	if len(images) != Peers {
		return nil, fmt.Errorf("%d images of %d processes", len(images), Peers)
	}
	var count string
	for _, image := range images {
		if fi, err := os.Stat(image); err != nil || fi.Size() < 4096 {
			return nil, fmt.Errorf("failed to read checkpoint image %s: %v", image, err)
		}
		if b, err := os.ReadFile(filepath.Join(companions(image), countName)); err == nil {
			count = string(b)
		}
	}
	p := &program{}
	var pause string
	if _, err := fmt.Sscanf(count, "%d %d %s %q %q", &p.step, &p.steps, &pause, &p.script, &p.mark); err != nil {
		return nil, errors.New("no image has the count")
	}
	var err error
	p.pause, err = time.ParseDuration(pause)
	return p, err
}

// hang waits until the process is killed. Without cgo, Go ends a process whose goroutines all
// wait for each other; one that sleeps does not count.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

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
